"""Commands from their arguments to what they leave in the zoo's folder, here a copy of it."""

import json
import math
import re

import harness
import pytest
import tomlkit

LM = harness.tiny_recipe(epochs=2)
STUDY = """
title = "Page"
text = "Intro."
columns = ["tiny"]
sentence_length = 8
[grids.tiny]
title = "Tiny"
groups = ["main"]
data = { source_vocabulary_size = 100, target_vocabulary_size = 100 }
optimisation = { epochs = 1, batch_size = 16 }
[groups.main]
seeds = 1
[groups.main.cells]
"NNJM" = { model = "nnjm", arguments = { window = 3, embedding_size = 4, hidden_units = [5] } }
"NNLM" = { model = "nnlm", arguments = { embedding_size = 4, hidden_units = [5] } }
[sweeps]
[[tables]]
title = "Table"
published = { "NNJM" = 9.51, "NNLM" = 95.06 }
[[orderings]]
title = "Ordering"
text = "Lower?"
lower = "one"
higher = "other"
pairs = [{ lower = "NNJM", higher = "NNLM" }]
[pictures]
grid = "tiny"
weights = "NNJM"
window = 3
history = "NNJM"
captions = { nnjm_positions = "Positions", nnjm_weights = "Weights", nnjm_sweeps = "Curves" }
"""


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    return harness.copy_zoo(tmp_path / "checkout", monkeypatch)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    splits = [harness.text_file(folder / f"{split}.txt", 200, split=split) for split in ("train", "valid", "test")]
    return harness.text_options(*splits)


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [harness.train_lm(folder / name, LM, files, "--seed", seed) for seed, name in enumerate(("first", "second"))]


@pytest.fixture
def recorded(zoo, files, tmp_path):
    """A run of a recipe of the zoo, recorded there."""
    (zoo / "tiny.toml").write_text(LM)
    options = ["--recipe", "tiny", *files, "--run", tmp_path / "run", "--seed", 3, "--record"]
    return harness.Run(tmp_path / "run", harness.succeed("train/lm.py", *options))


def test_record_writes_metrics_and_curves_beside_the_recipe_and_pages_are_made_of_them(zoo, recorded):
    results = recorded.results
    document = tomlkit.parse((zoo / "tiny.toml").read_text()).unwrap()
    measured = document.pop("measured")
    assert document == tomlkit.parse(LM).unwrap()
    assert measured == {name: results[name] for name in measured}
    assert {"train_perplexity", "validation_perplexity", "test_perplexity", "wall_time_seconds", "command"} <= set(
        measured
    )
    assert (measured["seed"], measured["epochs"]) == (3, 2)
    assert json.loads((zoo / "results" / "tiny.json").read_text()) == results

    pages = harness.made_pages(zoo)
    card = pages[zoo / "tiny.md"]
    (row,) = re.findall(r"^\| test perplexity \| (.*) \| (.*) \|$", card, re.M)
    assert row == ("—", f"{results['test_perplexity']:.1f}")
    assert results["command"] in card
    measured_table, _, _ = pages[zoo / "README.md"].partition("## Not measured")
    lines = [line for line in measured_table.splitlines() if line.startswith(("| recipe |", "| [tiny]"))]
    columns, cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    shown = dict(zip(columns, cells, strict=True))
    assert (shown["measured"], shown["seeds"]) == (f"{results['test_perplexity']:.1f}", "1")
    assert shown["neural cache"] == "not measured"


def test_a_run_that_the_recipe_does_not_describe_is_not_recorded(zoo, files, tmp_path):
    (zoo / "tiny.toml").write_text(LM)
    options = ["--recipe", "tiny", *files, "--run", tmp_path / "run", "--epochs", 1, "--record"]
    finished = harness.command("train/lm.py", *options)
    assert finished.returncode == 2
    assert "differ from the recipe 'tiny'" in finished.stderr
    assert (zoo / "tiny.toml").read_text() == LM
    assert not (zoo / "results" / "tiny.json").exists()


