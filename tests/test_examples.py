"""Every public function and class has an example in its docstring. `--doctest-modules` runs the examples."""

import inspect
from importlib import import_module

import pytest

PACKAGES = (
    "data",
    "export",
    "inference",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "pretrained",
    "regularizers",
    "zoo.builders",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_and_classes_have_an_example(package):
    module = import_module(f"keras_tying.{package}")
    members = {name: getattr(module, name) for name in module.__all__}
    documented = {name: each for name, each in members.items() if inspect.isclass(each) or inspect.isroutine(each)}
    assert documented
    assert [name for name, each in documented.items() if ">>>" not in (each.__doc__ or "")] == []
