"""Recorded results of the studies: JSON files, the command that reproduces them, and the names of what is compared."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_tying.files import supersede, write_atomically
from keras_tying.tables import read_json


def read_results(path: Path) -> dict[str, Any] | None:
    """Reads recorded results; `None` if they are not measured. Raises ValueError if the file holds something else."""
    if not path.exists():
        return None
    results = read_json(path)
    if not isinstance(results, dict):
        raise ValueError(f"{path} must hold results as a JSON object. Received: {type(results).__name__}")
    return results


def seed_paths(folder: Path, name: str) -> list[Path]:
    """The files with the results of one seed each: `NAME.json`, and `NAME_s2.json` and so on beside it."""
    paths = [folder / f"{name}.json", *sorted(folder.glob(f"{name}_s[0-9]*.json"))]
    return [path for path in paths if path.exists()]


def read_seeds(folder: Path, name: str) -> list[dict[str, Any]]:
    """The results of all seeds, those of `seed_paths`."""
    return [results for results in map(read_results, seed_paths(folder, name)) if results is not None]


def read_runs(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of each seed by the name of the run, from the files `NAME_sN.json` of a folder."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*_s[0-9]*.json")):
        runs.setdefault(path.stem.rpartition("_s")[0], []).append(read_results(path) or {})
    return runs


def write_results(path: Path, results: dict[str, Any], keep_earlier: bool = False) -> None:
    """Writes results, and makes their folder.

    Args:
        path: The file.
        results: Its new content.
        keep_earlier: Whether the results that it has are kept in the folder `superseded` beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write = supersede if keep_earlier else write_atomically
    write(path, (json.dumps(results, indent=1) + "\n").encode())


def superseded(path: Path) -> list[Path]:
    """Earlier results that those of a path replaced, the oldest first."""
    found = (path.parent / "superseded").glob(f"{path.stem}_*{path.suffix}")
    numbers = {each: each.stem.removeprefix(f"{path.stem}_") for each in found}
    return sorted((each for each, number in numbers.items() if number.isdecimal()), key=lambda each: int(numbers[each]))


def recorded_command(script: str, given: Mapping[str, Any], positional: str = "") -> str:
    """The command that reproduces results elsewhere: without `--output`, with names instead of paths.

    Args:
        script: The command, a script of `train`.
        given: The arguments that it was given, by name.
        positional: Name of the positional argument, if there is one.

    Example:

    >>> recorded_command("train/some.py", {"runs": [Path("here/a")], "taus": [1.0, 0.5], "record": True}, "runs")
    'python train/some.py a --taus 1 0.5 --record'
    """

    def text(value: Any) -> str:
        return value.name if isinstance(value, Path) else f"{value:g}" if isinstance(value, float) else str(value)

    words = ["python", script]
    for name, value in given.items():
        if name != "output":
            words += [f"--{name.replace('_', '-')}"] if name != positional else []
            values = value if isinstance(value, list) else [] if value is True else [value]
            words += ["DIR"] if name == "data_dir" else map(text, values)
    return shlex.join(words)


def labels(paths: Sequence[str | Path]) -> list[str]:
    """The shortest ends of paths that distinguish them, without the ending `.json`.

    Raises:
        ValueError: If one is given twice.

    Example:

    >>> labels([Path("a/lr0.1"), Path("a/lr0.5"), Path("b/lr0.5"), Path("results/c.json")])
    ['lr0.1', 'a/lr0.5', 'b/lr0.5', 'c']
    """
    resolved = [Path(path).resolve() for path in paths]
    parts = [path.parts for path in resolved]
    if repeated := {str(path) for path, each in zip(paths, parts, strict=True) if parts.count(each) > 1}:
        raise ValueError(f"Each run is named once. Received twice: {', '.join(sorted(repeated))}")
    found = []
    for i, own in enumerate(parts):
        shared = max((_common_end(own, other) for j, other in enumerate(parts) if j != i), default=0)
        found.append("/".join(own[-shared - 1 :]).removesuffix(".json"))
    return found if len(set(found)) == len(found) else list(map(str, resolved))


def _common_end(first: Sequence[str], second: Sequence[str]) -> int:
    """Number of parts in which two paths end alike."""
    count = 0
    while count < min(len(first), len(second)) and first[-count - 1] == second[-count - 1]:
        count += 1
    return count
