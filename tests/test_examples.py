"""Every public function and class has an example in its docstring. `--doctest-modules` runs the examples."""

import ast
import builtins
import inspect
from doctest import DocTestParser
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
    documented = functions_and_classes(package)
    assert documented
    assert [name for name, each in documented.items() if ">>>" not in (each.__doc__ or "")] == []


@pytest.mark.parametrize("package", [*PACKAGES, "tasks", "training"])
def test_public_examples_define_or_import_all_names(package):
    # `--doctest-modules` gives an example the names of its module. A reader who pastes it does not have them.
    undefined = {name: undefined_names(docstring or "") for name, docstring in docstrings(package).items()}
    assert {name: names for name, names in undefined.items() if names} == {}


def functions_and_classes(package):
    """The public functions and classes of a package, by name."""
    module = import_module(f"keras_tying.{package}")
    members = {name: getattr(module, name) for name in module.__all__}
    return {name: each for name, each in members.items() if inspect.isclass(each) or inspect.isroutine(each)}


def docstrings(package):
    """The docstrings of public functions and classes, and of the public methods and properties that a class defines."""
    found = {}
    for name, member in functions_and_classes(package).items():
        found[name] = member.__doc__
        if inspect.isclass(member):
            own = {attribute: each for attribute, each in vars(member).items() if not attribute.startswith("_")}
            found |= {f"{name}.{attribute}": each.__doc__ for attribute, each in own.items()}
    return found


def undefined_names(docstring):
    """The names that the examples of a docstring use but neither define nor import. The examples are not executed."""
    source = "".join(example.source for example in DocTestParser().get_examples(docstring))
    used, defined = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=name):
                defined.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.alias(name=name, asname=asname):
                defined.add(asname or name.partition(".")[0])
    return sorted(used - defined)
