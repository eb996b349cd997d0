"""The commands of `keras-tying`; see `COMMANDS`. The scripts in train/ are the same."""

import sys
from collections.abc import Sequence
from importlib import import_module

from keras_tying.commands.exit_codes import run_command
from keras_tying.commands.options import Command, Commands, parse

COMMANDS = {
    "lm": "keras_tying.commands.lm",
    "nmt": "keras_tying.commands.nmt",
    "word2vec": "keras_tying.commands.word2vec",
    "nnjm": "keras_tying.commands.nnjm",
    "list": "keras_tying.commands.listing",
    "publish": "keras_tying.commands.publish",
    "prepare": "keras_tying.commands.prepare",
    "cluster": "keras_tying.commands.cluster",
}
"""The module of each command, which has it as `COMMAND`."""


def main(arguments: Sequence[str] | None = None, prog: str = "keras-tying") -> int:
    """Runs a command of `keras-tying`.

    Args:
        arguments: The command's name and its arguments. Default: those of the process.
        prog: What the user typed before them, for the help.

    Returns:
        The exit code.
    """

    def choose() -> int:
        commands = {name: import_module(module).COMMAND for name, module in COMMANDS.items()}
        return start(Commands("", commands), sys.argv[1:] if arguments is None else arguments, prog)

    return run_command(choose)


def run_script(module: str) -> int:
    """Runs the command of a module with the arguments of the process. Returns the exit code."""
    return run_command(lambda: start(import_module(module).COMMAND, sys.argv[1:], f"python {sys.argv[0]}"))


def start(command: Command | Commands, argv: Sequence[str], prog: str) -> int:
    """Runs a command, or the one of several that the first argument names.

    Args:
        command: The command, or several.
        argv: The arguments.
        prog: What the user typed before them.

    Returns:
        The exit code.

    Raises:
        ValueError: If there is no such command, or an argument is wrong.
    """
    if isinstance(command, Command):
        arguments = parse(command, argv, prog)
        to_continue = command.to_continue.replace("{command}", prog)
        return run_command(lambda: command.work(arguments), to_continue)
    name, *rest = list(argv) or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: {prog} COMMAND ...\n")
        print("\n".join(f"  {name:10}  {each.purpose}" for name, each in command.by_name.items()))
        print(f"\n{prog} COMMAND --help shows the arguments of a command.")
        return 0
    if name not in command.by_name:
        raise ValueError(f"There is no command {name!r}. Known: {', '.join(command.by_name)}. See {prog} --help")
    return start(command.by_name[name], rest, f"{prog} {name}")
