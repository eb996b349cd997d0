import gzip

import numpy as np
import pytest

import keras_tying as kt
from keras_tying.data import PairBatches, SentencePairs, Subwords, sentence_pairs

PAIRS = [
    *[("a rose is a rose", "eine Rose ist eine Rose"), ("the house", "das Haus"), ("", "leer"), ("a  ", "   ")],
    *[("two dogs run in the snow", "zwei Hunde rennen im Schnee"), ("snow", "Schnee"), ("snow " * 60, "x")],
]


@pytest.fixture(scope="module")
def subwords():
    return Subwords.learn([side for pair in PAIRS * 20 for side in pair], 60)


@pytest.fixture(scope="module")
def phrases():
    rng = np.random.default_rng(0)
    words = ["dog", "cat", "snow", "house", "rose", "run", "the", "a"]
    return [(" ".join(rng.choice(words, rng.integers(1, 12))), " ".join(rng.choice(words, rng.integers(1, 12))))
            for _ in range(300)]  # fmt: skip


@pytest.fixture(scope="module")
def pairs(phrases):
    subwords = Subwords.learn([side for pair in phrases for side in pair], 40)
    return SentencePairs.encode(phrases, subwords, subwords)


def test_decoding_returns_the_encoded_sentence(subwords):
    for source, target in PAIRS:
        for sentence in (source, target):
            assert subwords.decode(subwords.encode(sentence)) == " ".join(sentence.split())


def test_the_end_id_is_the_last_of_a_sentence(subwords):
    assert subwords.encode("the house")[-1] == subwords.end_id
    assert subwords.encode("").tolist() == [subwords.end_id]


def test_unseen_characters_are_unknown(subwords):
    assert subwords.unknown_id in subwords.encode("漢")


def test_half_of_a_surrogate_pair_is_left_out(subwords):
    np.testing.assert_array_equal(subwords.encode("the \ud800 house"), subwords.encode("the house"))
    assert subwords.pieces("the \ud800 house") == subwords.pieces("the house")


def test_saved_subwords_are_loaded_unchanged(subwords, tmp_path):
    subwords.save(tmp_path / "subwords.model")
    again = Subwords.load(tmp_path / "subwords.model")
    assert (again.sha256, again.words) == (subwords.sha256, subwords.words)


def test_a_file_that_is_no_sentencepiece_model_is_named(tmp_path):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ValueError, match=r"text: This is not a sentencepiece model"):
        Subwords.load(tmp_path / "text")


def test_more_subwords_than_the_text_has_are_refused():
    with pytest.raises(ValueError, match=r"^5,000 subwords cannot .* has enough for 17\. Use at most[^\n]*$"):
        Subwords.learn(["a rose"], 5000)
    assert len(Subwords.learn(["a rose"], 17)) == 17


def test_fewer_subwords_than_characters_are_refused():
    with pytest.raises(ValueError, match=r"^3 subwords cannot .* needs 8 for its characters[^\n]*$"):
        Subwords.learn(["a rose"], 3)
    assert len(Subwords.learn(["a rose"], 8)) == 8


@pytest.mark.parametrize("sentences", [[], ["", ""], [" "]])
def test_subwords_of_no_text_are_refused(sentences):
    with pytest.raises(ValueError, match=r"expected words. Received only empty sentences"):
        Subwords.learn(sentences, 9)


def test_long_lines_are_learnt_from_too():
    subwords = Subwords.learn(
        [*["a rose is a rose", "eine Rose ist eine Rose"] * 50, "Straße " + "ein Satz " * 600], 30
    )
    assert subwords.unknown_id not in subwords.encode("Straße")


def test_an_error_of_the_text_is_not_hidden_by_the_learning_of_subwords(tmp_path):
    source, target = write(tmp_path / "a.en", ["a"] * 7), write(tmp_path / "a.de", ["a"] * 5)
    pairs = kt.data.parallel_files({"train": [(source, target)]}).pairs("train")
    with pytest.raises(ValueError, match=r"^\S*a\.de ends before line 6, but \S*a\.en continues.*5 and 7 lines"):
        Subwords.learn(kt.data.sentences_of(pairs), 300)


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2028", "\t", "\u200b", "  ", "\x0b", "\x1c", "\x85"])
def test_white_space_of_any_kind_separates_the_words_of_a_sentence(subwords, space):
    assert subwords.pieces(f"\ufeffeine{space}Rose{space}") == subwords.pieces("eine Rose")


def test_empty_and_long_pairs_are_left_out_and_counted(subwords):
    found = SentencePairs.encode(PAIRS, subwords, subwords, maximum_length=40)
    assert (len(found), found.skipped, found.too_long) == (4, 2, 1)


def test_a_text_without_pairs_is_refused(subwords):
    with pytest.raises(ValueError, match="3 with an empty side"):
        SentencePairs.encode([("", "a"), ("b", " "), ("\u200b", "a")], subwords, subwords)


def test_a_batch_holds_the_word_before_each_word(subwords):
    found = SentencePairs.encode(PAIRS[:2], subwords, subwords)
    inputs, words, weights = found.batch(np.array([1, 0]))
    for row, (source, target) in enumerate((PAIRS[1], PAIRS[0])):
        ids = subwords.encode(target)
        real = weights[row] > 0
        np.testing.assert_array_equal(words[row][real], ids)
        np.testing.assert_array_equal(inputs["target"][row][real], [-1, *ids[:-1]])
        np.testing.assert_array_equal(inputs["source"][row][inputs["source"][row] >= 0], subwords.encode(source))


