import math
import os
import re
import signal

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_tying import zoo
from keras_tying.data import windows
from keras_tying.inference.language_model import stream_perplexity
from keras_tying.optimizers import ClippedSGD
from keras_tying.tasks import LanguageModelTask, SkipGramTask
from keras_tying.tasks.language_model import WindowBatches
from keras_tying.training import (
    Progress,
    Run,
    RunSettings,
    TrainingDiverged,
    TrainingInterrupted,
    engine,
    fit,
    saving,
)
from keras_tying.training.callbacks import StopOnNaN, Validation
from keras_tying.training.checkpoints import Checkpoint, CheckpointStore, read_variables, write_variables
from keras_tying.training.environments import trained_in, training_record
from keras_tying.training.optimisation import decayed_rate
from keras_tying.training.progress import read_progress
from keras_tying.training.saving import SaveCheckpoints
from keras_tying.zoo.recipes import LanguageModelRecipe, Model, WindowOptimisation, load_recipe

OPTIMISATION = {"batch_size": 10, "sequence_length": 10, "epochs": 2, "full_rate_epochs": 5}


def unigram_perplexity(train, test, size):
    counts = np.bincount(train, minlength=size) + 1
    return np.exp(-np.mean(np.log(counts / counts.sum())[test]))


SMALL = Model(name="ptb_small", arguments={"num_layers": 1})


def train(tmp_path, train_ids, vocabulary, model=SMALL, **changes):
    recipe = LanguageModelRecipe(
        model=model,
        optimisation=WindowOptimisation(**{**OPTIMISATION, **changes}),
    )
    task = LanguageModelTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))
    task.vocabularies = {"vocabulary.txt": vocabulary}
    task.ids = {"train": train_ids, "valid": train_ids[:2000]}
    model = engine.build_model(task)
    return model, fit(task, model, Run(tmp_path))


def test_a_tied_model_beats_the_unigram_model_on_real_text(tmp_path, corpus, vocabulary, train_ids):
    model, progress = train(tmp_path, train_ids[:30_000], vocabulary)
    test_ids = vocabulary.encode(corpus.tokens("test"))
    unigram = unigram_perplexity(train_ids[:30_000], test_ids[1:], len(vocabulary))
    assert stream_perplexity(model, test_ids) < 0.6 * unigram
    assert [set(logs) for logs in progress.history] == [
        {"loss", "perplexity", "val_perplexity", "learning_rate", "gradient_norm", "words_per_second"}
    ] * 2
    logged = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    assert {"perplexity", "training/gradient norm", "training/words per second"} <= set(logged.Tags()["tensors"])
    counts = (tmp_path / "tensorboard" / "tied_words.tsv").read_text().splitlines()[1:]
    assert sum(int(line.split("\t")[1]) for line in counts) == 30_000


@pytest.mark.parametrize(
    ("name", "value"), [("patience", 1), ("halve_when_worse", True), ("averaging", "non_monotonic")]
)
def test_what_the_validation_perplexity_decides_is_refused_where_none_is_measured(name, value):
    recipe = load_recipe("word2vec")
    recipe = recipe.model_copy(update={"optimisation": recipe.optimisation.model_copy(update={name: value})})
    task = SkipGramTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))
    message = rf"optimisation.{name} needs a validation perplexity, which train/word2vec.py does not measure"
    with pytest.raises(ValueError, match=message):
        engine.check_trainable(task, 1)


def test_the_same_seed_gives_the_same_weights(tmp_path, train_ids, vocabulary):
    weights = []
    for name in ("first", "second"):
        keras.utils.set_random_seed(5)
        model, _ = train(tmp_path / name, train_ids[:3000], vocabulary, epochs=1)
        weights.append(model.get_weights())
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first, second)


AVERAGED = {
    "exponential, best": {"optimizer": "rmsprop", "averaging": "exponential", "keep_best": True, "l2": 1e-4},
    "mean": {"averaging": "non_monotonic", "learning_rate": 1.0},
}


