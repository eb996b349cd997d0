import errno
import itertools
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from keras_tying import zoo
from keras_tying.optimizers import ClippedSGD, averaged_weights
from keras_tying.training import RunSettings
from keras_tying.training.tensorboard import EventFile, TensorBoardLog, hyper_parameters, write_hyper_parameters
from keras_tying.zoo.recipes import LanguageModelRecipe, Loss, Model

WORDS = {"<eos>": 5, "a": 3, "two\twords": 1}
METRICS = {"perplexity": 90.0, "val_perplexity": 100.0, "learning_rate": 1.0}
RESULTS = {"test_perplexity": 95.0, "seed": 1, "epochs": 2, "wall_time_seconds": 7.5, "command": "python"}
TASK = SimpleNamespace(
    sample=lambda model: ("generated text", "a a a"),
    plot=lambda model: None,
    word_frequencies=lambda model: dict.fromkeys(model.embedding_matrices(), WORDS),
)


@pytest.fixture(scope="module")
def model():
    model = zoo.recurrent_language_model(vocabulary_size=3, units=2, tied=False)
    model.compile("sgd")
    return model


@pytest.fixture
def log(tmp_path, model, monkeypatch):
    """Logs epochs, counted from 0, as a new process."""
    processes = itertools.count(1)

    def log(epochs, **metrics):
        process = next(processes)
        monkeypatch.setattr(os, "getpid", lambda: process)
        callback = TensorBoardLog(tmp_path, TASK)
        callback.set_model(model)
        for epoch in epochs:
            callback.on_epoch_end(epoch, {**METRICS, **metrics})

    return log


def events(folder):
    """What TensorBoard shows of a folder."""
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def points(folder, tag):
    """Step and value of each point of a chart."""
    return [(event.step, event.tensor_proto.float_val[0]) for event in events(folder).Tensors(tag)]


def settings(**recipe):
    return RunSettings(recipe_name="test", seed=1, command="", recipe=LanguageModelRecipe(**recipe))


def test_perplexities_of_training_and_validation_are_in_one_chart(log, tmp_path):
    log([0, 1])
    assert points(tmp_path / "train", "perplexity") == [(1, 90), (2, 90)]
    assert points(tmp_path / "validation", "perplexity") == [(1, 100), (2, 100)]
    assert points(tmp_path / "train", "training/learning rate") == [(1, 1), (2, 1)]


def test_samples_are_in_the_log_folder(log, tmp_path):
    log([0])
    assert events(tmp_path).Tensors("generated text")[0].tensor_proto.string_val == [b"a a a"]


def test_a_resumed_run_continues_its_charts(log, tmp_path):
    log([0, 1], val_perplexity=100)
    log([2], val_perplexity=80)
    assert points(tmp_path / "validation", "perplexity") == [(1, 100), (2, 100), (3, 80)]


def test_charts_go_on_where_the_clock_is_behind_that_of_the_machine_before(log, tmp_path, monkeypatch):
    now = time.time()
    for epoch, hours in enumerate((0, -24, -48)):
        monkeypatch.setattr(time, "time", lambda hours=hours: now + 3600 * hours)
        log([epoch], val_perplexity=100 - epoch)
    assert points(tmp_path / "validation", "perplexity") == [(1, 100), (2, 99), (3, 98)]


def test_a_run_folder_that_is_away_is_waited_for_and_not_made_anew(tmp_path, model):
    run, away = tmp_path / "run", tmp_path / "away"
    run.mkdir()
    callback = TensorBoardLog(run / "tensorboard", TASK)
    callback.set_model(model)
    callback.on_epoch_end(0, METRICS)
    run.rename(away)
    back = threading.Timer(1.5, away.rename, [run])
    back.start()
    callback.on_epoch_end(1, METRICS)
    back.join()
    assert points(run / "tensorboard" / "validation", "perplexity") == [(1, 100), (2, 100)]


def test_a_write_that_ended_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    events_of_epochs = EventFile(tmp_path, 1)

    class Failing:
        """A file whose first write fails in the middle, as when a shared file system goes away."""

        def __init__(self, file):
            self.file = file
            monkeypatch.setattr(type(tmp_path), "open", real_open)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def tell(self):
            return self.file.tell()

        def write(self, content):
            self.file.write(content[:10])
            raise OSError(errno.EIO, "Input/output error")

    real_open = type(tmp_path).open
    monkeypatch.setattr(type(tmp_path), "open", lambda *arguments: Failing(real_open(*arguments)))
    events_of_epochs.append(1, scalar_pb("perplexity", 100.0))
    events_of_epochs.append(2, scalar_pb("perplexity", 90.0))
    assert points(tmp_path, "perplexity") == [(1, 100), (2, 90)]


def test_an_epoch_that_is_trained_again_is_replaced(log, tmp_path):
    log([0, 1, 2], val_perplexity=100)
    log([1], val_perplexity=80)
    assert points(tmp_path / "validation", "perplexity") == [(1, 100), (2, 80)]
    assert [event.step for event in events(tmp_path).Tensors("generated text")] == [1, 2]


