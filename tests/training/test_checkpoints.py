import errno
import json
import logging
import os
import threading
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_tying.optimizers import ClippedSGD
from keras_tying.training.checkpoints import Checkpoint, CheckpointStore, read_variables, write_variables
from keras_tying.training.saving import BestEpoch
from keras_tying.zoo import recurrent_language_model


def checkpoint(value):
    return Checkpoint({"a": np.full(3, value, "float32")}, {"epoch": value})


def test_newest_checkpoint_is_found(tmp_path):
    store = CheckpointStore(tmp_path)
    assert store.newest() is None
    for epoch in range(3):
        store.save(checkpoint(epoch))
    assert store.newest().progress == {"epoch": 2}
    np.testing.assert_array_equal(store.newest().values["a"], [2, 2, 2])


def test_the_best_epoch_is_one_of_the_history(tmp_path):
    """A run that was killed after its best epoch and before the checkpoint goes on without that epoch."""
    model = recurrent_language_model(3, 2)
    model.compile()
    best, history = BestEpoch(tmp_path, "val_perplexity"), [{"val_perplexity": each} for each in (90.0, 80.0)]
    for epoch in range(2):
        best.keep(model, {"epoch": np.full(1, epoch)}, history[: epoch + 1])
    assert best.saved(history).values["epoch"] == 1
    again = [history[0], {"val_perplexity": 95.0}, {"val_perplexity": 85.0}]
    for epochs in (1, 2):
        assert best.saved(again[:epochs]).values["epoch"] == 0
    for _ in range(5):  # killed again and again at this place
        best.keep(model, {"epoch": np.ones(1)}, history)
    assert best.saved(history[:1]).values["epoch"] == 0
    best.keep(model, {"epoch": np.full(1, 2)}, again)
    assert best.saved(again).values["epoch"] == 2
    with pytest.raises(FileNotFoundError, match="lacks the best epoch so far, 2, or it is damaged"):
        best.saved(history)


def test_old_checkpoints_are_forgotten(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for epoch in range(5):
        store.save(checkpoint(epoch))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-000003.safetensors",
        "checkpoint-000004.safetensors",
        "index.json",
    ]


@pytest.mark.parametrize("left", ["checkpoint-000000.safetensors", "checkpoint-000007.safetensors"])
def test_a_checkpoint_that_a_killed_process_left_unlisted_is_removed(tmp_path, left):
    store = CheckpointStore(tmp_path, keep=1)
    for epoch in range(2):
        store.save(checkpoint(epoch))
    for name in (left, "checkpoint-000000-mine.safetensors", "notes.txt"):
        (tmp_path / name).write_text("left")
    store.save(checkpoint(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-000000-mine.safetensors",
        "checkpoint-000002.safetensors",
        "index.json",
        "notes.txt",
    ]


def test_a_folder_that_goes_away_after_the_index_is_written_holds_each_checkpoint_once(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path, keep=2)
    for epoch in range(2):
        store.save(checkpoint(epoch))

    def away(*_, **options):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", away)
        store.save(checkpoint(2))
    assert [entry["progress"]["epoch"] for entry in json.loads(store.index.read_text())] == [1, 2]
    assert len(list(tmp_path.iterdir())) == 4
    store.save(checkpoint(3))
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut short", "changed", "gone"])
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, caplog, damage):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(0))
    path = store.save(checkpoint(1))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-4] if damage == "cut short" else content[:-1] + b"x")
    with caplog.at_level(logging.WARNING):
        assert store.newest().progress == {"epoch": 0}
    assert path.name in caplog.text


@pytest.mark.parametrize("file", ["../../victim.txt", "{victim}", "below/victim.txt", "index.json", "", 3, None])
def test_an_index_that_names_other_files_is_refused_and_they_stay(tmp_path, file):
    victim, store = tmp_path / "victim.txt", CheckpointStore(tmp_path / "run" / "checkpoints", keep=1)
    victim.write_text("mine")
    (store.folder / "below").mkdir()
    (store.folder / "below" / "victim.txt").write_text("mine")
    store.save(checkpoint(0))
    (entry,) = json.loads(store.index.read_text())
    entry["file"] = file.format(victim=victim) if isinstance(file, str) else file
    store.index.write_text(json.dumps([entry]))
    for use in (store.newest, lambda: store.save(checkpoint(1))):
        with pytest.raises(ValueError, match=r"index.json is not an index of checkpoints: [^\n]*$"):
            use()
    assert victim.read_text() == (store.folder / "below" / "victim.txt").read_text() == "mine"
    assert json.loads(store.index.read_text()) == [entry]


@pytest.mark.parametrize(
    "content", ["", "{", "{}", "[1]", "[{}]", '[{"number": -1}]', b"\xff\xfe", pytest.param("[" * 100_000, id="deep")]
)
def test_an_index_of_another_shape_is_named_in_one_line(tmp_path, content):
    store = CheckpointStore(tmp_path)
    store.index.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r"^\S*index.json is not an index of checkpoints: [^\n]*$"):
        store.newest()


