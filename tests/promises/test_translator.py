"""What `train/nmt.py` promises of the translators it trains."""

import functools
import re

import harness
import numpy as np
import pytest
import sacrebleu
from harness import NO_RATE, train_nmt

from keras_tying.data import SentencePairs, Subwords

RECIPE = """
title = "Tiny"
[model]
name = "dl4mt_small"
arguments = {{ tying = "three_way", embedding_size = 16, units = 16, dropout = 0.0 }}
[data]
vocabulary_size = 150
[loss]
arguments = {{ label_smoothing = {label_smoothing} }}
[optimisation]
{optimisation}
"""
EPOCHS = 10


def recipe(label_smoothing=0.0, **optimisation):
    settings = {"learning_rate": 0.01, "batch_tokens": 400, "epochs": 1, **optimisation}
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    return RECIPE.format(optimisation=lines, label_smoothing=label_smoothing)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return {
        "train": harness.phrase_files(folder, count=100, skipped=900),
        "valid": harness.phrase_files(folder, "valid", count=10),
        "few": harness.phrase_files(folder, count=12, skipped=900),
    }


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A run at so high a rate that its last epoch is not the best; it is tested on text it has seen."""
    files = harness.pair_options(texts["train"], texts["valid"], texts["few"])
    settings = recipe(epochs=EPOCHS, learning_rate=0.05, final_learning_rate=0.04)
    return train_nmt(tmp_path_factory.mktemp("trained") / "run", settings, files)


@pytest.fixture(scope="module")
def unmoved(texts, tmp_path_factory):
    """A run that leaves the weights as they were drawn: in one batch with padding, with smoothing and patience."""
    files = harness.pair_options(texts["few"], texts["valid"], texts["valid"])
    changes = {"batch_tokens": 100_000, "epochs": 6, "label_smoothing": 0.4, "patience": 2}
    return train_nmt(tmp_path_factory.mktemp("unmoved") / "run", recipe(learning_rate=NO_RATE, **changes), files)


@pytest.fixture(scope="module")
def by_beam(run, texts):
    """What sacrebleu makes of `--translate` with the beam of the results and with a beam of one, of the test text."""
    sources, references = map(read, texts["few"])
    figures = {}
    for beam in (run.results["beam"], 1):
        options = ["--translate", run.folder, "--beam", beam]
        found = harness.succeed("train/nmt.py", *options, stdin="\n".join(sources) + "\n").splitlines()
        bleu, chrf = sacrebleu.corpus_bleu(found, [references]), sacrebleu.corpus_chrf(found, [references])
        figures[beam] = {"test_bleu": bleu.score, "test_chrf": chrf.score}
    return figures


def evaluated(run, *options):
    printed = harness.succeed("train/nmt.py", "--evaluate", run.folder, *options)
    return dict(re.findall(r"^(\w+) +(.+)$", printed, re.M))


def test_recorded_bleu_is_searched_with_the_beam_written_beside_it(run, by_beam):
    results = run.results
    found, greedy = by_beam[results["beam"]], by_beam[1]
    assert greedy["test_bleu"] != pytest.approx(found["test_bleu"], abs=0.01)
    for name, figure in found.items():
        assert results[name] == pytest.approx(figure, abs=1e-6)


def test_evaluate_searches_with_the_beam_it_is_given(run, by_beam):
    figures = evaluated(run, "--beam", 1)
    assert figures["beam"] == "1.00"
    assert {name: figures[name] for name in by_beam[1]} == {name: f"{value:.2f}" for name, value in by_beam[1].items()}


def test_evaluate_prints_the_figures_of_the_results(run):
    figures, results = evaluated(run), run.results
    names = [name for name in results if name.startswith(("validation_", "test_"))]
    assert {name: figures[name] for name in names} == {
        name: value if isinstance(value := results[name], str) else f"{value:.2f}" for name in names
    }


def test_the_printed_figures_are_those_of_the_results(run):
    (found,) = re.findall(r"test BLEU ([\d.]+), chrF ([\d.]+), perplexity ([\d.]+)", run.printed)
    assert found == tuple(f"{run.results[f'test_{name}']:.2f}" for name in ("bleu", "chrf", "perplexity"))


@pytest.mark.parametrize(("split", "text"), [("validation", "valid"), ("test", "few")])
def test_perplexity_of_a_split_is_that_of_its_text(run, texts, split, text):
    expected = np.exp(loss_in_numpy(run, texts[text]))
    assert run.results[f"{split}_perplexity"] == pytest.approx(expected, rel=1e-4)


def test_the_learning_rate_falls_linearly_over_the_run(run):
    assert run.logged("learning_rate") == pytest.approx(np.linspace(0.05, 0.04, EPOCHS + 1)[1:], rel=1e-5)


def test_the_weights_of_the_epoch_with_the_best_bleu_are_restored(run):
    bleu, perplexities = run.logged("val_bleu"), run.logged("val_perplexity")
    best = bleu.index(max(bleu))
    assert best < EPOCHS - 1
    assert perplexities[best] != pytest.approx(perplexities[-1], rel=1e-3)
    assert run.results["validation_perplexity"] == pytest.approx(perplexities[best], rel=1e-5)


@functools.cache
def log_probabilities(run, files):
    """Of each target subword, and the mean over the vocabulary at its place, sentence by sentence: without padding."""
    model, subwords = run.model(), Subwords.load(run.folder / "subwords.model")
    found = []
    for source, target in zip(*map(read, files), strict=True):
        pairs = SentencePairs.encode([(source, target)], subwords, subwords)
        inputs, words, _ = pairs.batch(np.array([0]))
        logits = np.asarray(model(inputs), np.float64)[0]
        of_all = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        found.append((of_all[np.arange(words.shape[1]), words[0]], of_all.mean(-1)))
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def loss_in_numpy(run, files, label_smoothing=0.0):
    """The mean loss of all target subwords under the run's weights."""
    of_words, means = log_probabilities(run, files)
    return -np.mean((1 - label_smoothing) * of_words + label_smoothing * means)


def test_the_loss_is_the_mean_of_all_target_subwords_without_padding_smoothed_as_the_recipe_says(unmoved, texts):
    expected = loss_in_numpy(unmoved, texts["few"], label_smoothing=0.4)
    assert unmoved.history[0]["loss"] == pytest.approx(expected, rel=2e-6)
    assert expected != pytest.approx(loss_in_numpy(unmoved, texts["few"]), rel=2e-5)


def test_train_perplexity_counts_neither_padding_nor_smoothing(unmoved, texts):
    assert unmoved.history[0]["perplexity"] == pytest.approx(np.exp(loss_in_numpy(unmoved, texts["few"])), rel=2e-6)


def test_training_stops_once_patience_is_at_its_end(unmoved):
    assert len(unmoved.history) == unmoved.results["epochs"] == 3  # the first is the best
