import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for harness.py
import harness


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Options that name a training, a validation and a test text."""
    folder = tmp_path_factory.mktemp("texts")
    train = harness.text_file(folder / "train.txt", 200)
    others = (harness.text_file(folder / f"{split}.txt", 100, split=split) for split in ("valid", "test"))
    return harness.text_options(train, *others)
