import json
import shutil

import pytest

from keras_tying.study.augmentation_page import write_page
from keras_tying.zoo.recipes import load_recipe, recipe_folder

RUNS = [
    {"beta": 1.0, "tau": 10.0, "seed": 1, "distance": 0.05},
    {"beta": 0.0, "tau": 10.0, "seed": 1, "distance": 0.95},
    {"beta": 0.0, "tau": 10.0, "seed": 2, "distance": 0.97},
]


@pytest.fixture
def folder(tmp_path):
    """The zoo's recipes, without results."""
    for path in recipe_folder().glob("vd_lstm_*.toml"):
        shutil.copy(path, tmp_path)
    shutil.copytree(recipe_folder() / "studies", tmp_path / "studies")
    (tmp_path / "results").mkdir()
    return tmp_path


def last_section(page):
    return page.read_text().rpartition("## ")[2]


def test_every_row_shows_what_was_published_and_measured(folder):
    text = write_page(folder).read_text()
    for name in ("vd_lstm_small", "vd_lstm_large_tied_augmented"):
        recipe = load_recipe(name)
        (row,) = [line for line in text.splitlines() if f"]({name}.md)" in line]
        assert f"| {recipe.published.test_perplexity:.1f} |" in row
        if recipe.measured is None:
            assert row.count("not measured") == 2


def test_distances_are_shown_with_the_runs_behind_them(folder):
    assert last_section(write_page(folder)).endswith("Not measured.\n")
    results = {
        "runs": RUNS,
        "by_beta": {"tau": 10.0, "beta": [0.0, 1.0], "distance": [0.96, 0.05]},
        "by_tau": {"beta": 1.0, "tau": [10.0], "distance": [0.05]},
        "device": "a processor",
        "versions": {"python": "3"},
        "command": "python train/subspace.py",
    }
    (folder / "results" / "subspace.json").write_text(json.dumps(results))
    text = write_page(folder).read_text()
    assert "| 0 | 0.960 | 2 |" in text
    assert "| 10 | 0.050 | 1 |" in text
    assert "python train/subspace.py" in text


def test_an_interrupted_sweep_is_not_measured(folder):
    (folder / "results" / "subspace.json").write_text(json.dumps({"runs": RUNS}))
    assert last_section(write_page(folder)).endswith("Not measured.\n")


def test_a_table_of_next_words_is_shown_when_there_is_one(folder):
    table = "| phrase | a | b |\n|---|---|---|"
    assert table not in write_page(folder).read_text()
    (folder / "results" / "vd_lstm_small_next_words.md").write_text(table + "\n")
    assert table in write_page(folder).read_text()


def test_the_page_in_the_zoo_is_that_of_its_results(tmp_path):
    shutil.copytree(recipe_folder(), tmp_path / "zoo")
    assert write_page(tmp_path / "zoo").read_text() == (recipe_folder() / "augmentation.md").read_text()
