import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_tying.data import Bitext, Vocabulary, affiliate, align

SOURCE = ["a b c", "d", "", "a b c d"]
TARGET = ["x y", "x y z", "x", ""]
LINKS = ["0-0 2-1", "0-1", "", ""]


@pytest.fixture
def write(tmp_path):
    def write(source=SOURCE, target=TARGET, links=LINKS, **arguments):
        paths = [tmp_path / name for name in ("text.src", "text.tgt", "text.align")]
        for path, lines in zip(paths, (source, target, links), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines))
        return Bitext(*paths, **arguments)

    return write


def encode(bitext):
    words = [Vocabulary.from_tokens(bitext.tokens(side)) for side in ("source", "target")]
    return words, bitext.encode(*words)


def affiliated(links, source_words, target_words):
    """Source positions of the target words of one pair and of its end."""
    starts = [np.array([0, words + 1]) for words in (source_words, target_words)]
    return affiliate(np.array(links, int).reshape(-1, 2), *starts).tolist()


def looped(links, source_words, target_words):
    """The rules of Devlin et al. in a loop over words."""
    links = {*map(tuple, links), (source_words, target_words)}
    middles = {}
    for j in {j for _, j in links}:
        linked = sorted(i for i, other in links if other == j)
        middles[j] = linked[(len(linked) - 1) // 2]
    nearest = [min(middles, key=lambda k: (abs(k - j), k < j)) for j in range(target_words + 1)]
    return [middles[j] for j in nearest]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([(2, 0), (0, 1), (1, 2)], [2, 0, 1, 4]),  # one link each
        ([(0, 0), (1, 0), (3, 0), (1, 1), (1, 2)], [1, 1, 1, 4]),  # three links: the middle one
        ([(3, 0), (0, 0), (1, 1), (1, 2)], [0, 1, 1, 4]),  # two links: the left one
        ([(0, 0), (3, 2)], [0, 3, 3, 4]),  # no link, two neighbours: the right one
        ([(0, 0)], [0, 0, 4, 4]),  # the ends are linked, and count as neighbours
        ([], [4, 4, 4, 4]),  # no links at all: the end
        ([(1, 1), (1, 1)], [1, 1, 4, 4]),  # a duplicate link
    ],
)
def test_affiliation_rules(links, expected):
    assert affiliated(links, 4, 3) == expected
    assert looped(links, 4, 3) == expected


def test_affiliation_of_a_text_equals_a_loop_over_words(rng):
    lengths = rng.integers(0, 9, (50, 2))
    links = [
        [(int(rng.integers(s)), int(rng.integers(t))) for _ in range(rng.integers(0, 6)) if s and t] for s, t in lengths
    ]
    source_starts, target_starts = (np.cumsum([0, *(lengths[:, side] + 1)]) for side in (0, 1))
    flat = [(i + source_starts[p], j + target_starts[p]) for p, pair in enumerate(links) for i, j in pair]
    expected = [i + source_starts[p] for p, pair in enumerate(links) for i in looped(pair, *lengths[p])]
    assert affiliate(np.array(flat), source_starts, target_starts).tolist() == expected


def test_windows_and_histories_are_padded_at_sentence_boundaries(write):
    (source, target), samples = encode(write())
    indices = np.arange(len(samples))
    assert " ".join(target.decode(samples.target_ids)) == "x y <eos> x y z <eos> x <eos> <eos>"
    histories = [" ".join(target.decode(row)) for row in samples.histories(indices, 2)]
    assert histories[:4] == ["<eos> <eos>", "<eos> x", "x y", "<eos> <eos>"]
    windows = [" ".join(source.decode(row)) for row in samples.windows(indices, 3)]
    assert windows[:3] == ["<eos> a b", "b c <eos>", "c <eos> <eos>"]  # links x-a, y-c and end-end
    assert windows[3:6] == ["<eos> d <eos>"] * 2 + ["d <eos> <eos>"]  # x has the source word of y, z that of the end
    assert windows[7:9] == ["<eos> <eos> <eos>"] * 2  # an empty source sentence
    assert samples.longest_source == 5


def test_sentences_are_padded_or_truncated(write):
    (source, _), samples = encode(write())
    rows = samples.sentences(np.array([0, 9]), 5)
    assert source.decode(rows[0, :4]) == ["a", "b", "c", "<eos>"]
    assert rows[0, 4] == -1
    assert source.decode(samples.sentences(np.array([9]), 2)[0]) == ["a", "b"]


def test_a_text_encoded_in_parts_equals_a_text_encoded_at_once(write, monkeypatch):
    _, at_once = encode(write())
    monkeypatch.setattr("keras_tying.data.bitext.PAIRS_AT_ONCE", 1)
    _, in_parts = encode(write())
    indices = np.arange(len(at_once))
    for name, expected in at_once.inputs(indices, 3, 5, 4).items():
        np.testing.assert_array_equal(in_parts.inputs(indices, 3, 5, 4)[name], expected)


