"""Results of the zoo's studies: JSON files beside its pages."""

import json
from pathlib import Path
from typing import Any

from keras_tying.files import write_atomically
from keras_tying.zoo.cards import NOT_MEASURED, versions_line

MISSING = f"{NOT_MEASURED.capitalize()}."
"""The paragraph of a page whose results are not there."""


def read_results(path: Path) -> dict[str, Any] | None:
    """What a study gave, or `None` where it is not measured."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Writes what a study gave; its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(results, indent=1) + "\n").encode())


def provenance(path: Path, results: dict[str, Any]) -> list[str]:
    """Paragraphs of a page in the folder above that say where figures are from, and by which command."""
    place = f"{path.parent.name}/{path.name}"
    return [
        f"Measured on {results['device']}; {versions_line(results['versions'])}. All figures: [{place}]({place}).",
        f"```\n{results['command']}\n```",
    ]
