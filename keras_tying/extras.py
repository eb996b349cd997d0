"""Imports of optional packages."""

from importlib import import_module
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
        module: Name of the module, for example `"sentencepiece"`.
        extra: Extra of keras-tying that installs the package, for example `"translation"`.

    Raises:
        ModuleNotFoundError: If the package is not installed. The message gives the command that installs it.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # what the package itself imports
            raise
        raise ModuleNotFoundError(
            f'{package} is not installed. Install it in a clone of keras-tying with: pip install ".[{extra}]"'
        ) from None
