import math
import re
import shutil

import pytest

from keras_tying.zoo.recipes import recipe_folder
from studies.__main__ import all_pages
from studies.cards import card_pages, measured_otherwise, perplexities_of_seeds, read_recipes, reversals
from studies.cells import read_cells
from studies.pages import between_marks, origin

ZOO = recipe_folder()
PAGES = [*sorted(ZOO.glob("*.md")), ZOO / "results.csv", ZOO.parent / "README.md", ZOO.parent / "docs" / "training.md"]


@pytest.fixture(scope="module")
def made():
    return all_pages(ZOO)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ZOO.parent)))
def test_every_page_is_made_from_recipes_and_results(made, path):
    assert made[path] == path.read_text(encoding="utf-8")


def test_every_page_that_is_made_is_in_the_repository(made):
    assert set(made) == set(PAGES)


def test_commands_of_cards_name_recipes_that_a_checkout_has(made):
    named = [file for path in ZOO.glob("*.md") for file in re.findall(r"--recipe (\S+)", made[path])]
    assert "ptb_small_tied" in named
    assert [file for file in named if file.endswith(".toml") and not (ZOO.parent / file).exists()] == []


def test_a_card_names_superseded_results_and_an_order_that_is_the_reverse_of_the_published_one(tmp_path):
    names = ["vd_lstm_small_augmented", "vd_lstm_small_tied", "vd_lstm_small_tied_augmented"]
    (tmp_path / "studies").mkdir()
    kept = tmp_path / "results" / "superseded" / "vd_lstm_small_tied_1.json"
    kept.parent.mkdir(parents=True)
    for name in names:
        shutil.copy(ZOO / f"{name}.toml", tmp_path)
        shutil.copy(ZOO / "results" / f"{name}.json", tmp_path / "results")
    older = ZOO / "results" / "superseded" / "vd_lstm_small_augmented_1.json"  # which is worse than the tied model
    shutil.copy(older, tmp_path / "results" / "vd_lstm_small_augmented.json")
    shutil.copy(ZOO / "studies" / "cells.toml", tmp_path / "studies")
    recipes, cells = read_recipes(tmp_path), read_cells(tmp_path)
    assert reversals(recipes, perplexities_of_seeds(recipes, tmp_path)) == [tuple(names[:2])]
    shutil.copy(ZOO / "results" / "superseded" / kept.name, kept)
    cards = {path.stem: text for path, text in card_pages(recipes, cells, tmp_path).items()}
    assert "Superseded: test perplexity 87.3 (validation 92.5) with seed 1 after 60 epochs" in cards[names[1]]
    assert ["is the reverse of the published" in cards[name] for name in names] == [True, True, False]
    assert (
        "VD-LSTM + AL, small is better than VD-LSTM + RE, small; here it is worse (87.7 and 87.0)." in cards["README"]
    )


def test_an_order_within_the_ranges_of_the_seeds_is_no_reversal():
    names = ["vd_lstm_small_augmented", "vd_lstm_small_tied"]
    recipes = {name: read_recipes(ZOO)[name] for name in names}
    assert reversals(recipes, dict(zip(names, ([87.0, 88.0], [85.0, 86.0]), strict=True))) == [tuple(names)]
    assert reversals(recipes, dict(zip(names, ([85.5, 88.0], [85.0, 86.0]), strict=True))) == []


def test_another_way_to_measure_names_the_seeds_that_have_it():
    first, second = {"seed": 1, "test_perplexity": 101.0}, {"seed": 2, "test_perplexity": 102.0}
    assert measured_otherwise([first], "test", "dynamic") == "not measured"
    second |= {"validation_perplexity_dynamic": 90.0, "test_perplexity_dynamic": 88.0}
    assert measured_otherwise([first, second], "test", "dynamic") == "88.0 (seed 2: 102.0 without)"
    first |= {"validation_perplexity_dynamic": 91.0, "test_perplexity_dynamic": 89.0}
    assert measured_otherwise([first, second], "test", "dynamic") == "88.5 (88.0 to 89.0)"
    third = {"seed": 3, "test_perplexity": 110.0}
    of_two = "88.5 (88.0 to 89.0; seeds 1, 2: 101.5 without)"
    assert measured_otherwise([first, second, third], "test", "dynamic") == of_two


@pytest.mark.parametrize("diverged", [None, math.nan])
def test_settings_that_diverge_on_validation_text_have_no_test_perplexity(diverged):
    seed = {"seed": 1, "test_perplexity": 100.0, "validation_perplexity_dynamic": diverged}
    assert measured_otherwise([seed | {"test_perplexity_dynamic": 87.0}], "test", "dynamic") == "diverged (seed 1)"


def test_the_commit_of_results_is_shown_where_it_is_known():
    results = {"device": "a processor", "versions": {"python": "3"}}
    assert origin(results) == "a processor; python 3; commit not recorded"
    assert origin({**results, "commit": "5e1f with changes"}) == "a processor; python 3; commit 5e1f with changes"


def test_only_the_text_between_marks_is_replaced():
    page = "before\n<!-- sizes, made by `make zoo` -->\nold\n<!-- end of sizes -->\nafter\n"
    made = between_marks(page, "sizes", "new")
    assert made == page.replace("old", "new")
    assert between_marks(made, "sizes", "new") == made


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match=r"Expected the marks <!-- sizes.* Received a page without them"):
        between_marks("<!-- sizes, made by `make zoo` -->", "sizes", "new")
