"""The code is as docs/architecture.md says: which package imports which, what `import keras_tying` needs."""

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_tying as kt

REPOSITORY = Path(__file__).parents[1]
LIBRARY = REPOSITORY / "keras_tying"
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)(?:/|\.py)` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
TABLE = {package: set(re.findall(r"`(\w+)`", allowed)) for package, allowed in ROWS}
"""Packages that each package may import, as the page's table says. Every package may import the tools."""

TOOLS = {"checks", "errors", "extras", "files", "ids", "signals", "tables", "version"}
OPTIONAL = ["array_record", "babel", "eflomal", "matplotlib", "pooch", "sacrebleu", "scipy", "sentencepiece"]


def package_of(path):
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def imported_packages(path):
    """Packages of the library that a module imports at any place, by the line of the import."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keras_tying":
            names = [node.module] if "." in node.module else [f"keras_tying.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("keras_tying.")]
        else:
            continue
        for name in names:
            package = name.split(".")[1]
            own = package_of(path) == "backend" and [alias.name for alias in node.names] == [path.stem]
            if not own:  # a fast path may import the module whose function it replaces
                yield package, node.lineno


def test_the_table_has_every_package():
    folders = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    modules = {path.stem for path in LIBRARY.glob("*.py")} - TOOLS - {"__init__", "__main__"}
    assert set(TABLE) == folders | modules


@pytest.mark.parametrize("package", TABLE)
def test_a_package_imports_only_what_the_table_allows(package):
    paths = [LIBRARY / f"{package}.py"] if (LIBRARY / f"{package}.py").exists() else (LIBRARY / package).rglob("*.py")
    allowed = TABLE[package] | TOOLS | {package}
    wrong = [
        (path.name, line, other) for path in paths for other, line in imported_packages(path) if other not in allowed
    ]
    assert not wrong


def test_nothing_imports_upwards():
    order = list(TABLE)
    for package, allowed in TABLE.items():
        assert all(order.index(other) < order.index(package) for other in allowed - TOOLS), package


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_tools_import_no_package(name):
    assert not {other for other, _ in imported_packages(LIBRARY / f"{name}.py")} - TOOLS


def modules_after(*statements):
    """The modules there are after each statement of one process."""
    code = "\n".join(["import sys", *(f"{each}\nprint(*sys.modules)" for each in statements)])
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in process.stdout.splitlines()]


@pytest.fixture(scope="module")
def imported():
    """The modules there are with Keras and TensorFlow, then with a package, then with some that are found when used."""
    packages = "import keras_tying as kt; kt.training.Run, kt.tasks.LanguageModelTask, kt.export.export_language_model"
    return modules_after("import keras, tensorflow", "import keras_tying.layers", packages)


def test_commands_start_without_keras():
    (modules,) = modules_after("import keras_tying_cli, keras_tying.commands")
    assert not {"keras", "numpy", "keras_tying.layers"} & modules


def test_import_of_a_package_is_light(imported):
    added = imported[1] - imported[0]
    assert "keras_tying.layers" in added
    heavy = {name for name in added if name.split(".")[0] in (*OPTIONAL, "tensorflow_text", "tensorboard")}
    assert not heavy


def test_training_and_export_are_found_without_an_import(imported):
    assert "keras_tying.export" in imported[2]


def test_tab_completion_shows_the_public_packages():
    assert sorted(dir(kt)) == sorted(kt.__all__)
    assert not [name for name in dir(kt) if name in TOOLS | {"backend", "commands", "distribution"}]


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'keras_tying' has no attribute 'layer'"):
        _ = kt.layer


def test_every_package_is_installed():
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    installed = setup["options"]["packages"].split()
    found = {".".join(path.parent.relative_to(REPOSITORY).parts) for path in LIBRARY.rglob("__init__.py")}
    assert sorted(installed) == sorted(found | {"keras_tying.recipes"})
