"""What `train/word2vec.py` promises of the embeddings it trains."""

import harness
import pytest


def test_the_learning_rate_falls_linearly_over_the_run(tmp_path):
    text = harness.text_file(tmp_path / "text.txt", 2000)
    options = ["--train-file", text, "--tokenization", "spaces", "--epochs", 4, "--set", "model.units=8"]
    options += ["data.minimum_count=2", "optimisation.learning_rate=0.0401"]
    rates = harness.train_word2vec(tmp_path / "run", *options).logged("learning_rate")
    assert rates == pytest.approx([0.0301, 0.0201, 0.0101, 0.0001], rel=1e-5)
