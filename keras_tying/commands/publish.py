"""`keras-tying publish`: makes a preset from a trained run."""

import argparse

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Option, file_option, name, path

DESCRIPTION = """Makes a preset from a trained run: weights in half precision, vocabulary, settings, figures.

{command} runs/ptb_small_tied ptb_small_tied            into zoo/presets/
{command} runs/mine my_model --folder DIR               into DIR/my_model

The weights are measured again after they were rounded. The text of the run must be where it was.
"""


def work(arguments: argparse.Namespace) -> int:
    import_keras()
    from keras_tying.pretrained.publishing import publish
    from keras_tying.training.runs import Run
    from keras_tying.zoo.presets import MANIFEST, preset_folder

    run, place = Run.open(arguments.run), (arguments.folder or preset_folder()) / arguments.name
    replaced = (place / MANIFEST).is_file()
    preset = publish(run, arguments.name, arguments.folder)
    if replaced:
        print(f"replaced the trained model that was in {place}")
    for metric, value in preset.measured.items():
        if isinstance(value, float):
            print(f"{metric:22}  {value:10.4f} (before rounding {preset.before_rounding[metric]:.4f})")
    size = sum(file.stat().st_size for file in place.iterdir())
    print(f"{size / 1e6:.1f} MB in {place}")
    return 0


COMMAND = Command(
    "make a preset from a trained run",
    DESCRIPTION,
    (
        Option("run", "folder of the run", positional=True, settings={"type": path, "metavar": "RUN"}),
        Option("name", "name of the preset", positional=True, settings={"type": name, "metavar": "NAME"}),
        file_option("folder", "folder of presets (default: zoo/presets)", metavar="DIR"),
    ),
    work,
)
