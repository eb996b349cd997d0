"""The published cells and what was measured of them."""

import json
import shutil
from collections import Counter

import pytest

from keras_tying.tables import load_table
from keras_tying.zoo.recipes import Published, list_recipes, load_recipe, recipe_folder
from studies.cards import perplexities_of_seeds, read_recipes, recipe_table
from studies.cells import Cell, Cells, cell_table, counts_text, read_cells
from studies.joint_grid import load_study

ZOO = recipe_folder()
CELLS = read_cells(ZOO)
UNLISTED = {("imdb_small", "train_perplexity")}
"""Printed values that are not among the cells, by the start of a recipe's name."""


def cell(published, *values, better="lower", metric="test_perplexity"):
    return Cell("A", "table 1", "Row", "Text", metric, published, "recipe", better, list(values))


def test_there_are_232_cells_and_each_has_a_name_of_its_own():
    assert len(CELLS) == 232
    names = Counter((each.paper, each.table, each.row, each.text, each.metric) for each in CELLS)
    assert set(names.values()) == {1}


def test_each_cell_names_a_recipe_or_a_command_whose_recipes_and_rows_exist():
    recipes, study = set(list_recipes()), load_study(ZOO)
    for each in CELLS:
        script, *words = each.recipe.split()
        if script.startswith("train/"):
            assert (ZOO.parent / script).is_file()
        if script == "train/nnjm_grid.py":
            assert each.row in {name for name, *_ in study.todo(*words)}
        else:
            named = words if script.startswith("train/") else [script]
            assert {word for word in named if not word.startswith("--")} <= recipes


@pytest.mark.parametrize("name", [name for name in list_recipes() if load_recipe(name).published])
def test_the_published_values_of_a_recipe_are_those_of_its_cells(name):
    published = load_recipe(name).published
    values = published.model_dump(exclude_none=True, exclude={"source"})
    values = {
        key: each for key, each in values.items() if not any(name.startswith(n) and key == k for n, k in UNLISTED)
    }
    cells = {each.metric: each for each in CELLS if each.recipe == name}
    if not cells:  # of a paper without cells
        assert not published.source.startswith(tuple({each.paper for each in CELLS}))
        return
    assert {f"{each.paper}, {each.table}" for each in cells.values()} == {published.source}
    assert set(cells) <= set(Published.model_fields)
    assert {key: each if key == "parameters" else float(each) for key, each in values.items()} == {
        key: each.published if key == "parameters" else float(each.published) for key, each in cells.items()
    }


def test_the_published_values_of_the_study_of_joint_models_are_those_of_the_cells():
    same = {
        "NNJM, 2 hidden layers": "2 hidden layers",
        "NNJM, rectify": "rectify",
        "NNJM, leaky rectify": "leaky rectify",
    }
    for each in load_study(ZOO).tables:
        for row, value in each.published.items():
            split = {"valid": "validation_perplexity", "test": "test_perplexity"}[each.split]
            name = (
                "1 hidden layer" if (row, split) == ("NNJM, SrcWin 3", "validation_perplexity") else same.get(row, row)
            )
            found = {float(c.published) for c in CELLS if (c.paper, c.row, c.metric) == ("Zhang and Qi", name, split)}
            assert found == {value}, row


def test_measured_values_are_those_of_the_recorded_runs():
    measured = {name: load_recipe(name).measured for name in list_recipes()}
    for each in CELLS:
        if measured.get(each.recipe) and len(each.values) == 1:
            assert each.values == [getattr(measured[each.recipe], each.metric)]
    assert not [each for each in CELLS if each.values and each.text in ("text8", "IMDB", "Europarl", "WikiText-2")]


@pytest.mark.parametrize(
    ("each", "reached"),
    [
        (cell("98.9"), None),
        (cell("98.9", 98.94), True),
        (cell("98.9", 98.96), False),
        (cell("98.9", 98.0, 100.0), False),
        (cell("0.30", 0.2951, better="higher"), True),
        (cell("0.30", 0.2949, better="higher"), False),
        (cell("2.69M", 2_691_800, better="equal"), True),
        (cell("2.65M", 2_641_600, better="equal"), False),
        (cell("85K", 84_600, better="equal"), True),
        (cell("~1", 0.95, better="equal"), True),
        (cell("~1", 0.4, better="equal"), False),
    ],
)
def test_a_cell_is_reached_by_the_mean_at_the_printed_precision(each, reached):
    assert each.reached is reached


def test_several_seeds_give_mean_and_range():
    assert cell("98.9", 98.0, 100.0).line()[-5:] == ["99", "98", "100", "2", "no"]
    assert cell("98.9", 98.0).line()[-5:] == ["98", "", "", "1", "yes"]
    assert cell("98.9").line()[-5:] == [""] * 5


@pytest.fixture
def zoo(tmp_path):
    """A zoo with the rows of table 6, and runs of a schedule."""
    (tmp_path / "studies").mkdir()
    shutil.copy(ZOO / "studies" / "cells.toml", tmp_path / "studies")
    for path in ZOO.glob("ptb_small_*.toml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "results" / "table_6").mkdir(parents=True)
    shutil.copy(ZOO / "results" / "ptb_small_tied.json", tmp_path / "results")
    for seed in (1, 2):
        name = f"ptb_small_tied_released_s{seed}.json"
        values = {f"{split}_perplexity": 100.0 + seed for split in ("train", "validation", "test")}
        (tmp_path / "results" / "table_6" / name).write_text(json.dumps({**values, "parameters": 2_651_600}))
    return tmp_path


def test_once_a_schedule_is_chosen_its_seeds_are_the_figures_of_the_rows(zoo):
    def row():
        return {each.metric: each.values for each in read_cells(zoo) if each.recipe == "ptb_small_tied"}

    recipes = read_recipes(zoo)
    own = recipes["ptb_small_tied"].measured.test_perplexity
    assert row()["test_perplexity"] == [own]
    path = zoo / "studies" / "cells.toml"
    runs = 'runs = "table_6/{recipe}_{schedule}_s*.json"'
    path.write_text(path.read_text().replace(runs, f'{runs}\nschedule = "released"'))
    assert row() == {
        "parameters": [2_651_600] * 2,
        **{f"{split}_perplexity": [101.0, 102.0] for split in ("train", "validation", "test")},
    }
    assert "| 112.4 | 101.5 (101.0 to 102.0) | 2 |" in recipe_table(
        recipes, perplexities_of_seeds(recipes, read_cells(zoo))
    )
    assert "4.65M,ptb_small_untied,,,,,\n" in cell_table(read_cells(zoo))


def test_the_counts_are_those_of_the_lines():
    assert counts_text([cell("1", 1.0), cell("1", 2.0), cell("1")]) == "2 of 3 cells measured, 1 reached."


def test_no_schedule_is_chosen_that_is_not_the_better_one_on_validation_text():
    """For each table with a schedule: its mean validation perplexity is the lowest, with as many seeds for each row."""
    for table in load_table(Cells, ZOO / "studies" / "cells.toml").tables:
        if table.runs and table.schedule:
            means = {}
            for schedule in ("released", "text"):
                of = table.model_copy(update={"schedule": schedule}).cells(ZOO)
                rows = [each.values for each in of if each.metric == "validation_perplexity"]
                assert len({len(values) for values in rows}) == 1
                means[schedule] = sum(map(sum, rows))
            assert min(means, key=means.get) == table.schedule