def test_overlap_counts_each_subword_once(subwords):
    found = SentencePairs.encode(PAIRS[:2], subwords, subwords)
    source, target = (
        set(np.concatenate(side).tolist()) for side in zip(*found.sentences(np.arange(len(found))), strict=True)
    )
    assert found.overlap() == {
        "only_source": len(source - target),
        "only_target": len(target - source),
        "both": len(source & target),
    }


def test_counts_are_those_of_each_side(subwords):
    counts = SentencePairs.encode(PAIRS[:2], subwords, subwords).counts(len(subwords))
    for received, side in zip(counts, zip(*PAIRS[:2], strict=True), strict=True):
        ids = np.concatenate([subwords.encode(sentence) for sentence in side])
        np.testing.assert_array_equal(received, np.bincount(ids, minlength=len(subwords)))


@pytest.mark.parametrize("epoch", [0, 1])
def test_every_pair_is_in_one_batch_of_an_epoch(pairs, epoch):
    batches = PairBatches(pairs, 64, seed=1)
    order = batches.order(epoch)
    assert len(order) == len(batches)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(pairs)))


def test_shards_whose_pairs_are_all_left_out_have_no_batches(subwords, monkeypatch):
    monkeypatch.setattr(sentence_pairs, "pieces", lambda pairs: ([pair] for pair in pairs))
    kept = SentencePairs.encode(PAIRS, subwords, subwords, maximum_length=40)
    assert (len(kept.shards), len(kept)) == (len(PAIRS), 4)
    for epoch in range(3):
        assert sorted(len(chosen) for chosen in PairBatches(kept, 64, seed=1).order(epoch)) == [1] * 4


def test_batches_have_at_most_the_given_number_of_tokens(pairs):
    for chosen in PairBatches(pairs, 64, seed=1).order(0):
        inputs, _, _ = pairs.batch(chosen)
        assert max(inputs["source"].size, inputs["target"].size) <= 64


def test_targets_of_a_batch_have_similar_lengths(pairs):
    densities = [pairs.batch(chosen)[2].mean() for chosen in PairBatches(pairs, 64, seed=1).order(0)]
    assert np.mean(densities) > 0.9


def test_order_depends_only_on_seed_and_epoch(pairs):
    def order(seed, epoch):
        return [chosen.tolist() for chosen in PairBatches(pairs, 64, seed).order(epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) != order(2, 1)


def test_a_batch_too_small_for_a_sentence_is_refused(pairs):
    with pytest.raises(ValueError, match="A batch of 3 tokens cannot hold"):
        PairBatches(pairs, 3, seed=1)


def test_phrases_are_distinct_and_held_out():
    corpus = kt.data.load_parallel("embedded")
    seen = {split: set(corpus.pairs(split)) for split in kt.data.SPLITS}
    sources = {split: {source for source, _ in pairs} for split, pairs in seen.items()}
    assert len(seen["train"]) > 20_000
    assert not sources["train"] & (sources["valid"] | sources["test"])
    assert ("June 5", "5. Juni") in seen["train"] | seen["valid"] | seen["test"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "opus"}, "There is no parallel corpus 'opus'"),
        ({"name": "embedded", "target": "xx"}, "CLDR has no such language"),
        ({"name": "embedded", "target": "en"}, "Received: 'en' twice"),
        ({"name": "multi30k", "target": "cs", "data_dir": "."}, "Received: 'cs'"),
    ],
)
def test_unknown_corpora_and_languages_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        kt.data.load_parallel(**arguments)


def write(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_several_files_are_read_in_order(tmp_path):
    files = [write(tmp_path / name, [name, "x"]) for name in ("a.en", "a.de.gz", "b.en.gz", "b.de")]
    corpus = kt.data.parallel_files({"train": [(files[0], files[1]), (files[2], files[3])]})
    assert list(corpus.pairs("train")) == [("a.en", "a.de.gz"), ("x", "x"), ("b.en.gz", "b.de"), ("x", "x")]


def test_files_of_different_length_are_refused_with_both_counts(tmp_path):
    source, target = write(tmp_path / "a.en", ["a"] * 7), write(tmp_path / "a.de", ["a"] * 5)
    with pytest.raises(ValueError, match=r"a\.de ends before line 6.*they have 5 and 7 lines"):
        list(kt.data.parallel_files({"train": [(source, target)]}).pairs("train"))


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    source = write(tmp_path / "a.en", ["a", "b"])
    (tmp_path / "a.de").write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match=r"a\.de, line 2: expected UTF-8, received byte 0xff"):
        list(kt.data.parallel_files({"train": [(source, tmp_path / "a.de")]}).pairs("train"))


def test_padding_to_multiples_adds_no_weight(pairs):
    chosen = np.arange(5)
    padded_inputs, padded_targets, padded_weights = pairs.batch(chosen, length_multiple=8, row_multiple=8)
    inputs, targets, weights = pairs.batch(chosen)
    padded = (*padded_inputs.values(), padded_targets, padded_weights)
    assert all(size % 8 == 0 for array in padded for size in array.shape)
    length = targets.shape[1]
    np.testing.assert_array_equal(padded_weights[:5, :length], weights)
    np.testing.assert_array_equal(padded_inputs["target"][:5, :length][weights > 0], inputs["target"][weights > 0])
    assert padded_weights.sum() == weights.sum()


def test_ctrl_c_while_subwords_are_learnt_is_no_error_of_the_text():
    def interrupted():
        yield "a rose"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Subwords.learn(interrupted(), 17)
