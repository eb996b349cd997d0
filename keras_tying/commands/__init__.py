"""The commands of `keras-tying`: lm, nmt, word2vec, nnjm, prepare, cluster. The scripts in train/ are the same."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

COMMANDS = {
    "lm": ("keras_tying.commands.lm", "train a language model"),
    "nmt": ("keras_tying.commands.nmt", "train a translator, or translate"),
    "word2vec": ("keras_tying.commands.word2vec", "train skip-gram word vectors"),
    "nnjm": ("keras_tying.commands.nnjm", "train joint language models"),
    "prepare": ("keras_tying.commands.prepare", "tokenize a text of any size once"),
    "cluster": ("keras_tying.distribution.local_cluster", "run a command as several workers on this machine"),
}
"""Module and purpose of each command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command of `keras-tying`.

    Args:
        arguments: The command's name and its arguments. Default: those of the process.

    Returns:
        The exit code.
    """
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print("usage: keras-tying COMMAND ...\n")
        print("\n".join(f"  {command:10} {purpose}" for command, (_, purpose) in COMMANDS.items()))
        print("\nkeras-tying COMMAND --help shows the arguments of a command.")
        return 0
    if name not in COMMANDS:
        print(f"error: there is no command {name!r}. Known: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return import_module(COMMANDS[name][0]).main(rest)
