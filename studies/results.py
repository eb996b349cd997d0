"""Recorded results of the studies: JSON files, and the command that reproduces them."""

import argparse
import json
from pathlib import Path
from typing import Any

from keras_tying.files import write_atomically


def read_results(path: Path) -> dict[str, Any] | None:
    """Reads recorded results; `None` if they are not measured."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Writes results, and makes their folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(results, indent=1) + "\n").encode())


def recorded_command(parser: argparse.ArgumentParser, arguments: argparse.Namespace, positional: str = "") -> str:
    """The command that reproduces results elsewhere: without defaults and `--output`, with names instead of paths.

    Args:
        parser: The parser of the command, a script of `train`.
        arguments: What it parsed.
        positional: Name of the positional argument, if there is one.
    """

    def text(value: Any) -> str:
        return value.name if isinstance(value, Path) else f"{value:g}" if isinstance(value, float) else str(value)

    words = ["python", f"train/{parser.prog}"]
    for name, value in vars(arguments).items():
        if name != "output" and value != parser.get_default(name):
            words += [f"--{name.replace('_', '-')}"] if name != positional else []
            values = value if isinstance(value, list) else [] if value is True else [value]
            words += ["DIR"] if name == "data_dir" else map(text, values)
    return " ".join(words)
