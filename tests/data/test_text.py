from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_tying.data import Vocabulary, load_corpus, load_files, tokenize, windows
from keras_tying.data.text import PUNCTUATION, read_lines


def test_words_are_ordered_by_count_then_alphabet():
    vocabulary = Vocabulary.from_tokens(["b", "a", "c", "a", "b", "a", "<eos>"])
    assert vocabulary.words == ["a", "b", "<eos>", "c", "<unk>"]


def test_size_keeps_the_most_frequent_words_and_both_special_words():
    vocabulary = Vocabulary.from_tokens(["a", "a", "a", "b", "b", "c", "<eos>"], size=4)
    assert vocabulary.words == ["a", "b", "<eos>", "<unk>"]
    assert vocabulary.decode(vocabulary.encode(["a", "c"])) == ["a", "<unk>"]


def test_rare_words_can_be_left_out():
    assert "c" not in Vocabulary.from_tokens(["a", "a", "c", "<eos>"], minimum_count=2)


def test_a_saved_vocabulary_is_loaded_unchanged(tmp_path, vocabulary):
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").sha256 == vocabulary.sha256


def test_duplicate_words_are_refused():
    with pytest.raises(ValueError, match=r"twice: 'a'"):
        Vocabulary(["a", "<unk>", "<eos>", "a"])


def test_ids_outside_the_vocabulary_are_refused(vocabulary):
    with pytest.raises(ValueError, match=r"in \[0, 300\)\. Received: 300"):
        vocabulary.decode([300])
    with pytest.raises(ValueError, match=r"in \[0, 300\)\. Received: -1"):
        windows(np.array([1] * 99 + [-1]), 2, 2, vocabulary_size=300)


def test_windows_continue_each_row():
    cut = windows(np.arange(23), batch_size=2, sequence_length=3)
    assert cut.batches == 3
    rows = cut.inputs.reshape(3, 2, 3).swapaxes(0, 1).reshape(2, 9)
    np.testing.assert_array_equal(rows, [np.arange(9), np.arange(11, 20)])
    np.testing.assert_array_equal(cut.targets, cut.inputs + 1)
    assert cut.lost == 23 - 2 * 10
    np.testing.assert_array_equal(cut.block(2, 9)[0].reshape(-1, 3), cut.inputs[4:])
    np.testing.assert_array_equal(cut.block(1, 2, slice(1, 2))[1], cut.targets.reshape(-1, 2, 3)[1:3, 1:])


def test_a_text_too_short_for_one_batch_is_refused():
    with pytest.raises(ValueError, match=r"at least 420 tokens for 20 rows with windows of 20 words. Received: 419"):
        windows(np.zeros(419, int), 20, 20)


def test_tokenization_in_python_and_in_the_graph_agree(corpus):
    lines = [*corpus.splits["test"], "Ünïcode — 'quotes' 100%", "", "  spaces\tand tabs "]
    in_graph = tf.strings.split(
        tf.strings.regex_replace(tf.strings.lower(lines, encoding="utf-8"), PUNCTUATION, r" \1 ")
    )
    for line, tokens in zip(lines, in_graph, strict=True):
        assert [token.decode() for token in tokens.numpy()] == tokenize(line, "plain")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, FileNotFoundError, "There is no file"),
        (b"", ValueError, "is empty"),
        (b"fine\nalso\nnot \xff fine\n", ValueError, r"line 3: expected UTF-8, received byte 0xff at position 5"),
    ],
)
def test_unreadable_files_are_named(tmp_path, content, error, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        list(read_lines(path))


def test_a_folder_instead_of_a_file_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder"):
        list(read_lines(tmp_path))


def test_embedded_corpus_shares_no_paragraph_between_splits(corpus):
    train, valid, test = (set(corpus.splits[split]) for split in ("train", "valid", "test"))
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_the_error_for_an_unknown_corpus_lists_all_corpora():
    with pytest.raises(
        ValueError, match=r"no corpus 'pbt'. Known: \['bbc', 'embedded', 'imdb', 'ptb', 'text8', 'wikitext-2'\]"
    ):
        load_corpus("pbt")


def test_a_changed_ptb_file_is_refused(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"ptb.{split}.txt").write_text("not the treebank\n")
    with pytest.raises(ValueError, match=r"not the published file"):
        load_corpus("ptb", tmp_path)


def test_ptb_has_the_published_size():
    folder = Path(__file__).parents[3] / "shared" / "data" / "ptb"
    if not folder.is_dir():
        pytest.skip("the Penn Treebank is not on this machine")
    ptb = load_corpus("ptb", folder)
    vocabulary = Vocabulary.from_tokens(ptb.tokens("train"))
    sizes = [len(vocabulary.encode(ptb.tokens(split))) for split in ("train", "valid", "test")]
    assert (len(vocabulary), sizes) == (10_000, [929_589, 73_760, 82_430])


def test_a_corpus_is_loaded_from_files(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / split).write_text("a b\nc\n")
    own = load_files(*(tmp_path / split for split in ("train", "valid", "test")))
    assert list(own.tokens("train")) == ["a", "b", "<eos>", "c", "<eos>"]
