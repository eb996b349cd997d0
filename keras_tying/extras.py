"""Packages that only some uses need: imported when they are used."""

from importlib import import_module
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Imports a package that an extra of this one installs.

    Args:
        module: Its name, for example `"sentencepiece"`.
        extra: The extra, for example `"translation"`.

    Raises:
        ModuleNotFoundError: If it is not installed; says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{package} is not installed. Install it with: pip install keras-tying[{extra}]"
        ) from None
