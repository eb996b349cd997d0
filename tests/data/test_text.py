import gzip
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_tying.data import TOKENIZATIONS, Corpus, Vocabulary, load_corpus, tokenize, windows
from keras_tying.data.text import WHITESPACE, read_lines, warn_of_tokenization
from keras_tying.export.text import TextInGraph


def test_words_are_ordered_by_count_then_alphabet():
    vocabulary = Vocabulary.from_tokens(["b", "a", "c", "a", "b", "a", "<eos>"])
    assert vocabulary.words == ["a", "b", "<eos>", "c", "<unk>"]


def test_size_keeps_the_most_frequent_words_and_both_special_words():
    vocabulary = Vocabulary.from_tokens(["a", "a", "a", "b", "b", "c", "<eos>"], size=4)
    assert vocabulary.words == ["a", "b", "<eos>", "<unk>"]
    assert vocabulary.decode(vocabulary.encode(["a", "c"])) == ["a", "<unk>"]


def test_the_unknown_word_stands_where_the_words_that_it_replaces_put_it():
    tokens = ["a"] * 4 + ["b"] * 2 + ["c", "d", "<unk>", "<eos>"]
    vocabulary = Vocabulary.from_tokens(tokens, minimum_count=2)
    assert vocabulary.words == ["a", "<unk>", "b", "<eos>"]
    assert vocabulary.counts(vocabulary.encode(tokens)).tolist() == [4, 3, 2, 1]


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


def test_words_and_ids_of_other_types_are_refused(vocabulary):
    with pytest.raises(ValueError, match=r"`tokens` must be words, .* Received: tokens='the value'"):
        vocabulary.encode("the value")
    with pytest.raises(ValueError, match=r"Word ids must be integers. Received: float64 1.7"):
        vocabulary.decode([1.7])


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


ODD = (
    *" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x00\x07\x7f\x85\xa0\xad\u1680",
    *"\u180e\u2003\u200b\u200c\u200d\u200e\u2028\u2029\u202f\u2060",
    *"\u3000\ufeff\ufffd\ud7ff\ue000\uffff\U0010ffff\U000e0001_'’-‐.,:;!?\"“”«»…—0159٣²½aAzZßẞİıIΣσςǅ\u0301\u0308\u20e3\ufe0f",
    *"漢字かなカ々〇。、한글हिन्दीไทยעבربي👩💻👍🏽🇫🇷❤€©∑→",
    *("<unk>", "<eos>", "3.14", "don't", "a-b", "--", "e.g."),
)
"""Characters that Python, TensorFlow and RE2 treat differently, and words."""


@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_python_and_the_exported_graph_split_any_text_alike(corpus, tokenization):
    rng = random.Random(tokenization)
    lines = ["".join(rng.choices(ODD, k=rng.randrange(20))) for _ in range(1000)]
    lines += ["".join(chr(code) for code in rng.sample(range(0xD800), 9)) + rng.choice(ODD) for _ in range(500)]
    codes = (*range(0x3100), *range(0xF900, 0x10100), *range(0x1F000, 0x20000))
    lines += ["".join(f"a{chr(code)}b{chr(code)}1" for code in codes[i : i + 20]) for i in range(0, len(codes), 20)]
    lines += corpus.splits["test"][:200]
    expected = [tokenize(line, tokenization) for line in lines]
    words = sorted({*(word for tokens in expected for word in tokens), "<unk>", "<eos>"})
    ids = tf.function(TextInGraph(Vocabulary(words), tokenization).encode)(tf.constant(lines))
    received = np.split(np.array(words, object)[ids.flat_values], ids.row_splits[1:-1])
    for line, tokens, in_graph in zip(lines, expected, received, strict=True):
        assert in_graph.tolist() == tokens, ascii(line)
    assert not any(re.search(WHITESPACE, word) for word in words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The man, the man. the man!", "The man , the man . the man !"),
        ("He didn't pay $3.50 (or 1,000) at 10:30.", "He didn't pay $ 3.50 ( or 1,000 ) at 10:30 ."),
        ("“State-of-the-art”, it’s 'said'…", "“ State-of-the-art ” , it’s ' said ' …"),
        ("<unk> of <eos> snake_case", "<unk> of <eos> snake_case"),
        ("a\u00a0b\u3000c\u2028d\x85e\u200bf\ufeffg\x00h", "a b c d e f g h"),
        ("東京は한국어。👍🏽", "東 京 は 한국어 。 👍🏽"),
        ("e\u0301te\u0301 हिन्दी", "e\u0301te\u0301 हिन्दी"),
    ],
)
def test_raw_text_is_split_into_words_and_punctuation(line, words):
    assert tokenize(line, "words") == words.split(" ")


@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_a_byte_order_mark_is_no_word(tmp_path, tokenization):
    (tmp_path / "marked.txt").write_text("a b\n", encoding="utf-8-sig")
    (line,) = read_lines(tmp_path / "marked.txt")
    assert line == "a b"
    assert tokenize("\ufeffa b", tokenization) == ["a", "b"]


def test_a_pipe_is_no_text(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"Expected a text file but .*pipe is a pipe or a device"):
        next(read_lines(tmp_path / "pipe"))


def test_a_word_with_a_byte_order_mark_is_left_out_of_a_vocabulary(tmp_path):
    vocabulary = Vocabulary.from_tokens(["\ufeffb", "\ufeffb", "\ufeffb", "b", "a"])
    assert vocabulary.words == ["<unk>", "a", "b", "<eos>"]
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").words == vocabulary.words


