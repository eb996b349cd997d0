import math
import os
import shutil
import zipfile

import pytest

from keras_tying.commands.changed_runs import change_epochs, check_can_be_recorded
from keras_tying.training import Run, RunSettings, runs
from keras_tying.training.engine import export
from keras_tying.zoo.recipes import LanguageModelRecipe, Model, load_recipe

SETTINGS = RunSettings(
    recipe_name="test", seed=1, command="", recipe=LanguageModelRecipe(model=Model(name="ptb_small"))
)


class Killed(BaseException):
    """What a kill is to code that is tried in one process."""


def write(folder):
    (folder / "vocabulary.txt").write_text("<unk>\n<eos>\n")


@pytest.mark.parametrize("writes", range(4))
def test_runs_of_one_command_are_all_there_or_none(tmp_path, monkeypatch, writes):
    """Each of two runs writes its vocabulary, then its settings."""
    done = []

    def counted(path, content):
        if len(done) == writes:
            raise Killed
        done.append(path)
        path.write_bytes(content)

    monkeypatch.setattr(runs, "write_atomically", counted)
    new = {tmp_path / name: (SETTINGS, lambda folder: counted(folder / "vocabulary.txt", b"")) for name in "ab"}
    with pytest.raises(Killed):
        Run.create_together(new)
    assert list(tmp_path.iterdir()) == []


def test_runs_that_cannot_all_be_put_in_place_are_undone(tmp_path, monkeypatch):
    renamed, rename = [], type(tmp_path).rename

    def once(self, target):
        if len(renamed) == 1 and target == tmp_path / "b":
            raise OSError("no second")
        renamed.append(target)
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", once)
    with pytest.raises(OSError, match=r"no second"):
        Run.create_together({tmp_path / name: (SETTINGS, write) for name in "ab"})
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_leaves_beside_a_run_is_no_run_and_does_not_stand_in_its_way(tmp_path, monkeypatch):
    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:  # killed before any clearing up
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        patch.setattr(type(tmp_path), "rename", killed)
        with pytest.raises(Killed):
            Run.create(tmp_path / "run", SETTINGS, write)
    (left,) = tmp_path.iterdir()
    assert {"config.toml", "vocabulary.txt"} <= set(os.listdir(left / "run"))
    with pytest.raises(FileNotFoundError, match=r"is not a run"):
        Run.find(tmp_path)
    run = Run.create(tmp_path / "run", SETTINGS, write)
    assert [found.folder for found in Run.find(tmp_path)] == [run.folder]


def test_a_run_within_a_run_is_not_found_with_it(tmp_path):
    outer = Run.create(tmp_path / "outer", SETTINGS, write)
    inner = Run.create(tmp_path / "outer" / "inner", SETTINGS, write)
    assert [found.folder for found in Run.find(outer.folder)] == [outer.folder]
    assert [found.folder for found in Run.find(inner.folder)] == [inner.folder]


def test_settings_hold_the_sha256_of_each_file_and_the_names_of_all_runs(tmp_path):
    made = Run.create_together({tmp_path / name: (SETTINGS, write) for name in "ab"})
    for run in made:
        settings = run.settings()
        assert list(settings.fingerprints) == ["vocabulary.txt"]
        assert len(settings.fingerprints["vocabulary.txt"]) == 64
        assert settings.together == ["a", "b"]
    assert Run.create(tmp_path / "c", SETTINGS, write).settings().together == []


def test_a_run_in_a_folder_of_a_group_belongs_to_the_group(tmp_path):
    tmp_path.chmod(0o2775)
    run = Run.create(tmp_path / "run", SETTINGS, write)
    assert run.folder.stat().st_mode & 0o2000


def test_nothing_is_left_beside_a_new_run(tmp_path):
    Run.create(tmp_path / "run", SETTINGS, write)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_is_private_if_the_umask_says_so(tmp_path):
    before = os.umask(0o077)
    try:
        run = Run.create(tmp_path / "run", SETTINGS, write)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (run.folder, run.config)}
    assert modes == {"run": 0o700, "config.toml": 0o600}


