import numpy as np
import pytest

from keras_tying.data import Vocabulary, load_word_vectors, save_word_vectors, vectors_for, without_special_words

WORDS = ["cup", "Zürich", "moon"]


@pytest.fixture
def matrix(rng):
    return rng.normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_saved_vectors_are_loaded_unchanged(tmp_path, matrix, name):
    save_word_vectors(tmp_path / name, WORDS, matrix)
    words, again = load_word_vectors(tmp_path / name)
    assert words == WORDS
    np.testing.assert_array_equal(again, matrix)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_gensim_reads_the_files(tmp_path, matrix, name):
    models = pytest.importorskip("gensim.models")
    save_word_vectors(tmp_path / name, WORDS, matrix)
    vectors = models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=name.endswith(".bin"))
    assert vectors.index_to_key == WORDS
    np.testing.assert_array_equal(vectors.vectors, matrix)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"cup 1.0 2.0\n", "in the first line"),
        ("a.txt", b"2 2\ncup 1.0 2.0\n", "Received: 1 words"),
        ("a.txt", b"1 2\ncup 1.0\n", "1 dimensions in line 2"),
        ("a.txt", b"1 1\ncup x\n", "could not convert"),
        ("a.txt", b"1 0\ncup\n", "in the first line"),
        ("a.txt", b"1 -1\ncup\n", "in the first line"),
        ("a.bin", b"-1 2\n", "in the first line"),
        ("a.txt", b"2 2\ncup 1.0 2.0\nmoon 1.0 nan\n", "expected finite numbers .*: nan in line 3, of 'moon'"),
        ("a.txt", b"1 2\ncup -inf 2.0\n", "expected finite numbers .*: -inf in line 2, of 'cup'"),
        ("a.txt", b"1 1\ncup 1e300\n", "expected finite numbers .*: inf in line 2, of 'cup'"),
        ("a.txt", b"2 1\ncup 1.0\ncup 2.0\n", "expected one vector per word. Received: several of 'cup'"),
        ("a.bin", b"1 1\ncup \x00\x00\x80\x7f\n", "expected finite numbers .*: inf in word 1, of 'cup'"),
        ("a.bin", b"1 2\ncup \x00\x00\x80\x3f", "an end within word 1"),
        ("a.bin", b"2 1\ncup \x00\x00\x80\x3f\n", "2 words of 1 dimensions"),
        ("a.bin", b"1 1\ncup \x00\x00\x80\x3f\nmoon \x00\x00\x80\x3f\n", "11 bytes after the last word"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}.*{message}"):
        load_word_vectors(tmp_path / name)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_words_with_other_white_space_and_a_byte_order_mark_are_read(tmp_path, matrix, name):
    words = ["a\u00a0b", "c\u2028d", "\x85"]
    save_word_vectors(tmp_path / name, words, matrix)
    (tmp_path / name).write_bytes("\ufeff".encode() + (tmp_path / name).read_bytes())
    again, rows = load_word_vectors(tmp_path / name)
    assert again == words
    np.testing.assert_array_equal(rows, matrix)


def test_lines_that_end_with_a_space_are_read(tmp_path):
    """The program that is called word2vec writes them so."""
    for end in (b" \n", b" \r\n"):
        (tmp_path / "a.txt").write_bytes(b"2 2" + end + b"cup 1.0 2.0" + end + b"moon 3.0 4.0" + end)
        words, matrix = load_word_vectors(tmp_path / "a.txt")
        assert (words, matrix.tolist()) == (["cup", "moon"], [[1, 2], [3, 4]])


def test_a_word_with_a_space_is_refused(tmp_path, matrix):
    with pytest.raises(ValueError, match=r"Received: 'a cup'"):
        save_word_vectors(tmp_path / "a.txt", ["a cup", "b", "c"], matrix)


def test_special_words_are_removed(vocabulary, rng):
    matrix = rng.normal(size=(300, 2)).astype(np.float32)
    words, rows = without_special_words(vocabulary, matrix)
    assert len(words) == len(rows) == 298
    assert not {"<unk>", "<eos>"} & set(words)
    np.testing.assert_array_equal(rows[words.index("the")], matrix[vocabulary.encode(["the"])[0]])


def test_words_missing_in_the_file_have_nan_vectors(tmp_path, matrix):
    save_word_vectors(tmp_path / "a.txt", WORDS, matrix)
    vectors = vectors_for(Vocabulary(["moon", "tulip", "<unk>", "<eos>"]), tmp_path / "a.txt")
    np.testing.assert_array_equal(vectors[0], matrix[2])
    assert np.isnan(vectors[1:]).all()
    with pytest.raises(ValueError, match=r"a.txt has a vector for none of the 3 words"):
        vectors_for(Vocabulary(["MOON", "<unk>", "<eos>"]), tmp_path / "a.txt")