def test_a_checkpoint_that_is_a_link_is_passed_over(tmp_path, caplog):
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    store.save(checkpoint(0))
    path = store.save(checkpoint(1))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.newest().progress == {"epoch": 0}
    assert path.name in caplog.text
    store.save(checkpoint(2))
    store.save(checkpoint(3))
    assert (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_the_checkpoints_before(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(0))

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(OSError, match=r"No space left"):
            store.save(checkpoint(1))
    assert store.newest().progress == {"epoch": 0}
    assert len(list(tmp_path.iterdir())) == 2
    assert len(json.loads((tmp_path / "index.json").read_text())) == 1


def test_a_folder_that_is_away_for_a_while_is_waited_for(tmp_path, caplog):
    folder, away = tmp_path / "shared" / "checkpoints", tmp_path / "away"
    store = CheckpointStore(folder)
    store.save(checkpoint(0))
    folder.parent.rename(away)
    back = threading.Timer(1.5, away.rename, [folder.parent])
    back.start()
    with caplog.at_level(logging.WARNING):
        store.save(checkpoint(1))
    back.join()
    assert "is away" in caplog.text
    assert [entry["progress"]["epoch"] for entry in json.loads(store.index.read_text())] == [0, 1]


def test_a_folder_that_is_away_is_waited_for_also_to_remove_checkpoints(tmp_path):
    folder, away = tmp_path / "shared" / "checkpoints", tmp_path / "away"
    store = CheckpointStore(folder)
    for epoch in range(2):
        store.save(checkpoint(epoch))
    folder.parent.rename(away)
    back = threading.Timer(0.5, away.rename, [folder.parent])
    back.start()
    store.keep_only(lambda progress: progress["epoch"] == 1)
    back.join()
    assert [entry["progress"]["epoch"] for entry in json.loads(store.index.read_text())] == [1]


def test_a_folder_that_stays_away_is_an_error_and_is_not_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_tying.files.AWAY_SECONDS", 0.1)
    folder = tmp_path / "shared" / "checkpoints"
    store = CheckpointStore(folder)
    store.save(checkpoint(0))
    folder.parent.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        store.save(checkpoint(1))
    assert not folder.parent.exists()


def test_checkpoints_that_vanish_while_a_run_is_trained_are_not_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_tying.files.AWAY_SECONDS", 0.1)
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(0))
    store.index.rename(tmp_path / "elsewhere")  # the folder came back, its files did not yet
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        store.save(checkpoint(1))
    (tmp_path / "elsewhere").rename(store.index)
    store.save(checkpoint(1))
    assert len(json.loads(store.index.read_text())) == 2


def test_variables_survive_a_checkpoint_with_seeds_and_carried_state(rng):
    def trained():
        keras.utils.set_random_seed(3)
        model = recurrent_language_model(11, 4, dropout=0.5)
        model.carry_state(2)
        model.compile(ClippedSGD(0.1))
        return model

    tokens = rng.integers(0, 11, (2, 6))
    model = trained()
    model.train_on_batch(tokens, tokens)
    kept = read_variables(model)
    expected = model.train_on_batch(tokens, tokens)
    other = trained()
    write_variables(other, kept)
    assert other.train_on_batch(tokens, tokens) == expected


def test_a_checkpoint_of_another_model_is_refused():
    models = [recurrent_language_model(size, 4, name="model") for size in (11, 12)]
    for model in models:
        model.compile(ClippedSGD())
    with pytest.raises(ValueError, match=r"of another model.*Use the recipe and the vocabulary"):
        write_variables(models[0], read_variables(models[1]))


def compiled(units=4):
    model = recurrent_language_model(11, units)
    model.compile(ClippedSGD(0.1))
    return model


def test_variables_have_the_same_names_however_many_models_were_made_before():
    assert read_variables(compiled()).keys() == read_variables(compiled()).keys()


def other_order(values):
    """As if another version made the two matrices of an LSTM, which are of one shape, in another order."""
    first, second = [name for name in values if name.startswith("model/") and name.endswith("kernel")][:2]
    assert values[first].shape == values[second].shape
    swapped = dict(zip((first, second), (first[:9] + second[9:], second[:9] + first[9:]), strict=True))
    return {swapped.get(name, name): value for name, value in values.items()}


def without_one(values):
    return dict(list(values.items())[1:])


def with_one_more(values):
    return {**values, "model/099/output_scale": np.ones(3, "float32")}


@pytest.mark.parametrize("change", [other_order, without_one, with_one_more])
def test_a_checkpoint_with_the_variables_of_another_version_is_refused_and_nothing_changes(change):
    model = compiled()
    before = read_variables(model)
    zeros = {name: np.zeros_like(value) for name, value in before.items()}
    with pytest.raises(ValueError, match=r"^The checkpoint is of another model: [^\n]*its version of keras-tying"):
        write_variables(model, change(zeros))
    for name, value in read_variables(model).items():
        np.testing.assert_array_equal(value, before[name])
