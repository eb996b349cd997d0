"""Recipes with other values, by `--set KEY=VALUE` or in Python."""

import tomllib
from typing import Any

from keras_tying.tables import validate_table
from keras_tying.zoo.recipes import Recipe


def changed_recipe(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    """A recipe with other values.

    Args:
        recipe: The recipe.
        changes: New values by key, for example `"optimisation.epochs"`. `model.` and `loss.` may leave out
            `arguments.`.

    Raises:
        ValueError: If a key is unknown or a value of the wrong type.
    """
    values = recipe.model_dump(exclude_none=True, exclude_unset=True, exclude={"measured"} if changes else None)
    for key, value in changes.items():
        table, *rest = _full_key(key).split(".")
        place = values.setdefault(table, {})
        for part in rest[:-1]:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place
        if not isinstance(place, dict):
            raise ValueError(f"--set expects TABLE.KEY=VALUE, for example data.vocabulary_size=500. Received: {key}")
        place[rest[-1]] = value
    return validate_table(type(recipe), values, "the recipe with the changes of the command line")


def assignments(texts: list[str]) -> dict[str, Any]:
    """The changes of a recipe by `--set`.

    Raises:
        ValueError: If a text is not `TABLE.KEY=VALUE`, or a key has two values.
    """
    assigned: dict[str, Any] = {}
    for text in texts:
        key, value = _assignment(text)
        assigned = without_conflict(assigned, {key: value})
    return assigned


def without_conflict(changes: dict[str, Any], assigned: dict[str, Any]) -> dict[str, Any]:
    """Changes of a recipe with those of `--set`. Two values for one key are an error."""
    changes = {_full_key(key): value for key, value in changes.items()}
    for key, value in assigned.items():
        if (other := changes.setdefault(_full_key(key), value)) is not value and other != value:
            raise ValueError(f"{key} has two values on the command line: {other!r} and {value!r}. Give one of them.")
    return changes


def _full_key(key: str) -> str:
    """A key of a recipe with `arguments`, which the tables `model` and `loss` may leave out."""
    table, _, rest = key.partition(".")
    full = table not in ("model", "loss") or rest.partition(".")[0] in ("name", "arguments")
    return key if full else f"{table}.arguments.{rest}"


def _assignment(text: str) -> tuple[str, Any]:
    """Key and value of `KEY=VALUE`; the value is TOML, or else a string."""
    key, equals, value = text.partition("=")
    if not equals or "." not in key or not all(key.split(".")):
        raise ValueError(f"--set expects TABLE.KEY=VALUE, for example data.vocabulary_size=500. Received: {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):  # it is a text, or nested too deeply
        if value.lower() in ("true", "false"):  # as text it would count as true
            raise ValueError(f"--set expects values as in TOML: {key}={value.lower()}. Received: {text!r}") from None
        return key, value
