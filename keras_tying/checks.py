"""Checks of arguments that users give. An error says what was expected and what was received."""

import math
from numbers import Integral, Real
from typing import Any


def check_boolean(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is `True` or `False`: a text such as `"no"` would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be true or false. Received: {name}={value!r}")


def check_string(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is a string."""
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be a string. Received: {name}={value!r}")


def check_integer(name: str, value: Any, least: int = 1) -> None:
    """Raises ValueError unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"`{name}` must be an integer. Received: {name}={value!r}")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value}")


def check_number(name: str, value: Any, least: float = -math.inf, above: float = -math.inf) -> None:
    """Raises ValueError unless `value` is a finite number of at least `least` that is greater than `above`."""
    if not (_is_number(value) and math.isfinite(value)):
        raise ValueError(f"`{name}` must be a finite number. Received: {name}={value!r}")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least:g}. Received: {name}={value}")
    if value <= above:
        raise ValueError(f"`{name}` must be above {above:g}. Received: {name}={value}")


def check_rate(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is a number in [0, 1)."""
    if not (_is_number(value) and 0 <= value < 1):
        raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_width(width: int, shape: tuple[int | None, ...], unknown: bool = False) -> None:
    """Raises ValueError unless the last axis of an input has the size `width`, or, if `unknown`, one not known yet."""
    if shape[-1] != width and not (unknown and shape[-1] is None):
        raise ValueError(
            f"The last axis of the input must have the embedding's size {width}. Received: input_shape={tuple(shape)}"
        )


def check_needed(needed: str, **arguments: Any) -> None:
    """Raises ValueError if one of `arguments`, which have no effect without `needed`, is not `None` or `False`."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(f"`{name}` has no effect without {needed}. Received: {name}={value!r}")


def check_steps(name: str, sequences: Any) -> None:
    """Raises ValueError if `sequences` `[B, T, ...]` have no steps."""
    if sequences.shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one step. Received: shape={tuple(sequences.shape)}")
