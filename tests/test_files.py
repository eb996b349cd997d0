"""Files and folders are replaced whole, links are not followed, and locks end with their process."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keras_tying.files import keep_others, locked, remove_unfinished, replacing, waiting_for, write_atomically

FILES = Path(__file__).parents[1] / "keras_tying" / "files.py"
HELD = """
import runpy, sys, time
with runpy.run_path(sys.argv[1])["locked"](__import__("pathlib").Path(sys.argv[2]), "held"):
    print("locked", flush=True)
    time.sleep(60)
"""


class Killed(BaseException):
    """What a kill is to code that is tried in one process."""


@pytest.fixture
def victim(tmp_path):
    """What a link of the folder `own` points to, and the link."""
    path, own = tmp_path / "victim", tmp_path / "own"
    path.write_text("mine")
    own.mkdir()
    (own / "link").symlink_to(path)
    return path, own / "link"


def write_replacing(path, content):
    with replacing(path) as new:
        new.write_bytes(content)


@pytest.mark.parametrize("write", [write_atomically, write_replacing])
def test_a_link_is_replaced_and_its_target_stays(victim, write):
    path, link = victim
    write(link, b"new")
    assert path.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"
    assert os.listdir(link.parent) == ["link"]


@pytest.mark.parametrize("old", ["folder", "link to a folder", "file", "nothing"])
def test_a_folder_takes_the_place_of_what_was_there(tmp_path, old):
    kept, path = tmp_path / "kept", tmp_path / "own" / "1"
    kept.mkdir()
    (kept / "mine").touch()
    path.parent.mkdir()
    if old == "folder":
        path.mkdir()
        (path / "old").touch()
    elif old == "link to a folder":
        path.symlink_to(kept)
    elif old == "file":
        path.touch()
    with replacing(path) as new:
        new.mkdir()
        (new / "new").touch()
    assert os.listdir(path) == ["new"]
    assert os.listdir(path.parent) == ["1"]
    assert os.listdir(kept) == ["mine"]


def test_what_is_killed_while_it_is_written_leaves_the_old(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()

    def killed():
        with replacing(path) as new:
            new.mkdir()
            raise Killed

    with pytest.raises(Killed):
        killed()
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(path) == ["old"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()

    def fails(*_):
        raise Killed

    def killed():
        with monkeypatch.context() as patch, replacing(path) as new:
            new.mkdir()
            patch.setattr(Path, "replace", fails)

    with pytest.raises(Killed):
        killed()
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(path) == ["old"]


def test_an_old_folder_that_cannot_be_put_back_is_not_lost(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    rename = Path.rename

    def away(place, target):
        if place == path:
            return rename(place, target)
        raise OSError(errno.EIO, "Input/output error")

    def failing():
        with monkeypatch.context() as patch, replacing(path) as new:
            new.mkdir()
            patch.setattr(Path, "replace", away)
            patch.setattr(Path, "rename", away)

    with pytest.raises(OSError, match="Input/output error"):
        failing()
    remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(path) == ["old"]


def test_all_files_are_on_the_disk_before_they_take_their_place(tmp_path, monkeypatch):
    path, written = tmp_path / "folder", {}

    def fsync(handle):
        written[os.fstat(handle).st_ino] = path.exists()

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(path) as new:
        (new / "below").mkdir(parents=True)
        for file in (new / "model", new / "below" / "weights"):
            file.write_text("1")
        (new / "link").symlink_to(tmp_path / "elsewhere")
    assert written == {file.stat().st_ino: False for file in (path / "model", path / "below" / "weights")}


def test_a_file_that_does_not_fit_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'file'}'"):
        write_atomically(tmp_path / "file", b"content")
    with (
        pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'model'}'"),
        replacing(tmp_path / "model"),
    ):
        full(None)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        waiting_for(tmp_path, lambda: full(None))
    with pytest.raises(OSError, match=r"^cannot be read$"), replacing(tmp_path / "model"):
        raise OSError("cannot be read")
    assert list(tmp_path.iterdir()) == []


def test_files_links_and_empty_folders_of_others_are_kept(tmp_path):
    old, new, outside = tmp_path / "old", tmp_path / "new", tmp_path / "outside"
    for folder in (old / "variables", old / "theirs" / "empty", new, outside):
        folder.mkdir(parents=True)
    (old / "theirs" / "variables").mkdir()
    own = [old / "variables" / "own", old / "model"]
    others = [old / "both", old / "theirs" / "file", old / "theirs" / "variables" / "own", old / "theirs" / "model"]
    for file in (*own, *others, new / "both", outside / "file"):
        file.write_text(file.parent.name)
    links = {"theirs/folder": "../../outside", "dangling": "nowhere", "file": "theirs/file"}
    for name, target in links.items():
        (old / name).symlink_to(target)
    keep_others(old, new, ["variables/*", "model"])
    assert {name: os.readlink(new / name) for name in links} == links
    assert sorted(os.listdir(new)) == ["both", "dangling", "file", "theirs"]
    assert sorted(os.listdir(new / "theirs")) == ["empty", "file", "folder", "model", "variables"]
    assert os.listdir(new / "theirs" / "variables") == ["own"]
    assert (new / "both").read_text() == "new"


def test_only_what_is_unfinished_is_removed(tmp_path):
    for name in (".hidden", "file.unfinished", ".model.keras.x1.unfinished"):
        (tmp_path / name).touch()
    (tmp_path / ".1.x2.unfinished").mkdir()
    (tmp_path / ".1.x2.unfinished" / "file").touch()
    remove_unfinished(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "file.unfinished"]


def test_only_leftovers_of_a_name_are_removed(tmp_path):
    for name in (".1.x1.unfinished", ".1.keras.x2.unfinished", ".2.x3.unfinished"):
        (tmp_path / name).mkdir()
    remove_unfinished(tmp_path, "1")
    assert sorted(os.listdir(tmp_path)) == [".1.keras.x2.unfinished", ".2.x3.unfinished"]


@pytest.mark.parametrize("new_is_there", [False, True])
@pytest.mark.parametrize("name", ["1", "old.1", "ver.1"])
def test_a_folder_that_a_kill_left_moved_away_is_put_back(tmp_path, monkeypatch, name, new_is_there):
    path = tmp_path / name
    path.mkdir()
    (path / "old").touch()

    def killed(*_):
        raise Killed

    def write():
        with replacing(path) as new:
            new.mkdir()
            (new / "new").touch()

    with monkeypatch.context() as patch:  # killed before any clearing up
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        patch.setattr(Path, "replace", killed)
        patch.setattr(Path, "rename", lambda old, new: os.rename(old, new) if old == path else killed())
        with pytest.raises(Killed):
            write()
    assert not path.exists()
    if new_is_there:
        path.mkdir()
    remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == [name]
    assert os.listdir(path) == ([] if new_is_there else ["old"])


def test_a_lock_is_refused_to_others_and_ends_with_its_killed_process(tmp_path):
    path = tmp_path / "lock"
    process = subprocess.Popen([sys.executable, "-c", HELD, FILES, path], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError, match=r"^another has it$"), locked(path, "another has it"):
            raise AssertionError("locked twice")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with locked(path, "another has it"):
        pass


def test_a_lock_without_a_refusal_is_waited_for(tmp_path):
    got = threading.Event()

    def wait():
        with locked(tmp_path / "lock"):
            got.set()

    thread = threading.Thread(target=wait)
    with locked(tmp_path / "lock"):
        thread.start()
        assert not got.wait(0.2)
    assert got.wait(60)
    thread.join()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    message = rf"lock must be a file. Received: a link to {tmp_path / 'elsewhere'}. Remove the link.$"
    with pytest.raises(ValueError, match=message), locked(tmp_path / "lock", ""):
        raise AssertionError("locked")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("path", [".", "..", "folder/.."])
def test_a_path_without_a_name_is_refused(path, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(ValueError, match=r"ends with the name of a file or folder. Received: '"),
        replacing(path) as new,
    ):
        new.mkdir()
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
