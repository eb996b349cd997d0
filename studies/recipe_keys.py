"""Tables of all keys of a recipe, made from its schema and the docstrings of the keys."""

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from keras_tying.tables import Table
from keras_tying.zoo.recipes import RECIPES, Loss, Measured, Model, Optimisation, Published, Recipe
from studies.pages import DASH, between_marks, table

TYPES = {bool: "`true` or `false`", dict: "table", float: "number", int: "integer", str: "text"}
SHARED: Mapping[str, type[Table]] = {"model": Model, "loss": Loss, "optimisation": Optimisation}
RESULTS: Mapping[str, type[Table]] = {"published": Published, "measured": Measured}
LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def with_recipe_keys(text: str) -> str:
    """The page about recipes with new tables of their keys."""
    return between_marks(text, "recipe keys", "\n\n".join(key_parts()))


def key_parts() -> list[str]:
    """Titles and tables of all keys."""
    parts = ["### Every recipe", key_table(Recipe, ["title", "description", "notes", "task"])]
    for name, kind in SHARED.items():
        parts += [f"### `[{name}]`", key_table(kind)]
    parts += ["Some of these defaults depend on the task:", default_table()]
    for task, recipe in RECIPES.items():
        if own := [name for name in recipe.model_fields if name not in Recipe.model_fields]:
            parts += [f"### Every recipe for `{task}`", key_table(recipe, own)]
        data, optimisation = table_of(task, "data"), table_of(task, "optimisation")
        parts += [f"### `[data]` for `{task}`", key_table(data)]
        own = [name for name in optimisation.model_fields if name not in Optimisation.model_fields]
        if own:
            parts += [f"`[optimisation]` has these keys too for `{task}`:", key_table(optimisation, own)]
    for name, kind in RESULTS.items():
        parts += [f"### `[{name}]`", key_table(kind)]
    return parts


def table_of(task: str, name: str) -> type[Table]:
    """The class of a table of a task's recipe."""
    return type(RECIPES[task].model_fields[name].default)


def key_table(kind: type[Table], names: Sequence[str] | None = None) -> str:
    """The Markdown table of keys, by default of all keys of a table."""
    meanings, rows = docstrings(kind), []
    for name in names or list(kind.model_fields):
        field = kind.model_fields[name]
        rows.append([f"`{name}`", values(field), default(field), " ".join(meanings[name].split())])
    return table(["key", "value", "default", "meaning"], "|---|---|---|---|", rows)


def default_table() -> str:
    """The Markdown table of the defaults of `[optimisation]` that are not the same for all tasks."""
    rows = []
    for name in Optimisation.model_fields:
        defaults = [default(table_of(task, "optimisation").model_fields[name]) for task in RECIPES]
        if len(set(defaults)) > 1:
            rows.append([f"`{name}`", *defaults])
    return table(["key", *(f"`{task}`" for task in RECIPES)], "|---" * (1 + len(RECIPES)) + "|", rows)


def docstrings(kind: type) -> dict[str, str]:
    """The docstrings of the attributes of a class, by name. Those of its bases count if it has none of its own."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if issubclass(base, Table) and base is not Table]):
        body = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                found[statement.target.id] = inspect.cleandoc(following.value.value)  # type: ignore[union-attr, attr-defined]
    return found


def values(field: FieldInfo) -> str:
    """The values that a key takes."""
    annotation: Any = field.annotation
    if NoneType in get_args(annotation):
        annotation, _ = get_args(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in get_args(annotation))
    limits = [
        f"{words} {getattr(limit, name)}"
        for limit in field.metadata
        for name, words in LIMITS.items()
        if hasattr(limit, name)
    ]
    return ", ".join([" ".join([TYPES[get_origin(annotation) or annotation], *limits[:1]]), *limits[1:]])


def default(field: FieldInfo) -> str:
    """The default of a key, as a recipe writes it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return DASH if value in (None, "", {}) else f"`{json.dumps(value)}`"
