"""What `train/lm.py` promises of the language models it trains."""

import re

import harness
import numpy as np
import pytest
from harness import NO_RATE, train_lm

MODEL = '[model]\nname = "ptb_small"\narguments = { tied = true, num_layers = 1 }\n'
DATA = '[data]\ncorpus = "files"\ntokenization = "spaces"\nvocabulary_size = 150\n'


def recipe(model=MODEL, **optimisation):
    settings = {"batch_size": 4, "sequence_length": 5, "epochs": 1, **optimisation}
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    return f'title = "Tiny"\n{model}{DATA}[optimisation]\n{lines}\n'


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Files of a text to train on, of two others, and of one that fills one batch of four rows of five words."""
    folder = tmp_path_factory.mktemp("texts")
    return {
        "train": harness.text_file(folder / "train.txt", 820),
        "a": harness.text_file(folder / "a.txt", 200, split="valid"),
        "b": harness.text_file(folder / "b.txt", 200, split="test"),
        "one batch": harness.text_file(folder / "one.txt", 30),
    }


@pytest.fixture(scope="module")
def files(texts):
    return harness.text_options(texts["train"], texts["a"], texts["b"])


@pytest.fixture(scope="module")
def one_batch(texts):
    return harness.text_options(texts["one batch"], texts["a"], texts["b"])


def split_perplexities(printed):
    """What `--evaluate` says of each split."""
    return {split: float(figure) for split, figure in re.findall(r"^(\w+) +perplexity +([\d.]+) over", printed, re.M)}


@pytest.fixture(scope="module")
def swapped(texts, tmp_path_factory):
    """Two runs that differ in this alone: the validation text of one is the test text of the other."""
    folder = tmp_path_factory.mktemp("swapped")
    options = {name: harness.text_options(texts["train"], *map(texts.get, name)) for name in ("ab", "ba")}
    return {name: train_lm(folder / name, recipe(), files) for name, files in options.items()}


def test_test_perplexity_is_that_of_the_test_text(swapped):
    harness.assert_each_split_has_its_own_perplexity(swapped["ab"], swapped["ba"])


def test_the_printed_perplexities_are_those_of_the_results(swapped):
    (found,) = re.findall(r"test perplexity ([\d.]+) \(validation ([\d.]+)\)", swapped["ab"].printed)
    results = swapped["ab"].results
    assert found == tuple(f"{results[f'{split}_perplexity']:.2f}" for split in ("test", "validation"))


def test_evaluate_prints_each_split_beside_its_own_perplexity(swapped):
    run = swapped["ab"]
    printed = split_perplexities(harness.succeed("train/lm.py", "--evaluate", run.folder))
    assert printed["test"] == pytest.approx(run.results["test_perplexity"], abs=0.006)
    assert printed["valid"] == pytest.approx(run.results["validation_perplexity"], abs=0.006)
    assert abs(printed["test"] - printed["valid"]) > 0.1


def test_perplexity_is_that_of_a_numpy_computation(swapped, texts):
    run = swapped["ab"]
    words = (run.folder / "vocabulary.txt").read_text().splitlines()
    text = [*" <eos> ".join(texts["b"].read_text().splitlines()).split(), "<eos>"]
    ids = np.array([words.index(word) if word in words else words.index("<unk>") for word in text])
    logits = np.asarray(run.model()(ids[None, :-1]), np.float64)[0]
    nll = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(ids) - 1), ids[1:]]
    assert run.results["test_perplexity"] == pytest.approx(np.exp(nll.mean()), rel=1e-4)


def test_the_learning_rate_falls_after_the_full_rate_epochs(tmp_path, one_batch):
    settings = recipe(epochs=5, learning_rate=0.8, full_rate_epochs=2, decay=0.5)
    assert train_lm(tmp_path / "run", settings, one_batch).logged("learning_rate") == pytest.approx(
        [0.8, 0.8, 0.4, 0.2, 0.1]
    )


def test_weights_move_by_the_decayed_rate(tmp_path, one_batch):
    changes = {"learning_rate": 1.0, "full_rate_epochs": 1, "decay": NO_RATE}
    short = train_lm(tmp_path / "short", recipe(epochs=1, **changes), one_batch)
    long = train_lm(tmp_path / "long", recipe(epochs=2, **changes), one_batch)
    for expected, received in zip(short.weights, long.weights, strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.fixture(scope="module")
def unmoved(files, tmp_path_factory):
    """A run whose weights stay as they were drawn, in three epochs."""
    return train_lm(tmp_path_factory.mktemp("unmoved") / "run", recipe(epochs=3, learning_rate=NO_RATE), files)


def test_every_epoch_starts_from_an_empty_state(unmoved):
    history = unmoved.logged("perplexity")
    assert history == pytest.approx([history[0]] * 3, rel=1e-7)


def test_state_is_carried_from_window_to_window(tmp_path, files, unmoved):
    """Without it a word's perplexity would depend on where windows end: 20 of 10 words, or 40 of 5, are as good."""
    longer = train_lm(tmp_path / "10", recipe(sequence_length=10, learning_rate=NO_RATE), files)
    perplexities = [run.results["train_perplexity"] for run in (unmoved, longer)]
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-6)


@pytest.fixture(scope="module")
def stepped(one_batch, tmp_path_factory):
    """Runs without any step, and of one step by recipes that differ in one setting."""
    folder = tmp_path_factory.mktemp("stepped")
    changes = {
        "before": {"learning_rate": NO_RATE, "epochs": 4},
        "plain": {"learning_rate": 0.5},
        "l2": {"learning_rate": 0.5, "l2": 0.2},
        "weight decay": {"learning_rate": 0.5, "decoupled_weight_decay": 0.3},
        "clipped": {"learning_rate": 0.5, "clip_norm": 0.01},
    }
    return {
        name: train_lm(folder / name.replace(" ", "_"), recipe(**each), one_batch) for name, each in changes.items()
    }


@pytest.fixture(scope="module")
def weights(stepped):
    return {name: run.weights for name, run in stepped.items()}


def test_l2_moves_weights_against_themselves_beside_the_gradient(weights):
    for before, plain, l2 in zip(weights["before"], weights["plain"], weights["l2"], strict=True):
        np.testing.assert_allclose(l2, plain - 0.5 * 0.2 * before, atol=1e-6)
    assert max(np.abs(before).max() for before in weights["before"]) > 0.05


def test_weight_decay_shrinks_what_the_step_gave(weights):
    for plain, decayed in zip(weights["plain"], weights["weight decay"], strict=True):
        np.testing.assert_allclose(decayed, plain * (1 - 0.3), atol=1e-6)


def test_a_clipped_step_has_the_length_of_rate_times_clip_norm(weights):
    steps = [after - before for before, after in zip(weights["before"], weights["clipped"], strict=True)]
    assert np.sqrt(sum(np.sum(step.astype(np.float64) ** 2) for step in steps)) == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_training_stops_once_patience_is_at_its_end(tmp_path, one_batch):
    run = train_lm(tmp_path / "run", recipe(epochs=9, learning_rate=NO_RATE, patience=2), one_batch)
    assert len(run.history) == run.results["epochs"] == 3  # the first is the best


def test_without_patience_training_goes_to_the_end(stepped):
    assert len(stepped["before"].history) == 4
