"""What `train/nnjm.py` promises of the joint language models it trains."""

import re
from itertools import pairwise

import harness
import pytest
from harness import NO_RATE, train_nnjm


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    splits = {"train": ("train", 150, 900), "a": ("valid", 30, 0), "b": ("test", 30, 0)}
    return {name: harness.linked(harness.phrase_files(folder, *each)) for name, each in splits.items()}


@pytest.fixture(scope="module")
def swapped(texts, tmp_path_factory):
    """Two runs that differ in this alone: the validation text of one is the test text of the other."""
    folder = tmp_path_factory.mktemp("swapped")
    options = {name: harness.linked_options(texts["train"], *map(texts.get, name)) for name in ("ab", "ba")}
    return {name: train_nnjm(folder / name, files, "--epochs", 1) for name, files in options.items()}


@pytest.fixture(scope="module")
def overshot(texts, tmp_path_factory):
    """A run at so high a rate that some epochs are worse than those before."""
    files = harness.linked_options(*texts.values())
    return train_nnjm(tmp_path_factory.mktemp("high") / "run", files, "--epochs", 6, learning_rate=3.0)


def test_test_perplexity_is_that_of_the_test_text(swapped):
    harness.assert_each_split_has_its_own_perplexity(swapped["ab"], swapped["ba"])


def test_evaluate_prints_each_split_beside_its_own_perplexity(swapped):
    printed = harness.succeed("train/nnjm.py", "--evaluate", swapped["ab"].folder)
    figures = {split: float(figure) for split, figure in re.findall(r"(valid|test) +perplexity +([\d.]+)", printed)}
    results = swapped["ab"].results
    assert figures == pytest.approx(
        {split: results[f"{name}_perplexity"] for split, name in (("valid", "validation"), ("test", "test"))}, abs=0.006
    )
    assert abs(figures["valid"] - figures["test"]) > 0.1


def test_the_printed_perplexities_are_those_of_the_results(swapped):
    (found,) = re.findall(r"test perplexity ([\d.]+) \(validation ([\d.]+)\)", swapped["ab"].printed)
    results = swapped["ab"].results
    assert found == (f"{results['test_perplexity']:.2f}", f"{results['validation_perplexity']:.2f}")


def test_the_learning_rate_is_halved_after_each_epoch_that_was_worse(overshot):
    perplexities = overshot.logged("val_perplexity")
    worse = [later > earlier for earlier, later in pairwise(perplexities)]
    expected = [3.0 * 0.5 ** sum(worse[: max(epoch - 1, 0)]) for epoch in range(6)]
    assert overshot.logged("learning_rate") == pytest.approx(expected)
    assert expected[-1] < 3.0


def test_the_best_epoch_is_restored(overshot):
    perplexities = overshot.logged("val_perplexity")
    assert overshot.results["validation_perplexity"] == pytest.approx(min(perplexities), rel=1e-6)
    assert perplexities[-1] > 1.001 * min(perplexities)


def test_training_stops_once_patience_is_at_its_end(tmp_path, texts):
    files = harness.linked_options(*texts.values())
    run = train_nnjm(tmp_path / "run", files, "--epochs", 9, patience=2, learning_rate=NO_RATE)
    assert len(run.history) == run.results["epochs"] == 3  # the first is the best
