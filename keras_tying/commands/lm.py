"""`keras-tying lm`: trains language models."""

from keras_tying.commands.options import Option, whole
from keras_tying.commands.text import check_text, text_options
from keras_tying.commands.training import training_command

DESCRIPTION = """Trains a language model, resumes a run, or evaluates one.

{command}                                                     embedded corpus, minutes
{command} --recipe ptb_small_tied_projection --data-dir DIR   a published configuration
{command} --train-file A --valid-file B --test-file C         your own UTF-8 text, not tokenized
{command} --prepared DIR                                      text of any size, see train/prepare.py
{command} --resume runs/NAME                                  after Ctrl-C; with --epochs it goes on longer
{command} --evaluate runs/NAME                                exact; --mc-passes 50 also with dropout
"""

COMMAND = training_command(
    "LanguageModelTask",
    "train a language model",
    DESCRIPTION,
    ("embedded_small_tied",),
    (
        *text_options(("train", "valid", "test")),
        Option(
            "mc-passes",
            "with --evaluate: also average N passes with dropout",
            ("evaluate",),
            settings={"type": whole(1), "metavar": "N"},
        ),
    ),
    check=check_text,
)
