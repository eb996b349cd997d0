"""Trains the rows of the paper's tables and the points of its figures, several seeds each, and shows them.

python train/nnjm_grid.py zh-en multi30k sweeps --data-dir DIR      train what is not trained yet
python train/nnjm_grid.py --show                                    the page and the pictures, from the results

DIR holds `nnjm-zh-en/` (tiny_training, tiny_tune and p1r6_dev in .zh, .en and .align) and `multi30k/` (train,
val and test_2016_flickr in .fr.gz and .en.gz). A finished cell is in zoo/results and is not trained again.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

from keras_tying import data, zoo
from keras_tying.files import write_atomically
from keras_tying.tables import dump_table
from keras_tying.training import Run, environment
from keras_tying.training.joint_language_model import JointSchedule, train_joint_language_model
from keras_tying.training.joint_pictures import position_weights
from keras_tying.training.joint_runs import JointData, JointFiles, JointRunSettings, joint_results, vocabularies

RESULTS = Path(__file__).parents[1] / "zoo" / "results"

FIXED, ADAPTIVE = {"sections": 2, "split": "fixed"}, {"sections": 2, "split": "adaptive"}
BOOTSTRAPPED = {"trainable_embeddings": False}
BASE = "NNJM, SrcWin 3"
CELLS = {
    "NNLM": ("nnlm", {}),
    BASE: ("nnjm", {}),
    "NNJM-Global, SrcWin 3": ("nnjm_global", {}),
    "NNLM, tied": ("nnlm", {"tied": True}),
    "NNJM, tied": ("nnjm", {"tied": True}),
    "NNJM-Global, tied": ("nnjm_global", {"tied": True}),
    "NNJM, SrcWin 5": ("nnjm", {"window": 11}),
    "NNJM, SrcWin 7": ("nnjm", {"window": 15}),
    "NNLM-Global": ("nnjm_global", {"window": 0}),
    "NNJM-Global, SrcWin 5": ("nnjm_global", {"window": 11}),
    "NNJM-Global, SrcWin 7": ("nnjm_global", {"window": 15}),
    "NNJM-Global + SW-10": ("nnjm_global", {"stop_words": 10}),
    "NNJM-Global + SW-25": ("nnjm_global", {"stop_words": 25}),
    "NNJM-Global + FixSplit 2": ("nnjm_global", FIXED),
    "NNJM-Global + FixSplit 4": ("nnjm_global", {"sections": 4, "split": "fixed"}),
    "NNJM-Global + AdaSplit 2": ("nnjm_global", ADAPTIVE),
    "NNJM-Global + NL 192": ("nnjm_global", {"global_units": 192}),
    "NNJM-Global + FixSplit 2 + NL 192": ("nnjm_global", {**FIXED, "global_units": 192}),
    "NNJM-Global + AdaSplit 2 + NL 192": ("nnjm_global", {**ADAPTIVE, "global_units": 192}),
    "NNJM-Global + BS": ("nnjm_global", BOOTSTRAPPED),
    "NNJM-Global + FixSplit 2 + BS": ("nnjm_global", {**FIXED, **BOOTSTRAPPED}),
    "NNJM, 2 hidden layers": ("nnjm", {"hidden_units": [128, 128]}),
    "NNJM, rectify": ("nnjm", {"activation": "relu"}),
    "NNJM, leaky rectify": ("nnjm", {"activation": "leaky_relu"}),
    "NNJM-Global + NL 96": ("nnjm_global", {"global_units": 96}),
    "NNJM-Global + FixSplit 2 + NL 96": ("nnjm_global", {**FIXED, "global_units": 96}),
    "NNJM-Global + AdaSplit 2 + NL 96": ("nnjm_global", {**ADAPTIVE, "global_units": 96}),
}
SWEEPS = {
    "word vector size": {size: ("nnjm", {"embedding_size": size}) for size in (32, 64, 96, 128, 192)},
    "SrcWin": {0: ("nnlm", {}), **{m: ("nnjm", {"window": 2 * m + 1}) for m in (1, 2, 3, 5, 7)}},
    "target n-gram": {n: ("nnjm", {"order": n}) for n in (2, 3, 4, 5, 7)},
    "hidden units": {units: ("nnjm", {"hidden_units": [units]}) for units in (32, 64, 128, 256)},
    "learning rate": {rate: ("nnjm", {"learning_rate": rate}) for rate in (3.0, 1.0, 0.3, 0.1, 0.03)},
}
"""Points of figures 5 to 8 and 10; figure 9 is the history of one run."""
GRIDS = {
    "zh-en": {
        "data": JointData(source_vocabulary_size=5000, target_vocabulary_size=5000),
        "schedule": JointSchedule(epochs=12),
        "cells": CELLS,
    },
    "multi30k": {
        "data": JointData(
            tokenization="plain", source_vocabulary_size=5000, target_vocabulary_size=5000, sentences=8000
        ),
        "schedule": JointSchedule(epochs=12),
        "cells": CELLS,
    },
    "sweeps": {
        "data": JointData(source_vocabulary_size=5000, target_vocabulary_size=5000, sentences=5000),
        "schedule": JointSchedule(epochs=8),
        "cells": {
            f"{quantity}, {place}": cell
            for quantity, points in SWEEPS.items()
            for place, cell in enumerate(points.values())
        },
    },
}
MAIN = list(CELLS)[:8]
"""Cells that are trained first, and with three seeds; the others with two, the points of a sweep with one."""
SENTENCE_LENGTH = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grids", nargs="*", metavar="GRID", help=f"some of {list(GRIDS)}")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/nnjm_grid"), help="folder of the cells' runs")
    parser.add_argument("--seeds", type=int, default=3, help="seeds at most")
    parser.add_argument("--main-only", action="store_true", help="leave out the variants")
    parser.add_argument("--show", action="store_true", help="write zoo/nnjm.md and the pictures from the results")
    arguments = parser.parse_args()
    if unknown := set(arguments.grids) - set(GRIDS):
        parser.error(f"unknown grids {sorted(unknown)}; known are {list(GRIDS)}")
    if arguments.grids and arguments.data_dir is None:
        parser.error("training needs --data-dir")
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.grids:
        train_grid(name, arguments.data_dir, arguments.runs / name, todo(name, arguments.seeds, arguments.main_only))
    if arguments.show:
        from nnjm_page import show

        show(RESULTS, arguments.runs)
    return 0


def result_file(grid: str) -> Path:
    return RESULTS / f"nnjm_{grid.replace('-', '_')}.json"


def grid_files(name: str, data_dir: Path, runs: Path) -> dict[str, JointFiles]:
    if name != "multi30k":
        stems = {"train": "tiny_training", "valid": "tiny_tune", "test": "p1r6_dev"}
        return {
            split: JointFiles(
                **{
                    side: str(data_dir / "nnjm-zh-en" / f"{stem}.{end}")
                    for side, end in (("source", "zh"), ("target", "en"), ("alignment", "align"))
                }
            )
            for split, stem in stems.items()
        }
    stems = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    files = {
        split: JointFiles(source=str(data_dir / name / f"{stem}.fr.gz"), target=str(data_dir / name / f"{stem}.en.gz"))
        for split, stem in stems.items()
    }
    folder = runs / "alignment"
    if not folder.exists():
        data.align([each.bitext("plain") for each in files.values()], folder)
    return {
        split: each.model_copy(update={"alignment": str(folder / f"{place}.align")})
        for place, (split, each) in enumerate(files.items())
    }


def todo(name: str, seeds: int, main_only: bool) -> list[tuple[str, int]]:
    """Cells and seeds of a grid, in the order they are trained in."""
    if name == "sweeps":
        return [(cell, 1) for cell in GRIDS[name]["cells"]]
    others = [] if main_only else [cell for cell in CELLS if cell not in MAIN]
    return [
        (cell, seed)
        for cells, count in ((MAIN, 3), (others, 2))
        for seed in range(1, min(count, seeds) + 1)
        for cell in cells
    ]


def train_grid(name: str, data_dir: Path, runs: Path, cells: list[tuple[str, int]]) -> None:
    grid = GRIDS[name]
    files = grid_files(name, data_dir, runs)
    texts = {
        split: each.bitext(grid["data"].tokenization, grid["data"].sentences if split == "train" else None)
        for split, each in files.items()
    }
    words = vocabularies(texts["train"], grid["data"])
    samples = {split: text.encode(*words) for split, text in texts.items()}
    found = json.loads(result_file(name).read_text()) if result_file(name).exists() else {"cells": {}}
    found = {
        "grid": name,
        "command": f"python train/nnjm_grid.py {name} --data-dir DIR",
        "data": grid["data"].model_dump(),
        "schedule": grid["schedule"].model_dump(),
        "samples": {split: len(each) for split, each in samples.items()},
        **environment(),
        "cells": found["cells"],
    }
    for cell, seed in cells:
        model, arguments = grid["cells"][cell]
        entry = found["cells"].setdefault(cell, {"model": model, "arguments": arguments, "runs": {}})
        if str(seed) not in entry["runs"]:
            print(f"{name}: {cell}, seed {seed}", flush=True)
            entry["runs"][str(seed)] = train_cell(grid, cell, seed, samples, words, runs)
            write_atomically(result_file(name), (json.dumps(found, indent=1) + "\n").encode())


def train_cell(grid: dict, cell: str, seed: int, samples: dict, words: tuple, runs: Path) -> dict:
    name, arguments = grid["cells"][cell]
    arguments = dict(arguments)
    schedule = grid["schedule"]
    if "learning_rate" in arguments:
        schedule = schedule.model_copy(update={"learning_rate": arguments.pop("learning_rate")})
    source, target = words
    sizes = {"target_vocabulary_size": len(target)}
    if name != "nnlm":
        sizes["source_vocabulary_size"] = len(source)
    if name == "nnjm_global":
        sizes["sentence_length"] = SENTENCE_LENGTH
    keras.utils.set_random_seed(seed)
    keras.backend.clear_session()
    model = zoo.create_model(name, **sizes, **arguments)
    if "BS" in cell:
        model.bootstrap(**keras.saving.load_model(runs / f"{slug(BASE)}-{seed}.keras").word_vectors)
    settings = JointRunSettings(
        model=name,
        arguments=arguments,
        data=grid["data"],
        schedule=schedule,
        seed=seed,
        command="",
        files={},
        source_vocabulary_sha256=source.sha256,
        target_vocabulary_sha256=target.sha256,
    )
    folder = runs / f"{slug(cell)}-{seed}"
    run = Run.open(folder) if folder.exists() else Run.create(folder, dump_table(settings))
    progress = train_joint_language_model(model, samples["train"], samples["valid"], target, schedule, run, seed)
    results = joint_results(model, samples, settings, progress)
    model.save(runs / f"{slug(cell)}-{seed}.keras")
    shutil.rmtree(folder)
    return {
        "train": results["train_perplexity"],
        "valid": results["valid_perplexity"],
        "test": results["test_perplexity"],
        "parameters": results["parameters"],
        "epochs": results["epochs"],
        "samples_per_second": results["samples_per_second"],
        "valid_by_epoch": [logs["val_perplexity"] for logs in results["history"]],
        "position_weights": position_weights(model),
    }


def slug(cell: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in cell.lower()).split())


if __name__ == "__main__":
    sys.exit(main())
