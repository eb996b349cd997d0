"""The published cells and what was measured of them."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from keras_tying.tables import load_table
from keras_tying.zoo.recipes import Published, list_recipes, load_recipe, recipe_folder
from studies.cards import card_pages, read_recipes, recipe_table
from studies.cells import Cell, Cells, cell_table, counts_text, read_cells
from studies.joint_study import load_study

ZOO = recipe_folder()
CELLS = read_cells(ZOO)
UNLISTED = {("imdb_small", "train_perplexity")}
"""Printed values that are not among the cells, as the page says, by the start of a recipe's name."""


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
            assert {word.removeprefix("runs/") for word in named if not word.startswith("--")} <= recipes


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
        (cell("~1", 0.95), None),
    ],
)
def test_a_cell_is_reached_by_the_mean_at_the_printed_precision(each, reached):
    assert each.reached is reached


def test_several_seeds_give_mean_and_range():
    assert cell("98.9", 98.0, 100.0).line()[-5:] == ["99", "98", "100", "2", "no"]
    assert cell("98.9", 98.0).line()[-5:] == ["98", "", "", "1", "yes"]
    assert cell("98.9").line()[-5:] == [""] * 5


def test_the_seeds_of_a_recipe_are_its_figures_and_other_settings_stand_beside_them(tmp_path):
    (tmp_path / "studies").mkdir()
    shutil.copy(ZOO / "studies" / "cells.toml", tmp_path / "studies")
    shutil.copy(ZOO / "ptb_small_tied.toml", tmp_path)
    (tmp_path / "results" / "table_6").mkdir(parents=True)
    for name, value in {"": 101.0, "_s2": 102.0, "_s3": 106.0}.items():
        write_seed(tmp_path / "results" / f"ptb_small_tied{name}.json", value)
    for seed in (1, 2):
        write_seed(tmp_path / "results" / "table_6" / f"ptb_small_tied_released_s{seed}.json", 110.0 + seed)
    recipes, cells = read_recipes(tmp_path), read_cells(tmp_path)
    tests = {each.metric: each for each in cells if each.recipe == "ptb_small_tied"}
    assert tests["test_perplexity"].values == [101.0, 102.0, 106.0]
    assert list(tests["test_perplexity"].others.values()) == [[111.0, 112.0]]
    assert "| 112.4 | 103.0 (101.0 to 106.0) | 3 |" in recipe_table(recipes, tmp_path)
    assert "4.65M,ptb_small_untied,,,,,\n" in cell_table(cells)
    card = card_pages(recipes, cells, tmp_path)[tmp_path / "ptb_small_tied.md"]
    assert "| test perplexity | 112.4 | 103.0 (101.0 to 106.0) | 111.5 (111.0 to 112.0) |" in card
    assert "mean of 3 seeds" in card
    assert "[results/ptb_small_tied_s3.json](results/ptb_small_tied_s3.json)" in card


def write_seed(path, perplexity):
    values = {f"{split}_perplexity": perplexity for split in ("train", "validation", "test")}
    path.write_text(json.dumps({**values, "parameters": 2_651_600}))


def test_the_counts_are_those_of_the_lines():
    counts = (
        "Of the 4 numbers of three papers, 2 are measured and 1 of these are reached: 1 of 2 test perplexities. A "
        "number is reached if the mean of the seeds, rounded as printed, is as good or better; correlations between "
        "embeddings and numbers of parameters must be equal."
    )
    other = replace(cell("1", 1.0), text="BBC", own_split=True)
    assert counts_text([cell("1", 1.0), cell("1", 2.0), cell("1"), other]) == (
        f"{counts} 1 more are measured on another split of the text (BBC) and do not count."
    )
    about = cell("~1", 1.0)
    assert counts_text([cell("1", 1.0), cell("1", 2.0), cell("1"), about]) == (
        f"{counts} 1 more is measured where the paper prints “about”, and does not count."
    )
    assert counts_text([cell("1", 1.0), cell("1", 2.0), cell("1"), cell("1")]) == counts
    others = [cell("1", 1.0, metric="input"), replace(cell("1", 2.0), numbers="word similarities")]
    assert "2 are measured and 1 of these are reached: 1 of 1 input, 0 of 1 word similarities." in counts_text(others)


def test_nothing_is_reached_on_another_split_of_the_text():
    assert replace(cell("98.9", 98.0), own_split=True).line()[-5:] == ["98", "", "", "1", ""]
    assert {each.text for each in CELLS if each.own_split} == {"BBC", "IMDB"}


def test_settings_that_were_not_chosen_are_worse_on_validation_text():
    """For each table with other settings: the mean over its rows, with as many seeds for each row and setting."""
    tables = [table for table in load_table(Cells, ZOO / "studies" / "cells.toml").tables if table.others]
    assert tables
    for table in tables:
        cells = [each for each in table.cells(ZOO) if each.metric == "validation_perplexity"]
        chosen = [each.values for each in cells]
        for other in table.others:
            seeds = [each.others[other.name] for each in cells]
            assert {*map(len, chosen)} == {*map(len, seeds)} == {len(chosen[0])}
            assert sum(map(sum, chosen)) < sum(map(sum, seeds))
