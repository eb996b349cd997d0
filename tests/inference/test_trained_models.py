from io import BytesIO
from math import nan

import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.data import Subwords, Vocabulary
from keras_tying.data.text import tokens
from keras_tying.inference import (
    TrainedJointLanguageModel,
    TrainedLanguageModel,
    TrainedTranslator,
    TrainedWordVectors,
)
from keras_tying.inference.language_model import stream_perplexity
from keras_tying.inference.translator import LARGEST_PLOT, Attention, plot_attention


@pytest.fixture(scope="module")
def lm(vocabulary):
    return TrainedLanguageModel(zoo.recurrent_language_model(len(vocabulary), 8, tied=False), vocabulary, "plain")


@pytest.fixture(scope="module")
def vectors(vocabulary):
    return TrainedWordVectors(zoo.skip_gram(len(vocabulary), 8), vocabulary)


@pytest.fixture(scope="module")
def joint():
    words = Vocabulary(["a", "b", "<unk>", "<eos>"])
    model = zoo.nnjm(source_vocabulary_size=4, target_vocabulary_size=4, embedding_size=4)
    return TrainedJointLanguageModel(model, words, words)


@pytest.fixture(scope="module")
def translator():
    subwords = Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=30)
    return TrainedTranslator(
        zoo.dl4mt_small(source_vocabulary_size=30, target_vocabulary_size=30, embedding_size=8, units=8), subwords
    )


def test_a_sentence_has_one_score_whatever_is_scored_with_it(lm, corpus):
    lines = list(corpus.splits["test"])[:40]
    together = lm.score(lines)
    for line, score in zip(lines[::13], together[::13], strict=True):
        (alone,) = lm.score([line])
        assert alone.tokens == score.tokens
        assert alone.log_probability == pytest.approx(score.log_probability, rel=1e-5)


def test_no_sentences_have_no_scores(lm):
    assert lm.score([]) == []


def test_perplexity_carries_the_state_through_all_lines(lm, corpus):
    lines = list(corpus.splits["test"])[:20]
    ids = lm.vocabulary.encode(tokens(lines, "plain"))
    assert lm.perplexity(iter(lines)) == pytest.approx(stream_perplexity(lm.model, ids, sequence_length=7), rel=1e-5)
    apart = np.exp(-sum(s.log_probability for s in lm.score(lines)) / sum(s.tokens for s in lm.score(lines)))
    assert lm.perplexity(lines) != pytest.approx(apart, rel=1e-7)


def test_next_words_are_most_probable_first_and_at_most_all(lm):
    words = lm.next_words("the value", 10_000)
    probabilities = [probability for _, probability in words]
    assert len(words) == 300
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=1e-4)


