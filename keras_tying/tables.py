"""TOML tables with checked keys and values, and JSON."""

import json
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import tomlkit
from pydantic import BaseModel, ConfigDict, ValidationError


class Table(BaseModel):
    """A TOML table. Unknown keys, values of the wrong type, infinity and NaN are errors. No value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=(), allow_inf_nan=False)


TableT = TypeVar("TableT", bound=Table)

TOO_DEEP = "its values are nested too deeply"
LONGEST_SHOWN = 200
"""Characters of a wrong value that a message shows."""


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file into a dictionary.

    Raises:
        ValueError: If the file is not UTF-8 or not TOML. The message gives the path.
        OSError: If it cannot be read.
    """
    content = path.read_bytes()
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is not TOML that can be read: {TOO_DEEP}") from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: received byte {content[error.start]:#04x} at position {error.start}."
        ) from None


def parse_json(content: bytes | str) -> Any:
    """Parses JSON.

    Raises:
        ValueError: If it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def read_json(path: Path) -> Any:
    """Reads a JSON file.

    Raises:
        ValueError: If it is not JSON. The message names the file.
        OSError: If it cannot be read.
    """
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}. Restore it.") from None


def json_values(values: Any) -> Any:
    """Values as JSON has them: NaN and infinity, which it does not know, are `None`.

    Example:

    >>> json_values({"test_perplexity": float("inf"), "epochs": 2})
    {'test_perplexity': None, 'epochs': 2}
    """
    return json.loads(json.dumps(values), parse_constant=lambda name: None)


def validate_table(kind: type[TableT], values: dict[str, Any], origin: str) -> TableT:
    """Checks a dictionary against the fields of a table.

    Raises:
        ValueError: If a key is missing or unknown, or a value has the wrong type. The message is one line with
            `origin`, key and value.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{origin}: {'; '.join(_problem(kind, each) for each in error.errors())}") from None


def _problem(kind: type[Table], error: Any) -> str:
    """An error of pydantic in one line: the key, what was expected and what was received."""
    key = ".".join(map(str, error["loc"])) or "it"
    if error["type"] == "missing":
        return f"{key} is missing"
    received = repr(error["input"])
    shown = received if len(received) <= LONGEST_SHOWN else f"{received[:LONGEST_SHOWN]}..."
    expected = " ".join(error["msg"].split())
    if error["type"] == "extra_forbidden":
        table, near = _table_at(kind, error["loc"][:-1]), []
        if table is not None:
            near = get_close_matches(str(error["loc"][-1]), table.model_fields, 1) or [*table.model_fields]
        expected = f"unknown key, expected {', '.join(near)}" if near else "unknown key"
    return f"{key}: {expected}. Received: {shown}"


def _table_at(kind: Any, place: tuple[str | int, ...]) -> type[Table] | None:
    """The kind of the table at a place in a table, if it is of one kind."""
    for name in place:
        field = kind.model_fields.get(name)
        kinds = [] if field is None else [field.annotation, *get_args(field.annotation)]
        kind = next((each for each in kinds if isinstance(each, type) and issubclass(each, Table)), None)
        if kind is None:
            return None
    return kind


def load_table(kind: type[TableT], path: Path) -> TableT:
    """Reads a table from a file.

    Raises:
        ValueError: As `read_toml` and `validate_table`, with the file as `origin`.
    """
    return validate_table(kind, read_toml(path), str(path))


def dump_table(table: Table) -> str:
    """The table as TOML text, without the keys that are `None`."""
    return tomlkit.dumps(table.model_dump(exclude_none=True))
