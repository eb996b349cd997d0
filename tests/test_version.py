"""The commit that results name."""

import subprocess

import pytest

from keras_tying import version


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with a copy of the package's file; returns a function that runs git in it."""

    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "keras_tying").mkdir()
    (tmp_path / "keras_tying" / "version.py").write_text("")
    git("init")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "keras_tying" / "version.py"))
    return git


def test_the_commit_is_that_of_the_code(checkout, tmp_path):
    checkout("add", "keras_tying")
    checkout("commit", "-m", "One")
    head = checkout("rev-parse", "HEAD")
    assert version.commit.__wrapped__() == head
    (tmp_path / "README.md").write_text("No code.")
    assert version.commit.__wrapped__() == head
    (tmp_path / "keras_tying" / "layer.py").write_text("")
    assert version.commit.__wrapped__() == f"{head} with changes"


def test_an_installation_inside_another_repository_has_no_commit(checkout):
    checkout("commit", "--allow-empty", "-m", "Not this package's")
    assert version.commit.__wrapped__() is None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert version.commit.__wrapped__() is None