def test_lines_end_at_newlines_only(tmp_path):
    others = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    (tmp_path / "text.txt").write_bytes(f"{others}\r\n\n{others}".encode())
    assert list(read_lines(tmp_path / "text.txt")) == [others, "", others]


def test_words_with_other_white_space_survive_in_a_vocabulary(tmp_path):
    vocabulary = Vocabulary(["a\u00a0b", "\u3000", "c\u2028d", "\x85", "e f", "<unk>", "<eos>"])
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").words == vocabulary.words


@pytest.mark.parametrize("word", ["x" * 2**20, "\0"])
def test_a_word_that_its_file_cannot_hold_is_no_word(tmp_path, word):
    with pytest.raises(ValueError, match=r"cannot hold a word of 262,144 characters or with a NUL.* as word 1\. "):
        Vocabulary(["a", word, "<unk>", "<eos>"]).save(tmp_path / "vocabulary.txt")
    assert not (tmp_path / "vocabulary.txt").exists()
    vocabulary = Vocabulary.from_tokens(["a", word, word, "<eos>"])
    assert vocabulary.words == ["<unk>", "<eos>", "a"]
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").words == vocabulary.words


def test_a_byte_order_mark_is_refused_where_the_file_would_lose_it(tmp_path):
    with pytest.raises(ValueError, match="nor start with a byte order mark"):
        Vocabulary(["\ufeffa", "<unk>", "<eos>"]).save(tmp_path / "vocabulary.txt")
    vocabulary = Vocabulary(["<unk>", "\ufeffa", "<eos>"])
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").words == vocabulary.words


def test_an_altered_vocabulary_is_named(tmp_path):
    (tmp_path / "vocabulary.txt").write_text("a\n<unk>\na\n<eos>\n")
    with pytest.raises(ValueError, match=r"vocabulary.txt: .* twice: 'a'"):
        Vocabulary.load(tmp_path / "vocabulary.txt")


@pytest.mark.parametrize("tokens", [[], ["<eos>", "<eos>"], ["a", "<unk>", "<eos>"]])
def test_a_text_without_a_word_is_refused(tokens):
    with pytest.raises(ValueError, match=r"must have a word that occurs at least 2 times"):
        Vocabulary.from_tokens(tokens, minimum_count=2)
    with pytest.raises(ValueError, match=r"Received: a text without words"):
        Vocabulary.from_tokens(["<eos>"])


@pytest.mark.parametrize(
    ("lines", "tokenization", "word"),
    [
        (["The man, he said.", "It rains"], "spaces", "'man,'"),
        (["the <unk> of N", "it rains"], "words", "'<unk>'"),
        (["it rains , he said", "it rains"], "words", "','"),
    ],
)
def test_a_text_that_looks_made_for_another_tokenization_is_warned_of(caplog, lines, tokenization, word):
    warn_of_tokenization(lines, tokenization)
    (message,) = caplog.messages
    assert word in message
    assert "\n" not in message
    caplog.clear()
    for other in {*TOKENIZATIONS} - {tokenization}:
        warn_of_tokenization(lines, other)
    assert not caplog.messages


def test_long_lines_are_cut_between_words_or_characters_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_tying.data.text.LONGEST_LINE", 16)
    for text in ("some words of a line " * 5, "漢字" * 20, "x" * 99 + "\n" + "y" * 9):
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        pieces = list(read_lines(tmp_path / "text.txt", cut=True))
        assert "".join(pieces) == text.replace("\n", "")
        assert max(len(piece.encode()) for piece in pieces) <= 35
        assert all(piece.endswith(" ") for piece in pieces[:-1]) or " " not in text
        with pytest.raises(ValueError, match=r"text.txt, line 1: expected at most 16 bytes"):
            list(read_lines(tmp_path / "text.txt"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_of_the_longest_length_is_one_line(tmp_path, monkeypatch, end):
    monkeypatch.setattr("keras_tying.data.text.LONGEST_LINE", 16)
    path = tmp_path / "text.txt"
    for length in (14, 16):
        lines = ["a " * (length // 2), "b"]
        path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
        assert list(read_lines(path)) == list(read_lines(path, cut=True)) == lines
    path.write_bytes(f"{'a ' * 9}{end}b{end}".encode())  # it is cut where it ends
    assert list(read_lines(path, cut=True)) == ["a " * 9, "b"]
    with pytest.raises(ValueError, match=r"line 1: expected at most 16 bytes"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, FileNotFoundError, "There is no file"),
        (b"", ValueError, "is empty"),
        (b"a\0b\0", ValueError, r"text.txt has NUL bytes, as binary files and UTF-16 have"),
        (b"fine\nalso\nnot \xff fine\n", ValueError, r"line 3: expected UTF-8, received byte 0xff at position 5"),
    ],
)
def test_unreadable_files_are_named(tmp_path, content, error, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        list(read_lines(path))


def test_a_gzipped_file_of_nothing_is_refused(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(ValueError, match=r"text.gz is empty"):
        list(read_lines(tmp_path / "text.gz"))


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
        ValueError,
        match=r"no corpus 'pbt'. Known: \['bbc', 'embedded', 'imdb', 'ptb', 'text8', 'text8-split', 'wikitext-2', "
        r"'wikitext-2-first-half', 'wikitext-2-second-half'\]",
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


def test_a_corpus_is_read_from_files(tmp_path):
    (tmp_path / "train").write_text("a b\nc\n")
    own = Corpus("files", {"train": tmp_path / "train"})
    assert list(own.tokens("train")) == ["a", "b", "<eos>", "c", "<eos>"]
