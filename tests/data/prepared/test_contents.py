import gzip
import json
import subprocess
import sys
import time
from contextlib import suppress
from itertools import chain

import numpy as np
import psutil
import pytest

from keras_tying.commands import main
from keras_tying.data import (
    Corpus,
    PairBatches,
    PreparedCorpus,
    PreparedPairs,
    SentencePairs,
    Vocabulary,
    prepare_pairs,
    prepare_text,
    windows,
)
from keras_tying.data.prepared.writing import open_pool

SHARD = 20_000
"""Characters per shard, for several shards."""


def test_a_prepared_text_equals_the_text(text, uninterrupted, rng):
    vocabulary = text.vocabulary(300)
    assert uninterrupted.vocabulary().words == vocabulary.words
    for split in text.splits:
        expected, received = text.ids(split, vocabulary), uninterrupted.ids(split, vocabulary)
        assert len(received.shards) > 1
        assert len(received) == len(expected)
        np.testing.assert_array_equal(received[:], expected)
        for start, stop in rng.integers(-len(expected), len(expected), (20, 2)):
            np.testing.assert_array_equal(received[start:stop], expected[start:stop])
        np.testing.assert_array_equal(windows(received, 7, 5).inputs, windows(expected, 7, 5).inputs)


def test_slices_cross_records(tmp_path, corpus):
    training = Corpus("training", {"train": corpus.splits["train"]}, "plain")
    prepared = prepare_text(tmp_path, training)
    vocabulary = prepared.vocabulary()
    received = prepared.ids("train", vocabulary)
    assert received.shards.shards[0].records > 10
    np.testing.assert_array_equal(received[4000:9000], training.ids("train", vocabulary)[4000:9000])


def test_prepared_pairs_equal_the_pairs(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords, maximum_length=20, characters=SHARD).pairs("train", subwords)
    expected = SentencePairs.encode(pairs.pairs("train"), subwords, subwords, maximum_length=20)
    assert len(prepared.shards) > 16
    assert len(prepared) == len(expected)
    assert prepared.overlap() == expected.overlap()
    for name in ("skipped", "too_long", "source_tokens", "target_tokens"):
        assert getattr(prepared, name) == getattr(expected, name)
    assert PreparedPairs(tmp_path).languages == ["en", "de"]
    chosen = np.random.default_rng(0).permutation(len(prepared))[:50]
    for received, pair in zip(prepared.sentences(chosen), expected.sentences(chosen), strict=True):
        np.testing.assert_array_equal(np.concatenate(received), np.concatenate(pair))


def test_every_pair_of_many_shards_is_in_one_batch_of_an_epoch(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords, characters=SHARD).pairs("train", subwords)
    batches = PairBatches(prepared, 600, seed=1)
    orders = [[chosen.tolist() for chosen in batches.order(epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    for order in orders:
        assert sorted(chain.from_iterable(order)) == list(range(len(prepared)))
        assert len(order) == len(batches)
    assert batches.order(1)[len(batches) - 1].tolist() == orders[1][-1]  # without reading the batches before it
    shards = {int(np.searchsorted(prepared.starts, chosen[0], side="right")) for chosen in orders[0][:50]}
    assert 3 < len(shards) <= 16


def test_a_split_of_several_files_some_gzipped(corpus, tmp_path):
    lines = corpus.splits["valid"]
    (tmp_path / "a").write_text("\n".join(lines[:100]) + "\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(("\n".join(lines[100:]) + "\n").encode()))
    several = Corpus("files", {"train": [tmp_path / "a", tmp_path / "b.gz"]}, "plain")
    prepared = prepare_text(tmp_path / "prepared", several)
    vocabulary = prepared.vocabulary()
    expected = vocabulary.encode(Corpus("lines", {"train": lines}, "plain").tokens("train"))
    np.testing.assert_array_equal(prepared.ids("train", vocabulary)[:], expected)


def test_the_number_of_processes_does_not_change_the_files(text_files, tmp_path, run_python, files):
    for processes in ("1", "2"):
        run_python("train/prepare.py", "text", tmp_path / processes, *text_files, "--processes", processes)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert "every file is intact" in run_python("train/prepare.py", "check", tmp_path / "1").stdout


def test_processes_that_prepare_import_no_keras():
    with open_pool(2) as pool:
        code = "__import__('keras_tying.data.prepared.writing') and set(__import__('sys').modules)"
        modules = pool.submit(eval, code).result()
    assert {"keras", "keras_tying"} & modules == {"keras_tying"}


def test_processes_end_with_the_one_that_started_them(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from keras_tying.data.prepared.writing import open_pool\n"
        "if __name__ == '__main__':\n"
        "    pool = open_pool(2)\n"
        "    Path(sys.argv[1]).write_text(str(pool.submit(os.getpid).result()))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    numbers = tmp_path / "numbers"
    subprocess.run([sys.executable, "-c", program, numbers], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started, deadline = int(numbers.read_text()), time.monotonic() + 60
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(started).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_vocabulary_of_another_text_is_named(tmp_path, caplog):
    text = Corpus("some", {"train": ["Two Dogs", "two dogs"]}, "spaces")
    prepare_text(tmp_path / "other", text, Vocabulary(["two", "dogs", "<eos>", "<unk>"]))
    (message,) = caplog.messages
    assert message.startswith("33% of the start of the train text are words that the vocabulary lacks")
    caplog.clear()
    prepare_text(tmp_path / "small", text, size=3)
    assert not caplog.messages


def test_a_split_can_be_added_with_the_same_vocabulary(text, uninterrupted, corpus):
    more = prepare_text(uninterrupted.folder, Corpus("some", {"test": corpus.splits["test"]}, "plain"))
    expected = uninterrupted.vocabulary().encode(Corpus("some", corpus.splits, "plain").tokens("test"))
    np.testing.assert_array_equal(more.ids("test", uninterrupted.vocabulary())[:], expected)


def test_one_more_split_has_the_tokenization_of_the_folder(tmp_path):
    prepare_text(tmp_path / "text", Corpus("files", {"train": ["A B"]}, "plain"))
    (tmp_path / "test").write_text("B A\n")
    assert main(["prepare", "text", str(tmp_path / "text"), "--test-file", str(tmp_path / "test")]) == 0
    prepared = PreparedCorpus(tmp_path / "text")
    assert prepared.vocabulary().decode(prepared.ids("test", prepared.vocabulary())[:]) == ["b", "a", "<eos>"]


def test_the_index_is_json_lines(uninterrupted):
    lines = (uninterrupted.folder / "train" / "index.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == {"whole": True}
    assert sum(json.loads(line)["totals"]["tokens"] for line in lines[:-1]) == len(
        uninterrupted.ids("train", uninterrupted.vocabulary())
    )


def test_zero_processes_are_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"`processes` must be at least 1. Received: 0"):
        prepare_text(tmp_path, text, processes=0)
