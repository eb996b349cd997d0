"""`keras-tying lm`: trains language models."""

import argparse

from keras_tying.commands.options import DEFAULT_MODE, Option, real, whole
from keras_tying.commands.text import check_text, text_options
from keras_tying.commands.training_options import FLAG, check_not_set, model_name, model_option, training_command

DESCRIPTION = """Trains a language model, resumes a run, evaluates one, scores text or writes it.

{command}                                                     embedded corpus, minutes
{command} --recipe ptb_small_tied_projection --data-dir DIR   a published configuration
{command} --train-file A --valid-file B --test-file C         your own UTF-8 text, not tokenized
{command} --prepared DIR                                      text of any size, see keras-tying prepare
{command} --resume runs/NAME                                  after Ctrl-C; with --epochs it goes on longer
{command} --from ptb_small_tied --train-file A --valid-file B --test-file C    train on from a trained model
{command} --evaluate runs/NAME                                exact; --mc-passes 50 also with dropout
{command} --evaluate ptb_small_tied --dynamic --cache --temperature   perplexities with settings chosen on validation
{command} --evaluate ptb_small_tied --data-dir DIR            a trained model, on the text of its recipe
{command} --generate ptb_small_tied "the value of"            continue a text; or each line of standard input
{command} --score ptb_small_tied < text                       perplexity of each line

MODEL is a trained model of the zoo (see keras-tying list) or the folder of a run.
"""


def check_lm(arguments: argparse.Namespace) -> None:
    """Raises ValueError for changes of the text without effect, and a temperature that does not go with the others."""
    check_text(arguments)
    if not arguments.add_words:  # then the words are those of the model
        check_not_set(arguments, "from", "data.vocabulary_size", "data.minimum_count")
    if "temperature" in arguments.given and (arguments.temperature is None) != (arguments.mode == "evaluate"):
        raise ValueError(
            "--temperature takes a number with --generate and none with --evaluate, which chooses it. "
            f"Received: {arguments.temperature}"
        )
    drawing = [f"--{name.replace('_', '-')}" for name in ("top_k", "top_p", "seed") if name in arguments.given]
    if arguments.temperature == 0 and drawing:
        raise ValueError(
            "--temperature 0 always takes the most probable word; --top-k, --top-p and --seed need one above 0. "
            f"Received also: {', '.join(drawing)}. Leave them out"
        )


COMMAND = training_command(
    "LanguageModelTask",
    "train a language model",
    DESCRIPTION,
    ("embedded_small_tied",),
    (
        *text_options(("train", "valid", "test")),
        Option(
            "from",
            "start from a trained model: its weights, words and recipe; from several: the mean of their weights",
            (DEFAULT_MODE,),
            excludes=("recipe", "tied", "prepared", "record"),
            settings={"type": model_name, "nargs": "+", "action": "extend", "metavar": "MODEL"},
        ),
        Option(
            "add-words",
            "with --from: add the words of the training text that the model does not know",
            default=False,
            needs=("from",),
            settings=FLAG,
        ),
        Option(
            "mc-passes",
            "with --evaluate: also average N passes with dropout",
            ("evaluate",),
            settings={"type": whole(1), "metavar": "N"},
        ),
        Option(
            "dynamic",
            "with --evaluate: also the perplexity of a model that goes on learning from the text; also in results.json",
            ("evaluate",),
            False,
            settings=FLAG,
        ),
        Option(
            "cache",
            "with --evaluate: also the perplexity with a cache of the last 500 words; also in results.json",
            ("evaluate",),
            False,
            settings=FLAG,
        ),
        Option("length", "with --generate: number of words", ("generate",), 20, settings={"type": whole(0)}),
        Option(
            "temperature",
            "with --generate: scores are divided by T; 0 always takes the most probable word; with --evaluate, no T: "
            "also the perplexity at a temperature that is chosen on the validation text",
            ("generate", "evaluate"),
            1.0,
            settings={"type": real(0), "nargs": "?", "const": None, "metavar": "T"},
        ),
        Option(
            "top-k",
            "with --generate: draw from the N most probable words",
            ("generate",),
            settings={"type": whole(1), "metavar": "N"},
        ),
        Option(
            "top-p",
            "with --generate: draw from the most probable words that together have this probability",
            ("generate",),
            settings={"type": real(0, 1), "metavar": "P"},
        ),
    ),
    (
        model_option("generate", "continue a text, or lines of standard input, read 1,000 at a time", "PREFIX"),
        model_option("score", "score the lines of standard input, read 1,000 at a time"),
    ),
    check=check_lm,
)
