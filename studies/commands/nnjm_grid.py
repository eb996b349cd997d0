"""`train/nnjm_grid.py`: trains the study of joint language models and draws its plots."""

import argparse
from pathlib import Path

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Option, file_option, whole
from keras_tying.tables import read_toml
from keras_tying.zoo.recipes import recipe_folder

DESCRIPTION = """Trains the cells of the study of joint language models that have no results, and draws its plots.

{command} zh-en multi30k sweeps --data-dir DIR
{command}                                         only the plots

The study is zoo/studies/nnjm.toml, which names the grids and their files in DIR; its results are in zoo/results, and
`make zoo` makes its page, zoo/nnjm.md. After Ctrl-C the same command resumes training. Several processes can train a
grid at once, in the same folder of runs: each takes the next cell that no other is training.
"""


def grid(name: str) -> str:
    """The type of a grid's name."""
    known = list(read_toml(recipe_folder() / "studies" / "nnjm.toml").get("grids", {}))
    if name not in known:
        raise argparse.ArgumentTypeError(f"unknown grids {[name]}; known are {known}")
    return name


def work(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.joint_language_models import train_and_draw

    return train_and_draw(arguments)


COMMAND = Command(
    "train the study of joint language models",
    DESCRIPTION,
    (
        Option(
            "grids",
            "grids of the study that are trained",
            default=[],
            positional=True,
            needs=("data-dir",),
            settings={"nargs": "*", "type": grid, "metavar": "GRID"},
        ),
        file_option("data-dir", "folder with the texts", metavar="DIR", needs=("grids",)),
        file_option("runs", "folder of the cells' runs", metavar="FOLDER", default=Path("runs/nnjm_grid")),
        Option("seeds", "maximum number of seeds per cell", needs=("grids",), settings={"type": whole(1)}),
        Option("main-only", "skip the variants", default=False, needs=("grids",), settings={"action": "store_true"}),
    ),
    work,
)