@pytest.mark.parametrize("settings", AVERAGED.values(), ids=AVERAGED)
def test_a_stopped_run_ends_with_the_bits_of_one_that_was_not(tmp_path, train_ids, vocabulary, monkeypatch, settings):
    arguments = {"embedding_size": 8, "units": 12, "weight_drop": 0.3, "activation_scale": 0.1, "temporal_scale": 0.1}
    model = Model(name="single_layer_lstm", arguments={**arguments, "state_reset_rate": 0.2})
    schedule = {"decay": 1.0, "learning_rate": 0.01, "final_learning_rate": 0.0, "schedule": "cosine"}
    settings = {"epochs": 4, "random_starts": True, **schedule, **settings}
    monkeypatch.setattr(engine, "averaging_starts", lambda perplexities, _: len(perplexities) == 2)

    def run(name):
        return train(tmp_path / name, train_ids[:5000], vocabulary, model, **settings)

    whole, progress = run("whole")
    saved = SaveCheckpoints.on_train_batch_end

    def stop_in_the_last_epoch(self, batch, logs=None):
        if self.progress.epoch == 3:
            self._stop_signal = signal.SIGTERM
        saved(self, batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(SaveCheckpoints, "on_train_batch_end", stop_in_the_last_epoch)
        with pytest.raises(TrainingInterrupted):
            run("stopped")
    resumed, again = run("stopped")
    assert [logs["val_perplexity"] for logs in again.history] == [logs["val_perplexity"] for logs in progress.history]
    for name, value in read_variables(whole).items():
        np.testing.assert_array_equal(read_variables(resumed)[name], value)
    assert int(resumed.optimizer.averaged_steps) > 0
    averages = [np.array(average) for average in resumed.optimizer.averages]
    assert all(np.array_equal(*pair) for pair in zip(averages, resumed.trainable_variables, strict=True))
    newest = CheckpointStore(tmp_path / "stopped" / "checkpoints").newest()
    trained = {
        name: value for name, value in read_variables(resumed).items() if re.match(r"model/.*(kernel|embeddings)", name)
    }
    assert len(trained) == 4
    assert any(not np.array_equal(newest.values[name], value) for name, value in trained.items())


def test_validation_uses_the_averaged_weights(tmp_path, train_ids, vocabulary):
    settings = {"averaging": "exponential", "epochs": 2, "learning_rate": 0.5}
    model, progress = train(tmp_path, train_ids[:3000], vocabulary, **settings)
    newest = CheckpointStore(tmp_path / "checkpoints").newest()
    assert stream_perplexity(model, train_ids[:2000], 10) == progress.history[-1]["val_perplexity"]
    write_variables(model, newest.values)  # the weights that training would go on from
    assert stream_perplexity(model, train_ids[:2000], 10) != progress.history[-1]["val_perplexity"]


def test_random_starts_shift_the_windows_of_every_row(train_ids):
    cut = windows(train_ids[:500], 4, 7)
    shifted = WindowBatches(cut, seed=3)
    assert len(shifted) == cut.batches - 1
    row = train_ids[:125]
    skips = []
    for epoch in range(12):
        shifted.begin(epoch)
        inputs, targets = shifted.block(0, 100)
        assert inputs.shape == (len(shifted), 4, 7)
        skips.append(shifted._skip())
        np.testing.assert_array_equal(inputs[:, 0].ravel(), row[skips[-1] : skips[-1] + inputs[:, 0].size])
        np.testing.assert_array_equal(targets[:, 0].ravel(), row[skips[-1] + 1 : skips[-1] + 1 + inputs[:, 0].size])
        shifted.begin(epoch, 5)
        np.testing.assert_array_equal(shifted.block(0, 1)[0], inputs[5:6])
    assert set(skips) <= set(range(7))
    assert len(set(skips)) > 3


def place(device, commit="5e1f"):
    return {"device": device, "backend": "tensorflow", "commit": commit, "versions": {"keras": "3.15.1"}}


@pytest.fixture
def recorded(tmp_path, train_ids, vocabulary, monkeypatch):
    """Trains a run up to a number of epochs in an environment; returns its record."""

    def recorded(epochs, environment):
        monkeypatch.setattr(engine, "environment", lambda: environment)
        _, progress = train(tmp_path, train_ids[:3000], vocabulary, epochs=epochs)
        recipe = LanguageModelRecipe(model=Model(name="ptb_small"))
        settings = RunSettings(recipe_name="test", seed=1, command="", recipe=recipe)
        return training_record(settings, progress, "words", 3000)

    return recorded


def test_a_record_names_where_the_model_was_trained_and_not_where_it_was_recorded(recorded):
    first = recorded(1, place("first"))
    assert (first["device"], first["commit"], first["versions"]) == ("first", "5e1f", {"keras": "3.15.1"})
    again = recorded(1, place("of the recording process", commit="other"))
    assert {**again, "history": None} == {**first, "history": None}


def test_a_record_names_every_device_and_commit_that_trained(recorded):
    recorded(1, place("first"))
    recorded(2, place("second", commit=None))
    record = recorded(3, place("first"))
    assert (record["device"], record["commit"]) == ("first, then second", "5e1f, then not recorded")


def test_a_record_names_the_replicas_that_trained_and_not_those_that_recorded(recorded):
    two = {"strategy": "MirroredStrategy", "workers": 1, "replicas": 2}
    assert "replicas" not in recorded(1, place("first"))
    assert "replicas" not in recorded(1, place("first") | two)
    record = recorded(2, place("first") | two)
    assert [record[name] for name in two] == ["one, then MirroredStrategy", "1", "1, then 2"]


def test_a_record_of_replicas_that_do_not_change_has_their_number(recorded):
    assert recorded(1, place("first") | {"strategy": "MirroredStrategy", "workers": 1, "replicas": 2})["replicas"] == 2


@pytest.mark.parametrize(
    "changes", [{"epoch": -1}, {"epoch": -1, "history": [{}]}, {"batch": -2}, {"history": []}, {"epoch": 2}]
)
def test_progress_that_contradicts_itself_is_named_in_one_line(changes):
    values = {**vars(Progress(epoch=1, batch=3, seconds=1.0, history=[{"perplexity": 9.0}])), **changes}
    with pytest.raises(ValueError, match=r"^index.json: expected a batch of at least 0 and [^\n]* Restore the file.$"):
        read_progress(values, "index.json")


@pytest.mark.parametrize("name", list(vars(Progress())))
def test_progress_that_lacks_an_attribute_is_refused(name):
    values = {**vars(Progress()), "other": 1}
    del values[name]
    with pytest.raises(ValueError, match=rf"^index.json: progress must have the keys [^\n]*'{name}'"):
        read_progress(values, "index.json")


def test_divergence_stops_training(tmp_path, train_ids, vocabulary):
    with pytest.raises(TrainingDiverged, match=r"The loss became (nan|inf)"):
        train(tmp_path, train_ids[:20_000], vocabulary, learning_rate=1e38, clip_norm=1e38)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_perplexity_that_is_not_finite_stops_training(value):
    model = zoo.ptb_small(vocabulary_size=11)
    model.compile(ClippedSGD())
    stop, validation = StopOnNaN(), Validation(lambda: {"val_perplexity": value}, ["val_perplexity"])
    for callback in (stop, validation):
        callback.set_model(model)
    with pytest.raises(TrainingDiverged, match=rf"^The training perplexity became {value} in epoch 3\. [^\n]*$"):
        stop.on_epoch_end(2, {"perplexity": value})
    with pytest.raises(TrainingDiverged, match=rf"^The validation perplexity became {value} in epoch 3\. [^\n]*$"):
        validation.on_epoch_end(2, {"perplexity": 9.0})


def test_weights_that_are_lost_in_the_last_update_of_an_epoch_stop_training(tmp_path, train_ids, vocabulary):
    few = train_ids[:120]  # one batch
    with pytest.raises(TrainingDiverged, match="A weight became NaN or infinite"):
        train(tmp_path, few, vocabulary, learning_rate=3e38, clip_norm=1e38)


@pytest.fixture
def terminal():
    """SIGHUP has its default action, as in a terminal; the tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_to_stop_in_the_last_batches_is_met_at_the_end_of_the_epoch(name, tmp_path):
    model = zoo.ptb_small(vocabulary_size=11)
    model.compile(ClippedSGD())
    progress = Progress()
    callback = SaveCheckpoints(Run(tmp_path), minutes=60, batches=30, progress=progress)
    callback.set_model(model)
    with callback.stop_on_signals():
        callback.on_train_begin()
        callback.on_epoch_begin(0)
        os.kill(os.getpid(), signal.Signals[name])
        callback.on_train_batch_end(39)  # the second call of twenty steps, ten of them past the data
        with pytest.raises(TrainingInterrupted, match=rf"Stopped by {name}; saved checkpoint-000000"):
            callback.on_epoch_end(0, {"perplexity": 1.0})
    again = Progress()
    assert SaveCheckpoints(Run(tmp_path), minutes=60, batches=30, progress=again).restore(model)
    assert (again.epoch, again.batch, again.history) == (1, 0, [{"perplexity": 1.0}])


@pytest.fixture
def checkpoint(tmp_path):
    """A model and a run with a checkpoint after the first epoch of 30 batches."""
    model = zoo.ptb_small(vocabulary_size=11)
    model.compile(ClippedSGD())
    progress = Progress(epoch=1, batches=30, history=[{"perplexity": 1.0}])
    CheckpointStore(tmp_path / "checkpoints").save(Checkpoint(read_variables(model), vars(progress)))
    return model, Run(tmp_path)


def test_a_run_whose_epochs_have_another_number_of_batches_is_not_continued(checkpoint):
    model, run = checkpoint
    with pytest.raises(ValueError, match=r"^An epoch of \S+ has 30 batches, which depend on its settings [^\n]*: 29\."):
        SaveCheckpoints(run, minutes=60, batches=29, progress=Progress()).restore(model)


def test_the_environments_of_a_run_are_in_the_order_of_its_parts():
    progress = Progress()
    for name in ("tensorflow", "tensorflow", "jax", "tensorflow"):
        progress.train_in({"device": "CPU", "backend": name, "commit": "5e1f", "versions": {}})
    assert [environment["backend"] for environment in progress.environments] == ["tensorflow", "jax", "tensorflow"]
    assert trained_in(progress.environments)["backend"] == "tensorflow"


def test_workers_that_read_another_checkpoint_than_the_chief_are_an_error(checkpoint, monkeypatch):
    model, run = checkpoint
    monkeypatch.setattr(saving, "of_chief", lambda model, place: [place[0] - 1, place[1]])
    with pytest.raises(ValueError, match=r"^1 workers read another checkpoint in \S+ than the chief"):
        SaveCheckpoints(run, minutes=60, batches=30, progress=Progress()).restore(model)


def test_training_stops_when_validation_stalls():
    progress = Progress(epoch=4, history=[{"val_perplexity": value} for value in (9.0, 7.0, 8.0, 7.5)])
    assert progress.finished(epochs=9, patience=2)
    assert not progress.finished(epochs=9, patience=3)
    assert not progress.finished(epochs=9, patience=None)
    assert not Progress().finished(epochs=9, patience=1)


def test_learning_rate_falls_after_the_full_rate_epochs():
    assert [decayed_rate(epoch, 2.0, 2, 0.1) for epoch in range(4)] == pytest.approx([2, 2, 0.2, 0.02])


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_stream_perplexity_does_not_depend_on_the_sequence_length(train_ids, vocabulary, length):
    ids = train_ids[:40]
    model = zoo.ptb_small(vocabulary_size=len(vocabulary))
    expected = np.exp(-np.mean(model.score(ids[None, :-1], ids[None, 1:])))
    np.testing.assert_allclose(stream_perplexity(model, ids, sequence_length=length), expected, rtol=1e-5)


def test_stream_perplexity_refuses_ids_outside_the_vocabulary(vocabulary):
    model = zoo.ptb_small(vocabulary_size=len(vocabulary))
    with pytest.raises(ValueError, match=r"in \[0, 300\)\. Received: 300"):
        stream_perplexity(model, np.array([1, 300]))


def test_an_error_of_the_text_while_training_is_that_of_the_text(tmp_path, train_ids, vocabulary, monkeypatch):
    real, calls = WindowBatches.block, []

    def damaged_later(*given):
        calls.append(given)
        if len(calls) > 3:
            raise ValueError("00002.array_record is damaged")
        return real(*given)

    monkeypatch.setattr(WindowBatches, "block", damaged_later)
    with pytest.raises(ValueError, match=r"^00002.array_record is damaged$"):
        train(tmp_path, train_ids, vocabulary)
