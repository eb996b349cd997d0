"""`train/subspace.py`: measures subspace distances under the augmented loss."""

import argparse
from pathlib import Path

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Option, file_option, real, whole
from keras_tying.commands.text import check_data_dir

DESCRIPTION = """Measures how close the spaces of input and output embedding come under the augmented loss.

{command} --data-dir DIR                 into runs/subspace.json and .png
{command} --data-dir DIR --record        into the zoo's results

Figure 1 of Inan et al. After an interruption the same command continues with the first run that has no result.
"""
BETAS, TAUS = [0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 2.0, 5.0, 10.0, 20.0]


def check(arguments: argparse.Namespace) -> None:
    check_data_dir(arguments.corpus, arguments.data_dir)


def work(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.augmented_loss import measure
    from studies.results import recorded_command

    return measure(arguments, recorded_command("train/subspace.py", arguments.given))


COMMAND = Command(
    "measure subspace distances under the augmented loss",
    DESCRIPTION,
    (
        Option("corpus", "name of a corpus; its training text is used", default="ptb"),
        Option(
            "betas",
            "shares of the augmented loss, at tau 10",
            default=BETAS,
            settings={"nargs": "+", "type": real(0, 1)},
        ),
        Option("taus", "temperatures, at beta 1", default=TAUS, settings={"nargs": "+", "type": real(1e-6)}),
        Option("seeds", "runs per point; the paper's figure has 10", default=2, settings={"type": whole(1)}),
        Option("words", "length of the text", default=20_000, settings={"type": whole(1)}),
        Option("units", "units of the model", default=300, settings={"type": whole(1)}),
        Option("epochs", "epochs of each run", default=100, settings={"type": whole(1)}),
        file_option(
            "output",
            "path of the files, without the endings of their names",
            default=Path("runs/subspace"),
            metavar="PATH",
            excludes=("record",),
        ),
        Option(
            "record",
            "write the files into the zoo's results instead",
            default=False,
            settings={"action": "store_true"},
        ),
        file_option("data-dir", "folder of the corpus, instead of a download", metavar="DIR"),
    ),
    work,
    check=check,
)
