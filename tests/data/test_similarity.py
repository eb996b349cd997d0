from pathlib import Path

import pytest

from keras_tying.data.similarity import load_similarity_sets, read_similarity_set

SHARED = Path(__file__).parents[3] / "shared" / "data" / "word-similarity"


def test_the_published_sets_have_the_published_sizes():
    if not SHARED.is_dir():
        pytest.skip("the similarity sets are not on this machine")
    sizes = {one.name: len(one.pairs) for one in load_similarity_sets(SHARED)}
    assert sizes == {"SimLex-999": 999, "Verb-143": 144, "MEN": 3000, "Rare-Word": 2034, "MTurk-771": 771}


def test_a_set_is_read(tmp_path):
    (tmp_path / "own.txt").write_bytes(b"cup\tmug\t9.5\r\ncup\tmoon\t1\n")
    own = read_similarity_set(tmp_path / "own.txt")
    assert (own.name, own.pairs, own.scores) == ("own", [("cup", "mug"), ("cup", "moon")], [9.5, 1.0])


@pytest.mark.parametrize("line", ["cup mug", "cup mug high", "cup mug 9 9", "", "cup mug nan", "cup mug -inf"])
def test_a_malformed_line_is_named(tmp_path, line):
    (tmp_path / "own.txt").write_text(f"cup\tmoon\t1\n{line}\n")
    with pytest.raises(ValueError, match=r"line 2: expected two words and a number"):
        read_similarity_set(tmp_path / "own.txt")


def test_a_changed_set_is_refused(tmp_path):
    (tmp_path / "EN-SIMLEX-999.txt").write_text("cup\tmug\t9.5\n")
    with pytest.raises(ValueError, match=r"not the published file"):
        load_similarity_sets(tmp_path)


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"EN-SIMLEX-999.txt"):
        load_similarity_sets(tmp_path)