def test_curves_name_each_run_with_its_lowest_validation_perplexity(runs, tmp_path, monkeypatch):
    legends = harness.legends_drawn(monkeypatch)
    folders = [run.folder for run in runs]
    printed = harness.succeed("train/compare.py", "curves", *folders, "--output", tmp_path / "new" / "curves.png")
    assert printed.strip() == str(tmp_path / "new" / "curves.png")
    assert (tmp_path / "new" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert legends == [f"{run.folder.name}: {min(run.logged('val_perplexity')):.1f}" for run in runs]


def test_next_words_are_those_of_each_run_and_mark_what_followed(runs, tmp_path):
    words = (runs[0].folder / "vocabulary.txt").read_text().splitlines()
    followed = next(word for word in words if word.isalpha())
    options = [*(run.folder for run in runs), "--words", len(words), "--output", tmp_path / "table.md"]
    printed = harness.succeed("train/compare.py", "next-words", *options, "--phrase", f"{words[0]} + {followed}")
    assert (tmp_path / "table.md").read_text() == printed
    header, _, row = printed.splitlines()
    assert header == "| phrase | first | second |"
    assert row.count(f" **{followed}** 0.") == 2
    for cell in row.strip("| ").split(" | ")[1:]:
        figures = [float(figure) for figure in re.findall(r" (\d\.\d\d)(?:,|$)", cell)]
        assert len(figures) == len(words)
        assert figures == sorted(figures, reverse=True)
        assert math.isclose(sum(figures), 1, abs_tol=0.76)  # each rounded by 0.005 at most


def test_an_unfinished_run_is_not_compared(tmp_path):
    finished = harness.command("train/compare.py", "next-words", tmp_path)
    assert finished.returncode == 2
    assert "is not a run" in finished.stderr


def test_overlap_counts_the_subwords_that_sentencepiece_gives_each_language(zoo, tmp_path):
    files = harness.phrase_files(tmp_path, count=150)
    splits = [harness.phrase_files(tmp_path, split, count=5) for split in ("valid", "test")]
    recipe = tmp_path / "tiny.toml"
    recipe.write_text('[model]\nname = "dl4mt_small"\narguments = {}\n[data]\nvocabulary_size = 150\n')
    options = ["--overlap", "--record", "--recipe", recipe, *harness.pair_options(files, *splits)]
    printed = harness.succeed("train/nmt.py", *options)
    seen = harness.subwords_used(files, 150)
    expected = {"only_source": len(seen[0] - seen[1]), "only_target": len(seen[1] - seen[0])}
    expected["both"] = len(seen[0] & seen[1])
    assert min(expected.values()) > 0
    names = {"only in source": "only_source", "only in target": "only_target", "in both": "both"}
    found = re.findall(r"^Subwords (only in source|only in target|in both) +(\d+)$", printed, re.M)
    assert {names[name]: int(figure) for name, figure in found} == expected
    results = json.loads((zoo / "results" / "overlap_files_source_target.json").read_text())
    assert {name: results[name] for name in expected} == expected
    counts = " | ".join(str(expected[name]) for name in ("only_source", "only_target", "both"))
    assert f"(results/overlap_files_source_target.json) | {counts} |" in harness.made_pages(zoo)[zoo / "translation.md"]


def test_the_grid_command_trains_what_has_no_results_and_makes_pictures_and_page(zoo, tmp_path):
    splits = [("train", 60, 900), ("valid", 20, 0), ("test", 20, 0)]
    lines = ["[grids.tiny.files]"]
    for split, count, skipped in splits:
        names = [path.name for path in harness.linked(harness.phrase_files(tmp_path, split, count, skipped))]
        lines.append(f"{split} = {json.dumps(names)}")
    (zoo / "studies" / "nnjm.toml").write_text(STUDY + "\n".join(lines) + "\n")
    command = ["train/nnjm_grid.py", "tiny", "--data-dir", tmp_path, "--runs", tmp_path / "runs"]
    first = harness.succeed(*command)
    assert [line for line in first.splitlines() if "seed" in line] == ["tiny: NNJM, seed 1", "tiny: NNLM, seed 1"]
    results = json.loads((zoo / "results" / "nnjm_tiny.json").read_text())
    page = harness.made_pages(zoo)[zoo / "nnjm.md"]
    for cell, published in (("NNJM", "9.51"), ("NNLM", "95.06")):
        assert f"| {cell} | {published} | {results['cells'][cell]['runs']['1']['test']:.2f} (1 seed) |" in page
    for picture in ("nnjm_positions", "nnjm_weights", "nnjm_sweeps"):
        assert (zoo / "results" / f"{picture}.png").read_bytes().startswith(b"\x89PNG")

    again = harness.succeed(*command)
    assert "seed" not in again
    assert json.loads((zoo / "results" / "nnjm_tiny.json").read_text()) == results


def test_the_grid_command_names_unknown_grids(zoo):
    finished = harness.command("train/nnjm_grid.py", "nowhere", "--data-dir", zoo)
    assert finished.returncode == 2
    assert "unknown grids ['nowhere']" in finished.stderr
