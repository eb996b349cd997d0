"""The commands of `keras-tying`: lm, nmt, word2vec, nnjm, prepare, cluster. The scripts in train/ are the same."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

TRAINING = {
    "lm": ("LanguageModelTask", "train a language model"),
    "nmt": ("TranslationTask", "train a translator, or translate"),
    "word2vec": ("SkipGramTask", "train skip-gram word vectors"),
    "nnjm": ("JointLanguageModelTask", "train joint language models"),
}
"""Task and purpose of each training command."""
OTHERS = {
    "prepare": ("keras_tying.commands.prepare", "tokenize a text of any size once"),
    "cluster": ("keras_tying.distribution.local_cluster", "run a command as several workers on this machine"),
}
"""Module and purpose of each other command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command of `keras-tying`.

    Args:
        arguments: The command's name and its arguments. Default: those of the process.

    Returns:
        The exit code.
    """
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    commands = TRAINING | OTHERS
    if name in ("-h", "--help"):
        print("usage: keras-tying COMMAND ...\n")
        print("\n".join(f"  {command:10} {purpose}" for command, (_, purpose) in commands.items()))
        print("\nkeras-tying COMMAND --help shows the arguments of a command.")
        return 0
    if name not in commands:
        print(f"error: there is no command {name!r}. Known: {', '.join(commands)}", file=sys.stderr)
        return 2
    if name in OTHERS:
        return import_module(OTHERS[name][0]).main(rest)
    from keras_tying import tasks
    from keras_tying.commands.train import train_command

    return train_command(getattr(tasks, TRAINING[name][0]), rest)
