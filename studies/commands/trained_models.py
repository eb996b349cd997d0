"""`train/trained_models.py`: measures the trained models on one backend."""

import argparse

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Option, file_option
from keras_tying.commands.training_options import FLAG
from keras_tying.zoo.presets import list_presets

DESCRIPTION = """Measures trained models on the test text of their corpus, as `kt.load` gives them: the perplexity of
language models, the BLEU of translators.

KERAS_BACKEND=jax {command} ptb_small_tied ptb_small_untied --data-dir DIR --record
"""


def preset(name: str) -> str:
    """The type of a trained model's name."""
    if name not in (known := list_presets()):
        raise argparse.ArgumentTypeError(f"unknown trained model {name!r}; known are {known}")
    return name


def work(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.results import recorded_command
    from studies.trained_models import measure

    return measure(arguments, recorded_command("train/trained_models.py", arguments.given, "names"))


COMMAND = Command(
    "measure the trained models on one backend",
    DESCRIPTION,
    (
        Option(
            "names",
            "trained model of a language model or translator; all of one corpus",
            positional=True,
            settings={"nargs": "+", "type": preset, "metavar": "NAME"},
        ),
        file_option("data-dir", "folder of the corpus, instead of a download", metavar="DIR"),
        Option("record", "write the results into the zoo", settings=FLAG),
    ),
    work,
)