def test_the_projector_has_both_embeddings_of_an_untied_model_with_words_and_frequencies(log, tmp_path, model):
    log([0])
    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert [entry.tensor_name for entry in config.embeddings] == ["input embedding", "output embedding"]
    for entry, matrix in zip(config.embeddings, model.embedding_matrices().values(), strict=True):
        vectors = np.fromfile(tmp_path / entry.tensor_path, "<f4").reshape(entry.tensor_shape)
        np.testing.assert_array_equal(vectors, np.asarray(matrix))
        words = (tmp_path / entry.metadata_path).read_text()
        assert words == "word\tfrequency\n<eos>\t5\na\t3\ntwo\\twords\t1\n"


def test_sample_and_embeddings_are_those_of_the_averaged_weights(tmp_path):
    model = zoo.recurrent_language_model(vocabulary_size=3, units=2)
    model.compile(ClippedSGD(1.0, average_momentum=0.5))
    words = np.array([[0, 1, 2]])
    model.fit(words, words, epochs=3, verbose=0)
    trained = np.array(model.embedding.embeddings)
    with averaged_weights(model):
        averaged = np.array(model.embedding.embeddings)
    assert not np.array_equal(averaged, trained)
    seen = []
    task = SimpleNamespace(**{**vars(TASK), "sample": lambda model: seen.append(np.array(model.embedding.embeddings))})
    callback = TensorBoardLog(tmp_path, task)
    callback.set_model(model)
    callback.on_epoch_end(0, METRICS)
    written = np.fromfile(tmp_path / "tied_embedding.bytes", "<f4").reshape(trained.shape)
    for shown in (*seen, written):
        np.testing.assert_array_equal(shown, averaged)
    np.testing.assert_array_equal(model.embedding.embeddings, trained)


def test_hyper_parameters_have_the_names_that_set_takes(model):
    arguments = {"units": 2, "dropout": {"words": 0.1}}
    recipe = {
        "model": Model(name="recurrent_language_model", arguments=arguments),
        "loss": Loss(name="cross_entropy", arguments={"label_smoothing": 0.1}),
    }
    found = hyper_parameters(settings(**recipe), model)
    assert found["model.units"] == 2
    assert found["model.dropout"] == "{'words': 0.1}"
    assert (found["loss.name"], found["loss.label_smoothing"]) == ("cross_entropy", 0.1)
    assert (found["optimisation.learning_rate"], found["data.corpus"]) == (1.0, "embedded")
    assert (found["seed"], found["precision"], found["parameters"]) == (1, "float32", model.count_params())
    assert found["model.tied"] is False


def test_results_stand_beside_the_hyper_parameters(tmp_path, model):
    write_hyper_parameters(tmp_path, settings(model=Model(name="ptb_small")), model, RESULTS)
    found = events(tmp_path)
    start = parse_session_start_info_plugin_data(found.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content)
    assert start.hparams["model.name"].string_value == "ptb_small"
    assert not start.group_name  # TensorBoard then names the run by its folder
    assert points(tmp_path, "final/test_perplexity") == [(2, 95)]
    assert {"final/wall_time_seconds", "final/test_perplexity"} == {
        tag for tag in found.Tags()["tensors"] if tag.startswith("final/")
    }


def test_results_replace_those_of_an_earlier_end_and_no_chart(log, tmp_path, model):
    log([0, 1])
    recipe = settings(model=Model(name="ptb_small"))
    write_hyper_parameters(tmp_path, recipe, model, RESULTS)
    log([2])
    write_hyper_parameters(tmp_path, recipe, model, {**RESULTS, "epochs": 3, "test_perplexity": 90.0})
    assert points(tmp_path, "final/test_perplexity") == [(3, 90)]
    assert [event.step for event in events(tmp_path).Tensors("generated text")] == [1, 2, 3]


def test_logs_are_written_without_tensorflow(tmp_path, run_python):
    code = (
        "import sys; from pathlib import Path; from keras_tying.training.tensorboard import *; "
        f"EventFile(Path({str(tmp_path)!r}), 1).append(1, scalar_pb('perplexity', 9.0)); "
        "hparams_pb({'seed': 1}); text_pb('a', 'b'); print('tensorflow' in sys.modules)"
    )
    assert run_python("-c", code, KERAS_BACKEND="jax").stdout == "False\n"
    assert points(tmp_path, "perplexity") == [(1, 9)]


def test_a_plot_that_fails_costs_no_epoch(tmp_path, model, monkeypatch, caplog):
    def fails(model):
        raise ValueError("no such glyph")

    monkeypatch.setattr(TASK, "plot", fails)
    callback = TensorBoardLog(tmp_path, TASK)
    callback.set_model(model)
    callback.on_epoch_end(0, METRICS)
    assert points(tmp_path / "train", "perplexity") == [(1, METRICS["perplexity"])]
    assert "There is no plot of this epoch: no such glyph" in caplog.text