def test_a_seed_repeats_the_generated_text(lm):
    texts = [lm.generate("the", 12, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_another_vocabulary_keeps_the_probabilities_of_known_words(lm):
    kept = [word for word in lm.vocabulary.words if word != "the"]
    other = lm.with_vocabulary([*kept, "zyzzyva", "quokka"])
    before, after = dict(lm.next_words("is a", 300)), dict(other.next_words("is a", 302))
    assert set(after) == set(kept) | {"zyzzyva", "quokka"}
    lost = 1 - before["the"]  # the word that is gone leaves its probability to the others
    assert after["value"] == pytest.approx(before["value"] / lost, rel=1e-4)
    shared = after["<unk>"] + after["zyzzyva"] + after["quokka"]
    assert shared == pytest.approx(before["<unk>"] / lost, rel=1e-4)
    assert other.model.trainable_variables
    assert lm.model.vocabulary_size == 300


@pytest.mark.parametrize("tied", [True, False])
def test_rows_are_taken_from_both_embeddings_and_the_bias(tied):
    model = zoo.recurrent_language_model(6, 4, tied=tied)
    model.embedding.bias.assign(np.arange(6.0))
    smaller = model.with_rows([5, 1, 3])
    assert smaller.tied == tied
    for role, matrix in model.embedding_matrices().items():
        np.testing.assert_array_equal(smaller.embedding_matrices()[role], np.array(matrix)[[5, 1, 3]])
    np.testing.assert_array_equal(smaller.embedding.bias, [5, 1, 3])


def test_rows_of_a_quantized_model_are_refused():
    model = zoo.recurrent_language_model(6, 4)
    model.quantize("int8")
    with pytest.raises(ValueError, match=r"quantization_mode='int8'"):
        model.with_rows([0, 1])


def test_a_translator_gives_one_translation_per_sentence(translator):
    translations = translator.translate(["eine Rose", "", "a rose is"], beam=2)
    assert len(translations) == 3
    assert translations[1] == ""


@pytest.mark.parametrize("links", ["0-0 1-{}", "1-{}", "1-{} 0-999999999"])
def test_links_to_words_far_ahead_are_like_links_to_words_ahead(joint, links):
    ahead, far_ahead = (joint.next_words("a b", links.format(place), "a b", 4) for place in (7, 99_999_999))
    assert ahead == far_ahead


def test_words_without_vectors_are_named_with_words_like_them(vectors):
    with pytest.raises(ValueError, match=r"no word 'valeu' among their 298. Words like it: value"):
        vectors.similar_words("valeu")
    with pytest.raises(ValueError, match=r"no word \['value'\] among"):
        vectors.similar_words(["value"])


def test_both_roles_of_an_untied_model_have_vectors(vectors):
    assert list(vectors.matrices) == ["input", "output"]
    assert not np.array_equal(vectors.vector(["the"]), vectors.vector(["the"], role="output"))


WRONG = {
    "a string for a list": (lambda m: m["lm"].score("the cat"), r"`sentences` must be a list of strings"),
    "bytes for a list": (lambda m: m["lm"].score(b"the"), r"`sentences` must be a list of strings"),
    "bytes in a list": (lambda m: m["lm"].score([b"the"]), r"Received: b'the' in it"),
    "a string as a text": (lambda m: m["lm"].perplexity("the cat"), r"`lines` must be a list"),
    "nothing as a text": (lambda m: m["lm"].perplexity(None), r"`lines` must be a list.* lines=None"),
    "a number as a line": (lambda m: m["lm"].perplexity([3]), r"Received: 3 in them"),
    "an empty text": (lambda m: m["lm"].perplexity([]), r"at least 2 tokens"),
    "no next word": (lambda m: m["lm"].next_words("the", 0), r"`k` must be at least 1"),
    "a list as a prefix": (lambda m: m["lm"].generate(["the"], 3), r"`prefix` must be a string"),
    "a negative length": (lambda m: m["lm"].generate("the", -1), r"`length` must be at least 0"),
    "a string as a vocabulary": (lambda m: m["lm"].with_vocabulary("ab"), r"`words` must be a list"),
    "a word twice": (lambda m: m["lm"].with_vocabulary(["a", "a"]), r"Received twice: 'a'"),
    "a string to translate": (lambda m: m["translator"].translate("a rose"), r"`sentences` must be a list"),
    "no beam": (lambda m: m["translator"].translate(["a"], beam=0), r"`beam` must be at least 1"),
    "no length penalty": (lambda m: m["translator"].translate([], length_penalty=nan), "must be a finite number"),
    "a list as a source": (lambda m: m["translator"].attention(["a"], "b"), r"`source` must be a string"),
    "a link beyond": (lambda m: m["joint"].next_words("a b", "3-0", "a"), r"positions below 3. Received: 3-0"),
    "no link": (lambda m: m["joint"].next_words("a b", "x", "a"), r"links such as '0-0 1-2'. Received: alignment='x'"),
    "no history": (lambda m: m["joint"].next_words("a b", "0-0", None), r"`history` must be a string"),
    "no such role": (lambda m: m["vectors"].vector(["the"], role="tied"), r"one of \['input', 'output'\]"),
    "a word for a list": (lambda m: m["vectors"].vector("the"), r"`words` must be a list of strings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case, lm, translator, joint, vectors):
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        call({"lm": lm, "translator": translator, "joint": joint, "vectors": vectors})


def test_a_vocabulary_of_another_size_is_refused(lm, vectors, joint, translator):
    other = Vocabulary(["a", "<unk>", "<eos>"])
    with pytest.raises(ValueError, match=r"has 300 words. Received: a vocabulary of 3"):
        TrainedLanguageModel(lm.model, other)
    with pytest.raises(ValueError, match=r"has 300 words. Received: a vocabulary of 3"):
        TrainedWordVectors(vectors.model, other)
    with pytest.raises(ValueError, match=r"has 4 source words. Received: a vocabulary of 3"):
        TrainedJointLanguageModel(joint.model, other, joint.vocabulary)
    with pytest.raises(ValueError, match=r"has 4 target words. Received: a vocabulary of 3"):
        TrainedJointLanguageModel(joint.model, joint.source_vocabulary, other)
    with pytest.raises(ValueError, match=r"has 30 and 30 subwords. Received: 29 for both"):
        TrainedTranslator(
            translator.model, Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=29)
        )
    with pytest.raises(ValueError, match=r"no such tokenization|must be one of"):
        TrainedLanguageModel(lm.model, lm.vocabulary, "letter")


@pytest.mark.parametrize("tying", ["none", "decoder", "three_way"])
def test_word_vectors_of_a_translator_are_those_of_its_target_language(tying):
    words = Vocabulary(["a", "b", "c", "<unk>", "<eos>"])
    model = zoo.dl4mt_small(5 if tying == "three_way" else 7, 5, tying, embedding_size=4, units=4)
    vectors = TrainedWordVectors(model, words)
    assert list(vectors.matrices) == {"none": ["input", "output"], "decoder": ["decoder"], "three_way": ["tied"]}[tying]
    np.testing.assert_array_equal(vectors.vector(["b"])[0], np.asarray(model.embedding.embeddings)[1])
    with pytest.raises(ValueError, match=r"has 5 words. Received: a vocabulary of 3"):
        TrainedWordVectors(model, Vocabulary(["a", "<unk>", "<eos>"]))


def test_subwords_that_look_like_formulas_are_plotted():
    subwords = ["▁$$", "▁$x^$", "$_$", "</s>"]
    plot = plot_attention(Attention(np.eye(4, dtype="float32"), subwords, subwords))
    plot.savefig(BytesIO(), format="png")


def test_the_plot_of_a_long_sentence_has_a_limit():
    weights = np.zeros((2, 1000), "float32")
    plot = plot_attention(Attention(weights, ["a"] * 1000, ["b", "</s>"]))
    assert plot.get_size_inches()[0] == LARGEST_PLOT
