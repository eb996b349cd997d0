"""The pages of docs/: Python code and notebooks run, commands and recipes are valid, the site shows every page.

`make docs` builds the site and fails if a link is broken.
"""

import re
from pathlib import Path

import pytest

from keras_tying.commands import main
from keras_tying.zoo.recipes import load_recipe
from studies.notebooks import executed

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))

REASON = re.compile(r"<!-- not run: .+ -->\n\Z")
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*keras-tying (prepare \w+|\w+)(.*)", re.MULTILINE)


def code_blocks(page):
    """The Python code of a page that is run, each block at its line of the page."""
    for block in CODE.finditer(page):
        if not REASON.search(page[: block.start()]):
            yield "\n" * page[: block.start(1)].count("\n") + block[1]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if list(code_blocks(page))])
def test_code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in code_blocks(PAGES[name]):
        exec(compile(block, DOCS / name, "exec"), names)


@pytest.mark.parametrize("name", [path.name for path in NOTEBOOKS])
def test_notebook_runs(name, tmp_path):
    executed(DOCS / "notebooks" / name, tmp_path)


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if COMMAND.search(page)])
def test_commands_and_options_exist(name, capsys):
    for command, arguments in COMMAND.findall(PAGES[name]):
        with pytest.raises(SystemExit) as end:
            main([*command.split(), "--help"])
        assert end.value.code == 0
        assert set(re.findall(r"(?<![\w-])--\w[\w-]*", arguments)) <= set(capsys.readouterr().out.split())


def test_recipes_on_pages_are_valid(tmp_path):
    recipes = [recipe for page in PAGES.values() for recipe in RECIPE.findall(page)]
    assert recipes
    for recipe in recipes:
        (tmp_path / "page.toml").write_text(recipe, encoding="utf-8")
        load_recipe(tmp_path / "page.toml")


def test_the_site_shows_every_page_and_notebook():
    shown = set(re.findall(r": docs/(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    notebooks = {path.relative_to(DOCS).with_suffix(".md").as_posix() for path in NOTEBOOKS}
    assert shown == PAGES.keys() | notebooks
