"""The Python code of the README runs; its commands, options and files exist."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from keras_tying import data
from keras_tying.commands import main
from studies.transcript import with_transcript

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = sorted(set(re.findall(r"^keras-tying (prepare \w+|\w+)", README, re.MULTILINE)))
FILES = sorted(set(re.findall(r"\]\(([^)#:]+)\)", README)))


def options(text):
    return set(re.findall(r"(?<![\w-])--\w[\w-]*", text))


def test_blocks_commands_and_files_are_found():
    assert len(BLOCKS) == 3
    assert {"lm", "nmt", "word2vec", "nnjm", "cluster", "prepare text", "publish"} == set(COMMANDS)
    assert {"docs/serving.md", "CHANGELOG.md"} <= set(FILES)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.findall(r"kt\.\w+\.\w+", block)[0])
def test_code_runs(block, monkeypatch):
    """On a part of the text, of which there is enough for any code."""
    whole = data.load_corpus("embedded")
    part = replace(whole, splits={split: lines[:200] for split, lines in whole.splits.items()})
    monkeypatch.setattr(data, "load_corpus", lambda name: {"embedded": part}[name])
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    if "vocabulary" in names:  # it learns: better than by guessing
        assert names["model"].history.history["perplexity"][-1] < len(names["vocabulary"]) / 4


def test_parameter_counts_are_those_of_the_models():
    names = {}
    exec(BLOCKS[0], names)
    untied = names["kt"].zoo.ptb_large(tied=False).count_params()
    assert f"{names['model'].count_params():,}; with tied=False {untied:,}" in BLOCKS[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_options_exist(command, capsys):
    lines = re.findall(rf"^keras-tying {command} (.*)", README, re.MULTILINE)
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    assert set().union(*map(options, lines)) <= options(capsys.readouterr().out)


def test_the_transcript_is_what_the_trained_models_give():
    assert with_transcript(README) == README


@pytest.mark.parametrize("path", FILES)
def test_files_exist(path):
    assert (REPOSITORY / path).exists()
