"""TOML tables with checked keys and values."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import tomlkit
from pydantic import BaseModel, ConfigDict, ValidationError


class Table(BaseModel):
    """A TOML table. Unknown keys and values of the wrong type are errors. No value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


TableT = TypeVar("TableT", bound=Table)


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parses TOML text into a dictionary.

    Raises:
        ValueError: If the text is not TOML. The message gives `origin`.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{origin} is not TOML: {error}") from None


def validate_table(kind: type[TableT], values: dict[str, Any], origin: str) -> TableT:
    """Checks a dictionary against the fields of a table.

    Raises:
        ValueError: If a key is missing or unknown, or a value has the wrong type. The message is one line with
            `origin`, key and value.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}. Received: {e['input']!r}" for e in error.errors()
        )
        raise ValueError(f"{origin}: {problems}") from None


def load_table(kind: type[TableT], path: Path) -> TableT:
    """Reads a table from a file.

    Raises:
        ValueError: As `parse_toml` and `validate_table`, with the file as `origin`.
    """
    return validate_table(kind, parse_toml(path.read_text(encoding="utf-8"), str(path)), str(path))


def dump_table(table: Table) -> str:
    """The table as TOML text, without the keys that are `None`."""
    return tomlkit.dumps(table.model_dump(exclude_none=True))