def test_a_run_is_made_where_a_link_to_an_empty_folder_points(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    Run.create(tmp_path / "run", SETTINGS, write)
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["config.toml", "vocabulary.txt"]


def test_no_run_is_made_in_the_place_of_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (".", tmp_path):
        with pytest.raises(FileExistsError, match=r"is the current folder .* Choose a --run inside it"):
            Run.create(folder, SETTINGS, write)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_itself_is_named(tmp_path):
    (tmp_path / "run").symlink_to("run")
    with pytest.raises(FileExistsError, match=r"run is a link that leads to itself"):
        Run.create(tmp_path / "run", SETTINGS, write)


def test_a_run_that_another_made_in_the_meantime_is_kept(tmp_path):
    def write_and_be_late(folder):
        write(folder)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.toml").write_text("mine")

    with pytest.raises(FileExistsError, match=r"already holds a run"):
        Run.create(tmp_path / "run", SETTINGS, write_and_be_late)
    assert os.listdir(tmp_path) == ["run"]
    assert (tmp_path / "run" / "config.toml").read_text() == "mine"


def test_a_run_that_cannot_be_made_is_refused_before_work_is_done(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match=f"{tmp_path / 'file'} is a file"):
        Run(tmp_path / "file" / "some" / "run").check_free()
    with pytest.raises(ValueError, match="must not begin with a hyphen"):
        Run("-run").check_free()
    Run(tmp_path / "some" / "run").check_free()
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(type(tmp_path), "is_mount", lambda path: path.name == "disk")
    with pytest.raises(FileExistsError, match="Choose a --run inside it"):
        Run(tmp_path / "disk").check_free()
    with pytest.raises(PermissionError, match=f"{tmp_path} cannot be written to"):
        Run(tmp_path / "some" / "run").check_free()


@pytest.mark.parametrize("start", [{"subwords": "a.model"}, {"initial_vectors": {"run": "r"}}, {"start": ["r"]}])
def test_a_run_that_starts_otherwise_is_not_recorded(start):
    settings = RunSettings(recipe_name="ptb_small_tied", seed=1, command="", recipe=load_recipe("ptb_small_tied"))
    check_can_be_recorded(settings)
    with pytest.raises(ValueError, match=rf"start as their recipe says.* Received: {next(iter(start))}="):
        check_can_be_recorded(settings.model_copy(update=start))


@pytest.mark.parametrize("name", ["checkpoints", "best", "tensorboard", "saved_model"])
def test_a_folder_of_a_run_that_is_a_link_is_refused(tmp_path, name):
    run = Run.create(tmp_path / "run", SETTINGS, write)
    (run.folder / name).symlink_to(tmp_path)
    with pytest.raises(ValueError, match=rf"{name} must be a folder of the run. Received: a link to "), run.locked():
        raise AssertionError("locked")
    with pytest.raises(ValueError, match=rf"{name} must be a folder of the run"):
        export(None, run)


def test_results_are_json_if_a_number_is_not_finite(tmp_path):
    run = Run.create(tmp_path / "run", SETTINGS, write)
    run.write_results({"test_perplexity": math.inf, "history": [{"gradient_norm": math.nan}]})
    for word in ("Infinity", "NaN"):
        assert word not in run.results.read_text()
    assert run.read_results() == {"test_perplexity": None, "history": [{"gradient_norm": None}]}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": \xff}', pytest.param(b"[" * 100_000, id="deep")])
def test_damaged_results_are_named(tmp_path, content):
    run = Run.create(tmp_path / "run", SETTINGS, write)
    run.write_results({"epochs": 2})
    assert run.read_results() == {"epochs": 2}
    run.results.write_bytes(content)
    with pytest.raises(ValueError, match=r"results.json is damaged: .* Measure the run again with --resume"):
        run.read_results()


@pytest.mark.parametrize("content", ["{}", '{"epochs": "../elsewhere"}', "["])
def test_epochs_of_runs_do_not_change_if_the_results_of_one_are_damaged(tmp_path, content):
    intact, damaged = runs = Run.create_together({tmp_path / name: (SETTINGS, write) for name in "ab"})
    intact.write_results({"epochs": 13})
    damaged.results.write_text(content)
    before = [run.settings() for run in runs]
    with pytest.raises(ValueError, match=r"b/results.json is damaged: .* Measure the run again with --resume"):
        change_epochs(runs, 20, record=False)
    assert intact.read_results() == {"epochs": 13}
    assert [run.settings() for run in runs] == before


def test_a_model_whose_file_has_a_damaged_flag_is_named(tmp_path):
    run = Run.create(tmp_path / "run", SETTINGS, write)
    with zipfile.ZipFile(run.model, "w") as file:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            file.writestr(name, "{}")
    content = bytearray(run.model.read_bytes())
    for place in range(len(content)):
        if content[place : place + 4] == b"PK\x01\x02":
            content[place + 8] |= 32
    run.model.write_bytes(content)
    with pytest.raises(ValueError, match=r"model.keras cannot be loaded: compressed patched data"):
        run.load_model()


def test_a_run_is_begun_once_it_had_a_checkpoint_even_if_all_are_deleted(tmp_path):
    run = Run.create(tmp_path / "run", SETTINGS, write)
    with run.locked():
        assert not run.begun
        run.mark_begun()
        run.checkpoints.mkdir()
        shutil.rmtree(run.checkpoints)
        assert run.begun