def test_only_the_first_sentences_are_read(write):
    assert len(encode(write(sentences=2))[1]) == 7


def test_gzipped_files_are_read(write):
    plain = write()
    packed = []
    for path in (plain.source, plain.target, plain.alignment):
        packed.append(path.with_name(path.name + ".gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(encode(Bitext(*packed))[1].affiliations, encode(plain)[1].affiliations)


def test_a_truncated_gzip_file_is_refused(write, tmp_path):
    content = gzip.compress("\n".join(map(str, range(9999))).encode())
    (tmp_path / "cut.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"cut.gz is not an intact gzip file"):
        list(Bitext(tmp_path / "cut.gz", tmp_path / "cut.gz").tokens("source"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": SOURCE[:3]}, r"text.src ends before line 4, but .*text.tgt continues"),
        ({"target": [*TARGET, "x"], "source": [*SOURCE, "a"]}, r"text.align ends before line 5, but .*text.src"),
        ({"links": ["0-0", "1-0", "", ""]}, r"text.align, line 2: expected source positions below 1.* Received: 1-0"),
        ({"links": ["", "", "", "3-0"]}, r"text.align, line 4: expected target positions below 0.* Received: 3-0"),
        ({"links": ["", "0-1 0_1", "", ""]}, r"text.align, line 2: expected pairs such as 3-4. Received: '0_1'"),
        ({"links": ["", "", "0-1-2", ""]}, r"text.align, line 3: .* Received: '0-1-2'"),
        ({"links": ["٣-0", "", "", ""]}, r"text.align, line 1: .* Received: '٣-0'"),
        ({"links": ["-1-0", "", "", ""]}, r"text.align, line 1: .* Received: '-1-0'"),
    ],
)
def test_errors_in_files_give_file_and_line(write, changes, message):
    with pytest.raises(ValueError, match=message):
        encode(write(**changes))


def test_links_are_separated_by_white_space_of_any_kind(write):
    plain, odd = write(links=LINKS), write(links=["0-0\u00a02-1\u3000", "\ufeff0-1", "\u2028", ""])
    np.testing.assert_array_equal(encode(odd)[1].affiliations, encode(plain)[1].affiliations)


def test_lines_are_counted_across_parts(write, monkeypatch):
    monkeypatch.setattr("keras_tying.data.bitext.PAIRS_AT_ONCE", 1)
    with pytest.raises(ValueError, match=r"line 4: expected target positions"):
        encode(write(links=["", "", "", "3-0"]))


def test_the_error_for_a_missing_alignment_says_how_to_get_one(write):
    bitext = write()
    with pytest.raises(ValueError, match=r"has no alignment.*keras_tying.data.align"):
        encode(Bitext(bitext.source, bitext.target))


def test_the_aligner_links_words_that_occur_together(tmp_path, rng):
    pytest.importorskip("eflomal")
    words = [[f"s{i}" for i in rng.choice(9, 4, replace=False)] for _ in range(400)]
    texts = []
    for name, pairs in (("train", words), ("test", words[:20])):
        source, target = tmp_path / f"{name}.src", tmp_path / f"{name}.tgt"
        source.write_text("".join(" ".join(pair) + "\n" for pair in [*pairs, []]))
        target.write_text("".join(" ".join(w.replace("s", "t") for w in pair[::-1]) + "\n" for pair in [*pairs, []]))
        texts.append(Bitext(source, target))
    aligned = align(texts, tmp_path / "links")
    assert [len(text.alignment.read_text().splitlines()) for text in aligned] == [401, 21]
    links = [set(line.split()) for line in aligned[1].alignment.read_text().splitlines()]
    expected = {"0-3", "1-2", "2-1", "3-0"}
    assert sum(len(found & expected) for found in links[:20]) > 0.9 * 80
    assert links[20] == set()


def test_the_error_for_a_missing_aligner_names_the_extra(write, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "\.\[align\]" in a clone'):
        align([write()], tmp_path / "links")


def test_real_bitext_has_a_source_word_for_every_target_word():
    folder = Path(__file__).parents[3] / "shared" / "data" / "nnjm-zh-en"
    if not folder.is_dir():  # the repository does not include this text
        pytest.skip("the Chinese-English bitext is not on this machine")
    _, samples = encode(Bitext(*(folder / f"tiny_tune.{end}" for end in ("zh", "en", "align"))))
    assert len(samples) == 13_894 + 585
    assert (samples.affiliations >= samples.source_first).all()
    assert (samples.affiliations <= samples.source_last).all()
