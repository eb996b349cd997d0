import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.commands.options import parse
from keras_tying.data import save_word_vectors
from keras_tying.data.similarity import SimilaritySet
from keras_tying.training import Run, RunSettings
from keras_tying.zoo.recipes import JointLanguageModelRecipe, LanguageModelRecipe, Model, recipe_folder
from studies.commands import compare as compare_command
from studies.commands import embeddings as embeddings_command
from studies.compare import print_next_words
from studies.embedding_metrics import Embedding, measure_embeddings, read_embeddings
from studies.embeddings import draw_embeddings, embeddings_page, metric_tables

PNG = b"\x89PNG"
PAIRS = SimilaritySet("own", [("a", "b"), ("c", "d"), ("a", "d"), ("a", "sun")], [9.0, 5.0, 1.0, 3.0])

SETTINGS = RunSettings(
    recipe_name="test", seed=1, command="", recipe=LanguageModelRecipe(model=Model(name="ptb_small"))
)


@pytest.fixture
def embeddings(rng):
    first = rng.normal(size=(5, 4)).astype(np.float32)
    return [
        Embedding("input", "untied", list("abcde"), first, np.array([9.0, 5, 3, 2, 1])),
        Embedding("tied", "tied", list("dcbaf"), first[[3, 2, 1, 0, 4]] * 2),
    ]


def finished_run(folder, model, vocabulary, settings=SETTINGS, files=("vocabulary.txt",)):
    run = Run.create(folder, settings, lambda new: [vocabulary.save(new / file) for file in files])
    model.save(run.model)
    return folder


def test_embeddings_of_different_order_are_compared_by_word(embeddings):
    results = measure_embeddings(embeddings, [PAIRS], ["a", "sun"])
    assert results["pair_correlation"]["words"] == 4
    assert results["pair_correlation"]["spearman"]["input, tied"] == pytest.approx(1)
    similarity = results["word_similarity"]["own"]
    assert similarity["input"] == similarity["tied"]
    assert (similarity["input"]["covered"], similarity["input"]["pairs"]) == (3, 4)
    assert set(results["neighbours"]["input"]) == {"a"}
    assert set(results["updates"]) == {"input"}
    json.dumps(results)


def test_embeddings_without_common_words_are_refused(embeddings, rng):
    other = Embedding("other", "other", list("xyz"), rng.normal(size=(3, 4)))
    with pytest.raises(ValueError, match=r"three words in common. Received: 0"):
        measure_embeddings([*embeddings, other], [PAIRS], [])


def test_published_results_stand_beside_measured_ones(embeddings):
    results = measure_embeddings(embeddings, [PAIRS], [])
    results["word_similarity"]["own"]["tied"]["spearman"] = None
    published = {"word_similarity": {"own": {"tied": 0.25}}, "pair_correlation": {"input, tied": 0.5}}
    text = "\n".join(metric_tables([results], published))
    assert "| — (published 0.25) | 3 of 4 |" in text
    assert "| input, tied | 1.00 (published 0.50) |" in text


def test_plots_are_drawn(embeddings, tmp_path):
    paths = draw_embeddings(tmp_path / "own", embeddings, [PAIRS], ["a", "sun"])
    assert [path.name for path in paths] == ["own_similarity.png", "own_map.png", "own_updates.png"]
    assert all(path.read_bytes().startswith(PNG) for path in paths)


def test_runs_and_files_are_read_with_their_roles(tmp_path, vocabulary, rng):
    untied = finished_run(tmp_path / "untied", zoo.skip_gram(len(vocabulary), 4), vocabulary)
    tied = finished_run(
        tmp_path / "tied", zoo.ptb_small(True, vocabulary_size=len(vocabulary), num_layers=1), vocabulary
    )
    language_model = zoo.ptb_small(False, vocabulary_size=len(vocabulary), num_layers=1)
    other = finished_run(tmp_path / "other", language_model, vocabulary)
    save_word_vectors(tmp_path / "theirs.bin", ["a", "b"], rng.normal(size=(2, 3)))
    found = read_embeddings([untied, tied, other, tmp_path / "theirs.bin"])
    assert [e.label for e in found] == [
        "untied input",
        "untied output",
        "tied",
        "other input",
        "other output",
        "theirs",
    ]
    (first,) = vocabulary.encode(found[4].words[:1])
    np.testing.assert_array_equal(found[4].matrix[0], np.array(language_model.embedding.reverse_embeddings)[:, first])
    assert [len(e.words) for e in found] == [298] * 5 + [2]


