import os
import signal
from collections import Counter

import keras
import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.commands.nnjm import COMMAND
from keras_tying.commands.options import parse
from keras_tying.data import JointSamples, Vocabulary
from keras_tying.inference.joint_language_model import model_inputs, sample_perplexity
from keras_tying.tasks import JointLanguageModelTask
from keras_tying.tasks.joint_language_model import JointBatches
from keras_tying.training import Run, RunSettings, TrainingInterrupted, create_run, fit
from keras_tying.training.optimisation import halved_rate
from keras_tying.training.task import open_task
from keras_tying.zoo.recipes import JointLanguageModelRecipe, Model, SampleOptimisation, load_recipe

WORDS = 20
VOCABULARY = Vocabulary([*(f"w{i}" for i in range(WORDS - 2)), "<unk>", "<eos>"])


def text(rng, sentences=60):
    """Sentences that translate each source word by the word of the same id, in the same order."""
    lengths = rng.integers(2, 8, sentences)
    starts = np.cumsum([0, *(lengths + 1)])
    ids = rng.integers(0, WORDS - 2, starts[-1]).astype(np.int32)
    ids[starts[1:] - 1] = VOCABULARY.end_id
    return JointSamples.join([(ids, starts, ids, starts, np.arange(len(ids)))], VOCABULARY.end_id, VOCABULARY.end_id)


def make(**arguments):
    return zoo.nnjm(WORDS, WORDS, window=3, embedding_size=8, hidden_units=(16,), **arguments)


def train(folder, samples, model, epochs=3, **changes):
    optimisation = SampleOptimisation(**{"batch_size": 16, "epochs": epochs, **changes})
    recipe = JointLanguageModelRecipe(model=Model(name="nnjm"), optimisation=optimisation)
    task = JointLanguageModelTask(RunSettings(recipe_name="test", seed=3, command="", recipe=recipe))
    task.vocabularies = {"source_vocabulary.txt": VOCABULARY, "vocabulary.txt": VOCABULARY}
    task.samples = {"train": samples, "valid": samples}
    return fit(task, model, Run(folder))


def test_a_model_that_sees_the_source_learns_to_translate(tmp_path, rng):
    samples = text(rng, 400)
    nnjm, nnlm = make(tied=True), zoo.nnlm(WORDS, embedding_size=8, hidden_units=(16,))
    history = train(tmp_path / "nnjm", samples, nnjm, epochs=8, learning_rate=1.0).history
    train(tmp_path / "nnlm", samples, nnlm, epochs=1, learning_rate=1.0)
    assert sample_perplexity(nnjm, samples) < 3 < 10 < sample_perplexity(nnlm, samples)
    assert set(history[0]) == {
        "loss",
        "perplexity",
        "val_perplexity",
        "learning_rate",
        "gradient_norm",
        "words_per_second",
    }


@pytest.mark.parametrize("samples_of_text", [60, 500])
def test_blocks_hold_the_same_batches(rng, samples_of_text):
    model = make()
    batches = JointBatches(model, text(rng, samples_of_text), 8, seed=1)
    batches.begin(2, 3)
    dataset = batches.feed(model)["x"]
    assert not dataset.options().autotune.enabled  # the end of an epoch waits for the thread that tunes
    blocks = list(dataset)
    assert len(blocks) == len(batches)
    for (inputs, targets), (expected, words) in zip(blocks, (batches[i] for i in range(len(batches))), strict=True):
        np.testing.assert_array_equal(targets, words)
        for name in expected:
            np.testing.assert_array_equal(inputs[name], expected[name])


class Parts:
    """A text in several parts, as a prepared text is read."""

    def __init__(self, parts):
        self.parts = parts
        self.part_lengths = [len(part) for part in parts]

    def __len__(self):
        return sum(self.part_lengths)

    def part(self, index):
        return self.parts[index]


