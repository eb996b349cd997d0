"""Trains the cells of the study of joint language models that have no results yet, and makes its pictures and its page.

python train/nnjm_grid.py zh-en multi30k sweeps --data-dir DIR
python train/nnjm_grid.py                                         pictures and page alone

The study is zoo/studies/nnjm.toml, which names the files in DIR; its results are in zoo/results, its page is
zoo/nnjm.md. After Ctrl-C the same command goes on.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

from keras_tying.study.joint_page import draw_pictures, write_page
from keras_tying.study.joint_study import JointStudy, load_study
from keras_tying.study.joint_training import train_grid
from keras_tying.training import run_command


def main() -> int:
    study = load_study()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grids", nargs="*", metavar="GRID", help=f"some of {', '.join(study.grids)}")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with the texts")
    parser.add_argument("--runs", type=Path, default=Path("runs/nnjm_grid"), help="folder of the cells' runs")
    parser.add_argument("--seeds", type=int, help="seeds of a cell at most")
    parser.add_argument("--main-only", action="store_true", help="leave out the variants")
    arguments = parser.parse_args()
    if unknown := set(arguments.grids) - set(study.grids):
        parser.error(f"unknown grids {sorted(unknown)}; known are {list(study.grids)}")
    if arguments.grids and arguments.data_dir is None:
        parser.error("training needs --data-dir")
    return run_command(lambda: work(study, arguments))


def work(study: JointStudy, arguments: argparse.Namespace) -> int:
    for grid in arguments.grids:
        train_grid(
            study, grid, arguments.data_dir, arguments.runs, seeds=arguments.seeds, main_only=arguments.main_only
        )
    for path in [*draw_pictures(arguments.runs), write_page()]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
