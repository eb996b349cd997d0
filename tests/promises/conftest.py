import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for harness.py
import harness


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Options that name a training text and another text to validate and test on."""
    folder = tmp_path_factory.mktemp("texts")
    train = harness.text_file(folder / "train.txt", 200)
    other = harness.text_file(folder / "other.txt", 100, split="test")
    return harness.text_options(train, other, other)