def test_every_epoch_sees_the_samples_of_all_parts(rng):
    parts = Parts([text(rng, sentences) for sentences in (60, 1, 40, 20)])
    batches = JointBatches(make(), parts, 8, seed=1)
    assert len(batches) == sum(length // 8 for length in parts.part_lengths)
    whole = Counter(np.concatenate([part.target_ids for part in parts.parts]).tolist())
    orders = []
    for epoch in range(3):
        batches.begin(epoch)
        seen = np.concatenate([batches.block(i, 5)[1].ravel() for i in range(0, len(batches), 5)])
        assert len(seen) == 8 * len(batches)
        assert Counter(seen.tolist()) <= whole
        orders.append(seen.tolist())
    assert orders[0] != orders[1] != orders[2]
    batches.begin(2, first_batch=7)
    rest = np.concatenate([batches[i][1] for i in range(len(batches))])
    assert rest.tolist() == orders[2][7 * 8 :]


def test_the_perplexity_of_parts_is_that_of_the_whole(rng):
    columns = []
    for sentences in (30, 50):
        samples = text(rng, sentences)
        starts = np.append(np.unique(samples.target_first), len(samples))
        columns.append((samples.source_ids, starts, samples.target_ids, starts, samples.affiliations))
    ends = VOCABULARY.end_id, VOCABULARY.end_id
    whole, parts = JointSamples.join(columns, *ends), Parts([JointSamples.join([part], *ends) for part in columns])
    model = make()
    np.testing.assert_allclose(sample_perplexity(model, parts), sample_perplexity(model, whole), rtol=1e-6)


def test_every_epoch_sees_each_sample_once_in_an_order_of_its_own(rng):
    samples = text(rng)
    batches = JointBatches(make(), samples, 8, seed=1)
    orders = []
    for epoch in range(2):
        batches.begin(epoch)
        targets = np.concatenate([batches[i][1] for i in range(len(batches))])
        assert len(targets) == len(samples) // 8 * 8
        orders.append(batches._part(0)[1])
    assert set(orders[0]) == set(orders[1]) == set(range(len(samples)))
    assert (orders[0] != orders[1]).any()


def test_batches_go_on_where_an_epoch_was_left(rng):
    model, samples = make(), text(rng)
    whole = JointBatches(model, samples, 8, seed=1)
    whole.begin(1)
    rest = JointBatches(model, samples, 8, seed=1)
    rest.begin(1, first_batch=3)
    assert len(rest) == len(whole) - 3
    np.testing.assert_array_equal(rest[2][0]["window"], whole[5][0]["window"])


def test_each_epoch_of_fit_has_its_own_order(tmp_path, rng, monkeypatch):
    begun, begin = [], JointBatches.begin

    def recorded(self, *place):
        begun.append(place)
        begin(self, *place)

    monkeypatch.setattr(JointBatches, "begin", recorded)
    train(tmp_path, text(rng), make(), epochs=3)
    assert begun == [(0,), (0, 0), (1, 0), (2, 0)]


class StopAfter(keras.callbacks.Callback):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 >= self.batches:
            os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupted_run_ends_bit_for_bit_like_an_undisturbed_one(tmp_path, rng, monkeypatch):
    samples, whole, disturbed = text(rng, 200), make(), make()
    disturbed.set_weights(whole.get_weights())
    start = whole.get_weights()
    train(tmp_path / "whole", samples, whole)

    fit = type(disturbed).fit
    monkeypatch.setattr(
        type(disturbed),
        "fit",
        lambda self, *a, callbacks, **k: fit(self, *a, callbacks=[StopAfter(20), *callbacks], **k),
    )
    with pytest.raises(TrainingInterrupted):
        train(tmp_path / "disturbed", samples, disturbed)
    monkeypatch.undo()
    again = make()
    again.set_weights(start)
    progress = train(tmp_path / "disturbed", samples, again)
    assert len(progress.history) == 3
    for expected, received in zip(whole.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)


def test_the_best_epoch_is_kept_and_a_worse_one_halves_the_rate(tmp_path, rng):
    model, samples = make(), text(rng)
    history = train(tmp_path, samples, model, epochs=8, learning_rate=40.0, patience=3).history
    perplexities = [logs["val_perplexity"] for logs in history]
    np.testing.assert_allclose(sample_perplexity(model, samples), min(perplexities), rtol=1e-6)
    for epoch, logs in enumerate(history):
        np.testing.assert_allclose(logs["learning_rate"], halved_rate(perplexities[:epoch], 40.0), rtol=1e-6)
    assert history[-1]["learning_rate"] < 40.0  # so large a rate makes some epoch worse


def test_perplexity_equals_a_numpy_computation_and_not_the_batches(rng, monkeypatch):
    model, samples = make(), text(rng)
    inputs = model_inputs(model, samples, np.arange(len(samples)))
    logits = model.predict(inputs, verbose=0).astype(np.float64)
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = np.exp(-log_probabilities[np.arange(len(samples)), samples.target_ids].mean())
    np.testing.assert_allclose(sample_perplexity(model, samples), expected, rtol=1e-6)
    monkeypatch.setattr("keras_tying.inference.joint_language_model.SAMPLES_PER_CALL", 7)
    np.testing.assert_allclose(sample_perplexity(model, samples), expected, rtol=1e-6)


def test_word_vectors_of_a_run_go_to_the_same_words(tmp_path, aligned_files):
    """Also if the words have other ids than in that run; a word that it has not keeps its own vector."""
    files = {split: [list(map(str, paths))] for split, paths in aligned_files.items()}
    recipe = JointLanguageModelRecipe(model=Model(name="nnlm", arguments={"embedding_size": 4}))
    settings = RunSettings(recipe_name="test", seed=3, command="", files=files, recipe=recipe)
    start = create_run(JointLanguageModelTask(settings), tmp_path / "start")
    task = open_task(JointLanguageModelTask, start)
    task.open_text()
    model = task.build_model()
    model.save(start.model)

    other = JointLanguageModelTask(settings.model_copy(update={"initial_vectors": {"run": str(start.folder)}}))
    words = [*reversed(task.vocabulary.words), "new"]
    other.vocabularies = {**task.vocabularies, "vocabulary.txt": Vocabulary(words)}
    other.open_text()
    vectors = other.build_model().word_vectors["target"]
    np.testing.assert_array_equal(vectors[:-1], model.word_vectors["target"][::-1])
    assert np.isfinite(vectors[-1]).all()

    other.initial, other.vocabularies["vocabulary.txt"] = None, Vocabulary(["new", "<unk>", "<eos>"])
    with pytest.raises(ValueError, match=r"start \(target\) has a vector for none of the 3 words"):
        other.build_model()


def test_text_too_short_for_a_batch_says_how_much_is_needed(tmp_path, rng):
    with pytest.raises(ValueError, match=r"at least 9999 target words for one batch"):
        train(tmp_path, text(rng), make(), batch_size=9999)


@pytest.mark.parametrize(
    ("arguments", "tokenization"),
    [
        ("--train F E --valid F E --test F E", "words"),
        ("--train F E L --valid F E L --test F E L", "spaces"),
        ("--train F E --valid F E --test F E --tokenization plain", "plain"),
    ],
)
def test_text_with_links_is_tokenized_already_and_other_text_is_split_into_words(arguments, tokenization):
    arguments = parse(COMMAND, arguments.split(), "nnjm")
    changes = JointLanguageModelTask.changes(load_recipe("nnjm"), arguments)
    assert changes["data.tokenization"] == tokenization


def test_source_vectors_are_refused_where_no_model_has_source_words(tmp_path):
    def task_of(name):
        vectors = {"source": str(tmp_path / "vectors.txt")}
        recipe = JointLanguageModelRecipe(model=Model(name=name))
        settings = RunSettings(recipe_name=name, seed=1, command="", recipe=recipe, initial_vectors=vectors)
        return JointLanguageModelTask(settings)

    with pytest.raises(ValueError, match="--source-vectors needs a model with source words"):
        JointLanguageModelTask.complete([task_of("nnlm")], [], tmp_path)
    JointLanguageModelTask.complete([task_of("nnlm"), task_of("nnjm")], [], tmp_path)
