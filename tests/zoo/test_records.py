import json
from threading import Thread

import pytest
import tomlkit

from keras_tying.zoo import records
from keras_tying.zoo.changed_recipes import changed_recipe
from keras_tying.zoo.recipes import load_recipe
from keras_tying.zoo.records import record_measured

MEASURED = {"parameters": 7, "seed": 3, "epochs": 2, "wall_time_seconds": 1.5, "device": "a", "command": "c"}


def test_a_run_of_changed_settings_is_not_recorded(folder):
    recipe = load_recipe("ptb_small_tied")
    with pytest.raises(ValueError, match=r"differ from the recipe 'ptb_small_tied'"):
        record_measured("ptb_small_tied", changed_recipe(recipe, {"optimisation.epochs": 1}), {})


@pytest.mark.parametrize("name", ["ptb_small_tied", "multi30k_en_de_three_way"])
def test_results_are_recorded_after_the_notes_change(folder, name):
    recipe = load_recipe(name)
    results = {**MEASURED, "test_bleu": 30.0, "versions": {"keras": "3"}, "history": [1]}
    record_measured(name, recipe.model_copy(update={"notes": "other words"}), results)
    recorded = tomlkit.parse((folder / f"{name}.toml").read_text())["measured"].unwrap()
    assert recorded == {"precision": "float32", **{k: v for k, v in results.items() if k != "history"}}
    assert json.loads((folder / "results" / f"{name}.json").read_text()) == results


def test_recording_keeps_earlier_results_and_other_seeds(folder):
    recipe, results = load_recipe("ptb_small_tied"), folder / "results"
    for seed, epochs in ((3, 2), (3, 2), (3, 3), (3, 4), (1, 5), (1, 6)):
        record_measured("ptb_small_tied", recipe, {**MEASURED, "versions": {}, "seed": seed, "epochs": epochs})
    found = {str(path.relative_to(results)): json.loads(path.read_text())["epochs"] for path in results.rglob("*.json")}
    assert found == {
        "ptb_small_tied.json": 4,
        "ptb_small_tied_s1.json": 6,
        "superseded/ptb_small_tied_1.json": 2,
        "superseded/ptb_small_tied_2.json": 3,
        "superseded/ptb_small_tied_s1_1.json": 5,
    }
    recorded = load_recipe(folder / "ptb_small_tied.toml").measured
    assert (recorded.seed, recorded.epochs) == (3, 4)


def test_results_of_a_run_that_is_measured_in_one_more_way_supersede_none(folder):
    recipe, results = load_recipe("ptb_small_tied"), folder / "results"
    for more in ({}, {"test_perplexity_cache": 90.0}):
        record_measured("ptb_small_tied", recipe, {**MEASURED, "versions": {}, **more})
    assert [path.name for path in results.rglob("*.json")] == ["ptb_small_tied.json"]
    assert load_recipe(folder / "ptb_small_tied.toml").measured.test_perplexity_cache == 90.0


def test_results_of_a_row_are_recorded_in_the_row(folder):
    rows = "[rows.untied]\n[rows.tied]\nmodel.arguments.tied = true\n"
    (folder / "mine.toml").write_text(f'[model]\nname = "ptb_small"\n{rows}')
    recipe = load_recipe("mine_tied")
    record_measured("mine_tied", recipe, {**MEASURED, "versions": {"keras": "3"}})
    assert load_recipe("mine_tied").measured.seed == 3
    assert load_recipe("mine_untied").measured is None


def test_two_rows_can_be_recorded_at_the_same_time(folder, monkeypatch):
    rows = "[rows.untied]\n[rows.tied]\nmodel.arguments.tied = true\n"
    (folder / "mine.toml").write_text(f'[model]\nname = "ptb_small"\n{rows}')
    results, write = {**MEASURED, "versions": {"keras": "3"}}, records.write_results
    other = Thread(target=record_measured, args=("mine_untied", load_recipe("mine_untied"), results))

    def write_while_another_records(name, results):
        if name == "mine_tied":
            other.start()
            other.join(0.5)  # it waits until this one has ended
        return write(name, results)

    monkeypatch.setattr(records, "write_results", write_while_another_records)
    record_measured("mine_tied", load_recipe("mine_tied"), results)
    other.join()
    assert [load_recipe(f"mine_{row}").measured.seed for row in ("tied", "untied")] == [3, 3]
