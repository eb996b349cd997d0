import shlex
from pathlib import Path

import pytest

from keras_tying import files
from studies.results import labels, read_results, recorded_command, superseded, write_results


def test_results_survive_their_file(tmp_path):
    path = tmp_path / "results" / "one.json"
    assert read_results(path) is None
    write_results(path, {"distance": 0.5})
    assert read_results(path) == {"distance": 0.5}


def test_results_that_are_replaced_are_kept_in_order(tmp_path):
    path = tmp_path / "results" / "one.json"
    for value in range(12):
        write_results(path, {"value": value}, keep_earlier=True)
    write_results(path, {"value": 11}, keep_earlier=True)  # the same results replace nothing
    (tmp_path / "results" / "superseded" / "one_more_1.json").write_text("{}")
    assert [read_results(earlier) for earlier in superseded(path)] == [{"value": value} for value in range(11)]
    assert superseded(path.with_name("two.json")) == []


def test_a_replacement_that_was_interrupted_keeps_the_results_once(tmp_path, monkeypatch):
    path = tmp_path / "one.json"
    write_results(path, {"value": 0})
    writes = iter([files.write_atomically, full, files.write_atomically])
    monkeypatch.setattr(files, "write_atomically", lambda *arguments: next(writes)(*arguments))
    with pytest.raises(OSError, match="full"):
        write_results(path, {"value": 1}, keep_earlier=True)
    assert read_results(path) == {"value": 0}
    write_results(path, {"value": 1}, keep_earlier=True)
    assert [read_results(earlier) for earlier in superseded(path)] == [{"value": 0}]


def full(*arguments):
    raise OSError("The disk is full.")


def test_a_recorded_command_has_no_paths():
    given = {
        "runs": [Path("here/a"), Path("here/b")],
        "set": [Path("here/own.txt")],
        "taus": [1.0, 0.5],
        "output": Path("here/out"),
        "data_dir": Path("here"),
        "record": True,
    }
    command = recorded_command("train/some.py", given, "runs")
    assert command == "python train/some.py a b --set own.txt --taus 1 0.5 --data-dir DIR --record"


def test_a_recorded_command_can_be_given_to_a_shell():
    given = {"runs": [Path("here/my run")], "words": ["<unk>", "it's", "$HOME"]}
    command = recorded_command("train/some.py", given, "runs")
    assert shlex.split(command) == ["python", "train/some.py", "my run", "--words", "<unk>", "it's", "$HOME"]
    assert "'<unk>'" in command


def test_labels_are_the_shortest_ends_that_distinguish_paths():
    def of(*paths):
        return labels([Path(path) for path in paths])

    assert of("a/lr0.1", "a/lr0.5") == ["lr0.1", "lr0.5"]
    assert of("y1/w", "y2/w", "z") == ["y1/w", "y2/w", "z"]
    assert of("a/run.json", "a/run") == [str(Path("a/run.json").resolve()), str(Path("a/run").resolve())]
    with pytest.raises(ValueError, match=r"Received twice: a/../b, b"):
        of("b", "a/../b")
