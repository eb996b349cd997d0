"""TOML tables whose keys and values are checked."""

import tomllib
from pathlib import Path
from typing import TypeVar

import tomlkit
from pydantic import BaseModel, ConfigDict, ValidationError


class Table(BaseModel):
    """A TOML table: no key it does not know, no value it would have to convert."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


TableT = TypeVar("TableT", bound=Table)


def parse_table(kind: type[TableT], text: str, origin: str) -> TableT:
    """Reads a table of the given kind from TOML text.

    Raises:
        ValueError: If it is not TOML, or a key is missing, unknown or of the wrong type; names `origin`.
    """
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{origin} is not TOML: {error}") from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}. Received: {e['input']!r}" for e in error.errors()
        )
        raise ValueError(f"{origin}: {problems}") from None


def load_table(kind: type[TableT], path: Path) -> TableT:
    """Reads a table of the given kind from a file; raises as `parse_table` does."""
    return parse_table(kind, path.read_text(encoding="utf-8"), str(path))


def dump_table(table: Table) -> str:
    """The table as TOML text."""
    return tomlkit.dumps(table.model_dump(exclude_none=True))
