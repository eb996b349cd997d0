import tempfile
from functools import partial

import numpy as np
import pytest
from scipy.stats import chisquare

from keras_tying.data import SkipGramBatches, Vocabulary, ids_on_disk, skip_gram, text, word_counts
from keras_tying.data.skip_gram import keep_probabilities, noise_distribution


@pytest.fixture
def ids(train_ids):
    return train_ids[:20_000]


@pytest.fixture
def counts(ids, vocabulary):
    return word_counts(ids, vocabulary)


def test_a_full_folder_of_temporary_files_is_named(monkeypatch, vocabulary):
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(open, "/dev/full", "r+b", buffering=0))
    with pytest.raises(OSError, match=rf"do not fit into {tempfile.gettempdir()} .* Set TMPDIR"):
        ids_on_disk(["a", "rose"], vocabulary)


def batches(ids, counts, vocabulary, **changes):
    return SkipGramBatches(ids, counts, vocabulary.end_id, **{"span": 8, "spans": 4, **changes})


def every_pair(stream):
    """Counts of (centre, context) in an epoch."""
    pairs = np.zeros((300, 300), int)
    for batch in stream.epoch(0):
        r, s, c = np.nonzero(batch["pairs"])
        np.add.at(pairs, (batch["centres"][r, s], batch["contexts"][r, c]), 1)
    return pairs


def test_pairs_with_window_one_are_the_neighbours_in_a_line(ids, counts, vocabulary):
    ids = np.append(ids, vocabulary.end_id)
    stream = batches(ids, counts, vocabulary, window=1, subsample=0, span=8, spans=1)
    stream.batches = -(-int(counts.sum()) // 8)  # the text exactly once
    expected = np.zeros((300, 300), int)
    for line in np.split(ids, np.flatnonzero(ids == vocabulary.end_id)):
        words = line[(line != vocabulary.end_id) & (line != vocabulary.unknown_id)]
        np.add.at(expected, (words[1:], words[:-1]), 1)
        np.add.at(expected, (words[:-1], words[1:]), 1)
    np.testing.assert_array_equal(every_pair(stream), expected)


def test_the_reach_is_drawn_from_one_to_the_window(ids, counts, vocabulary):
    stream = batches(np.tile(vocabulary.encode(["is", "of"]), 4000), counts, vocabulary, window=4, subsample=0)
    reaches = [int(row.sum()) // 2 for b in stream.epoch(0) for row in b["pairs"][:, 4].reshape(-1, 16)]
    observed = np.bincount(reaches, minlength=5)[1:]
    assert chisquare(observed).pvalue > 0.001
    assert max(reaches) == 4


def test_negatives_follow_the_counts_to_the_power_of_three_quarters(ids, counts, vocabulary):
    stream = batches(ids, counts, vocabulary, seed=3)
    drawn = np.concatenate([b["negatives"].reshape(-1) for e in range(8) for b in stream.epoch(e)])
    expected = counts**0.75 / np.sum(counts**0.75)
    occurring = counts > 0
    assert not np.isin(drawn, np.flatnonzero(~occurring)).any()
    observed = np.bincount(drawn, minlength=len(counts))[occurring]
    assert chisquare(observed, expected[occurring] * len(drawn)).pvalue > 0.001
    assert chisquare(observed, counts[occurring] / counts.sum() * len(drawn)).pvalue < 1e-6


def test_frequent_words_are_kept_as_often_as_the_formula_says(ids, counts, vocabulary):
    stream = batches(ids, counts, vocabulary, subsample=1e-3)
    kept = np.zeros(len(counts))
    for epoch in range(10):
        for batch in stream.epoch(epoch):
            kept += np.bincount(batch["centres"].reshape(-1), minlength=len(counts))
    most = int(np.argmax(counts))
    ratio = 1e-3 * counts.sum() / counts[most]
    np.testing.assert_allclose(kept[most] / counts[most] / 10, np.sqrt(ratio) + ratio, rtol=0.1)


def test_a_threshold_of_zero_keeps_all_words():
    np.testing.assert_array_equal(keep_probabilities(np.array([9, 1, 0]), 0), [1, 1, 0])


def test_noise_excludes_words_that_do_not_occur():
    np.testing.assert_allclose(noise_distribution(np.array([16, 1, 0])), [8 / 9, 1 / 9, 0])


def test_the_same_seed_gives_the_same_batches_from_any_start(ids, counts, vocabulary):
    stream = batches(ids, counts, vocabulary, seed=5)
    epoch = list(stream.epoch(2))
    assert len(epoch) == stream.batches
    for expected, received in zip(epoch[7:], batches(ids, counts, vocabulary, seed=5).epoch(2, 7), strict=True):
        for name in expected:
            np.testing.assert_array_equal(received[name], expected[name])
    assert any((a["centres"] != b["centres"]).any() for a, b in zip(epoch, stream.epoch(3), strict=True))


def test_an_epoch_reads_the_text_once(ids, counts, vocabulary):
    stream = batches(ids, counts, vocabulary, subsample=0)
    words = np.concatenate([batch["centres"].reshape(-1) for batch in stream.epoch(0)])
    received = np.bincount(words, minlength=len(counts))
    assert abs(received - counts).sum() < 4 * 8 * 4


def test_a_text_shorter_than_a_batch_is_read_again(vocabulary):
    ids = vocabulary.encode(["is", "of"])
    stream = batches(ids, vocabulary.counts(ids), vocabulary, subsample=0)
    (batch,) = stream.epoch(0)
    assert batch["pairs"].sum() == 8  # both words beside each other, once in each of four spans


@pytest.mark.parametrize("line", ["rose rose rose rose", "rose"])
def test_a_text_of_one_word_is_refused(line):
    words = Vocabulary.from_tokens(text.tokens([line], "spaces"))
    ids = words.encode(text.tokens([line], "spaces"))
    with pytest.raises(ValueError, match=r"at least two different words. Received: 1"):
        SkipGramBatches(ids, word_counts(ids, words), words.end_id)


def test_a_threshold_that_leaves_no_words_is_refused(ids, counts, vocabulary):
    with pytest.raises(ValueError, match=r"`subsample` must leave words to train on. Received: subsample=1e-100"):
        batches(ids, counts, vocabulary, subsample=1e-100)


def test_a_window_beyond_the_largest_is_refused(ids, counts, vocabulary):
    next(batches(ids, counts, vocabulary, window=127).epoch(0))
    with pytest.raises(ValueError, match=r"`window` must be at most 127. Received: window=128"):
        batches(ids, counts, vocabulary, window=128)


def test_a_text_on_disk_equals_the_text_in_memory(corpus, vocabulary, monkeypatch):
    monkeypatch.setattr(skip_gram, "CHUNK", 1000)
    tokens = list(corpus.tokens("valid"))
    on_disk = ids_on_disk(iter(tokens), vocabulary)
    assert isinstance(on_disk, np.memmap)
    np.testing.assert_array_equal(on_disk, vocabulary.encode(tokens))


def test_a_long_line_is_split(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 10)
    (tmp_path / "long").write_text("short\nthe längst line of words\nlast", encoding="utf-8")
    assert list(text.read_lines(tmp_path / "long", cut=True)) == ["short", "the längst ", "line of words", "last"]


def test_letters_tokenization_keeps_only_words():
    line = "The <unk> cost $1.5m, didn't-it <unk>Zürich"
    assert text.tokenize(line, "letters") == ["the", "cost", "m", "didn", "t", "it", "zürich"]