def test_files_of_one_name_are_all_measured(tmp_path, rng):
    paths = [tmp_path / folder / "w.txt" for folder in ("y1", "y2")]
    for path in paths:
        path.parent.mkdir()
        save_word_vectors(path, list("abcd"), rng.normal(size=(4, 3)))
    found = read_embeddings(paths)
    assert [each.label for each in found] == ["y1/w", "y2/w"]
    assert len(measure_embeddings(found, [PAIRS], [])["embeddings"]) == 2


def test_an_unfinished_run_is_named(tmp_path, vocabulary):
    Run.create(tmp_path / "run", SETTINGS, lambda new: vocabulary.save(new / "vocabulary.txt"))
    with pytest.raises(FileNotFoundError, match=r"run has no trained model yet"):
        read_embeddings([tmp_path / "run"])


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (embeddings_command.COMMAND, read_embeddings),
        (compare_command.COMMAND.by_name["next-words"], print_next_words),
    ],
)
def test_a_folder_of_a_name_in_the_zoo_is_read(tmp_path, monkeypatch, command, read):
    monkeypatch.chdir(tmp_path)
    Path("word2vec").mkdir()
    with pytest.raises(FileNotFoundError, match="word2vec is not a run and not a preset"):
        read(parse(command, ["./word2vec"], "").runs)


def test_a_model_with_a_source_vocabulary_is_refused(tmp_path, vocabulary):
    size = len(vocabulary)
    model = zoo.nnjm(size, size, embedding_size=4, hidden_units=[4])
    settings = SETTINGS.model_copy(update={"recipe": JointLanguageModelRecipe(model=Model(name="nnjm"))})
    run = finished_run(tmp_path / "run", model, vocabulary, settings, ["source_vocabulary.txt", "vocabulary.txt"])
    with pytest.raises(ValueError, match=r"one vocabulary. Received: JointLanguageModel .* source, input, output"):
        read_embeddings([run])


def test_the_page_is_made_from_its_text_and_the_results(tmp_path, embeddings):
    (tmp_path / "studies").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(recipe_folder() / "studies" / "cells.toml", tmp_path / "studies")
    (tmp_path / "studies" / "embeddings.toml").write_text(
        'title = "Page"\ntext = "Intro."\n[studies.one]\ntitle = "One"\ntext = "First."\n'
        '[studies.two]\ntitle = "Two"\ntext = "Second."\n'
    )
    results = measure_embeddings(embeddings, [PAIRS], [])
    results |= {"versions": {"python": "3"}, "device": "a processor", "command": "python train/embeddings.py one"}
    (tmp_path / "results" / "one.json").write_text(json.dumps(results))
    assert "Training of the runs: not recorded." in embeddings_page(tmp_path)
    results["trainings"] = [
        {"run": "first", "seed": 3, "epochs": 2, "wall_time_seconds": 90.0, "device": "its device", "commit": "5e1f"}
        | {"versions": {"keras": "3.15.1"}, "precision": "float32"}
    ]
    (tmp_path / "results" / "one.json").write_text(json.dumps(results))
    text = embeddings_page(tmp_path)
    training = "Training of first: seed 3, 2 epochs, 2 minutes in float32 on its device; keras 3.15.1; commit 5e1f."
    assert "Measured on a processor; python 3; commit not recorded." in text
    assert training in text
    assert text.index("# Page") < text.index("First.") < text.index("| own |") < text.index("Second.")
    assert text.endswith("Second.\n\nNot measured.\n")
    first = results["word_similarity"]["own"]["tied"]["spearman"]
    results["word_similarity"]["own"]["tied"]["spearman"] = first - 0.2
    results["trainings"][0]["seed"] = 4
    (tmp_path / "results" / "one_s4.json").write_text(json.dumps(results))
    text = embeddings_page(tmp_path)
    assert f" {first - 0.1:.2f} ({first - 0.2:.2f} to {first:.2f}) |" in text
    assert training in text
    assert "Training of first: seed 4" in text
