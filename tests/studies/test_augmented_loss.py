import json
import shutil

import pytest

from keras_tying.zoo.recipes import load_recipe, recipe_folder
from studies import augmented_loss
from studies.augmented_loss import augmentation_page

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
    return page.rpartition("## ")[2]


def test_every_row_shows_what_was_published_and_measured(folder):
    measured = {"seed": 1, "validation_perplexity": 92.44, "test_perplexity": 88.06}
    (folder / "results" / "vd_lstm_small.json").write_text(json.dumps(measured))
    text = augmentation_page(folder)
    for name, validation, test in (
        ("vd_lstm_small", "92.4", "88.1"),
        ("vd_lstm_large_tied_augmented", "not measured", "not measured"),
    ):
        published = load_recipe(name).published
        (row,) = [line for line in text.splitlines() if f"]({name}.md)" in line]
        assert row.endswith(
            f"| {published.validation_perplexity:.1f} | {validation} | {published.test_perplexity:.1f} | {test} |"
        )


def test_trials_are_ordered_by_validation_and_those_of_few_epochs_show_no_test_perplexity(folder):
    trials = folder / "results" / "augmented_loss"
    trials.mkdir()
    for name, valid in {
        "b_tau_5_screening_s1": 95.0,
        "a_screening_s1": 96.0,
        "a_first_s1": 90.0,
        "a_first_s2": 91.0,
    }.items():
        results = {
            "validation_perplexity": valid,
            "test_perplexity": 80.04,
            "epochs": 10 if "screening" in name else 40,
        }
        (trials / f"{name}.json").write_text(json.dumps(results))
    rows = [line for line in augmentation_page(folder).splitlines() if "| first" in line or "| screening" in line]
    assert rows == [
        "| a | first, 40 epochs | 90.5 (90.0 to 91.0, 2 seeds) | 80.0 (80.0 to 80.0) |",
        "| b_tau_5 | screening, 10 epochs | 95.0 (1 seed) | — |",
        "| a | screening, 10 epochs | 96.0 (1 seed) | — |",
    ]


def test_distances_are_shown_with_the_runs_behind_them(folder):
    assert last_section(augmentation_page(folder)).endswith("Not measured.\n")
    results = {
        "runs": RUNS,
        "by_beta": {"tau": 10.0, "beta": [0.0, 1.0], "distance": [0.96, 0.05]},
        "by_tau": {"beta": 1.0, "tau": [10.0], "distance": [0.05]},
        "device": "a processor",
        "versions": {"python": "3"},
        "command": "python train/subspace.py",
    }
    (folder / "results" / "subspace.json").write_text(json.dumps(results))
    text = augmentation_page(folder)
    assert "| 0 | 0.960 (0.950 to 0.970) | 2 |" in text
    assert "| 10 | 0.050 | 1 |" in text
    assert "python train/subspace.py" in text


def test_an_interrupted_sweep_is_not_measured(folder):
    (folder / "results" / "subspace.json").write_text(json.dumps({"runs": RUNS}))
    assert last_section(augmentation_page(folder)).endswith("Not measured.\n")


def test_a_table_of_next_words_is_shown_when_there_is_one(folder):
    table = "| phrase | a | b |\n|---|---|---|"
    assert table not in augmentation_page(folder)
    (folder / "results" / "vd_lstm_small_next_words.md").write_text(table + "\n")
    assert table in augmentation_page(folder)


def test_a_sweep_is_written_run_by_run_and_not_measured_twice(run_here, tmp_path):
    output = tmp_path / "r_v1.2"
    other_file = tmp_path / "r_v1.png"
    other_file.write_text("another plot")
    few = ["--corpus", "embedded", "--words", 800, "--units", 4, "--epochs", 1, "--taus", 10, "--output", output]
    assert run_here("train/subspace.py", *few, "--betas", 1, "--seeds", 1).returncode == 0
    assert (tmp_path / "r_v1.2.png").exists()
    assert other_file.read_text() == "another plot"
    more = run_here("train/subspace.py", *few, "--betas", 1, 0, "--seeds", 1)
    assert more.stdout.count("distance") == 1  # that of beta 1 is known
    results = json.loads((tmp_path / "r_v1.2.json").read_text())
    assert [run["beta"] for run in results["runs"]] == [1.0, 0.0]
    assert len(results["by_beta"]["distance"]) == 2

    other = run_here("train/subspace.py", *few, "--units", 5, "--betas", 1, "--seeds", 1)
    assert other.returncode == 2
    assert "runs of other settings" in other.stderr


def test_recording_writes_results_and_plot_alone(run_here, tmp_path, monkeypatch):
    monkeypatch.setattr(augmented_loss, "recipe_folder", lambda: tmp_path)
    few = ["--corpus", "embedded", "--words", 800, "--units", 4, "--epochs", 1, "--taus", 10, "--betas", 1]
    assert run_here("train/subspace.py", *few, "--seeds", 1, "--record").returncode == 0
    assert {path.name for path in tmp_path.rglob("*.*")} == {"subspace.json", "subspace.png"}
    command = json.loads((tmp_path / "results" / "subspace.json").read_text())["command"]
    assert command.startswith("python train/subspace.py --corpus embedded --betas 1 --taus 10 --seeds 1 --words 800")
