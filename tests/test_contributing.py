"""The worked example of CONTRIBUTING.md: a new family of models in four files."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\*\*\d\. .+?(?=^\*\*\d\. |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def patched(text: str, diff: str) -> str:
    """`text` with the lines that a diff adds between lines of context."""
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[0] == " ")
    assert text.count(before) == 1, f"the context of this change occurs {text.count(before)} times:\n{diff}"
    return text.replace(before, "\n".join(line[1:] for line in lines))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the repository."""
    copy = tmp_path_factory.mktemp("repository")
    for folder in ("keras_tying", "train", "zoo", "tests"):
        shutil.copytree(REPOSITORY / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", copy)
    return copy


def changes():
    """Path and content of each code block of the example."""
    for step in STEP.findall(PAGE):
        path = re.search(r"`(\S+/\S+\.(?:py|toml))`", step).group(1)
        for kind, content in BLOCK.findall(step):
            yield path, kind, content


IN_ONE_PROCESS = """
import json, sys
import pytest
from keras_tying.commands import main
train, test = map(json.loads, sys.argv[1:])
sys.exit(main(train) or pytest.main(test))
"""


def run_in(repository, *commands):
    """Trains and tests in a process that finds the copy, and imports Keras once."""
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", IN_ONE_PROCESS, *map(json.dumps, commands)]
    process = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


def test_a_new_family_of_models_takes_four_files(repository, text_files, tmp_path):
    assert len({path for path, _, _ in changes()}) == 4
    for path, kind, content in changes():
        file = repository / path
        assert file.exists() == (kind == "diff")
        file.write_text(patched(file.read_text(), content) if kind == "diff" else content)

    run = tmp_path / "run"
    train = ["lm", "--recipe", "embedded_feed_forward", "--epochs", "2", *text_files, "--run", str(run)]
    tests = ["-q", "tests/zoo/test_builders.py", "tests/test_conformance.py"]
    run_in(repository, train, [*tests, "-k", "feed_forward or every_builder_is_pinned"])
    first, second = (epoch["val_perplexity"] for epoch in json.loads((run / "results.json").read_text())["history"])
    assert second < first
