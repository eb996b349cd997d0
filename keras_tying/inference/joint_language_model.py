"""Trained joint language models: a source sentence and a target history in, next words out."""

import keras
import numpy as np

from keras_tying.checks import check_integer, check_string
from keras_tying.data import END_OF_SENTENCE, JointSamples, PreparedSamples, Vocabulary, affiliate, tokenize
from keras_tying.data.bitext import parse_links
from keras_tying.data.text import check_tokenization
from keras_tying.inference.sentences import most_probable
from keras_tying.metrics.perplexity import perplexity_of

SAMPLES_PER_CALL = 2048
"""Samples that are scored per call. It does not change the result."""


class TrainedJointLanguageModel:
    """A joint language model with its words, on every backend of Keras.

    Args:
        model: A `JointLanguageModel`.
        source_vocabulary: Words of the source language. A model without source context does not use them.
        vocabulary: Words of the target language, which the model predicts.
        tokenization: How its text was split, see `keras_tying.data.tokenize`.

    Attributes:
        model: The `keras.Model`.
        source_vocabulary: Words of the source language.
        vocabulary: Words of the target language.
        tokenization: Name of the tokenization.

    Raises:
        ValueError: If model and vocabularies differ in size, or there is no such tokenization.

    Example:

    >>> import keras_tying as kt
    >>> source = kt.data.Vocabulary(["das", "Haus", "<unk>", "<eos>"])
    >>> target = kt.data.Vocabulary(["the", "house", "<unk>", "<eos>"])
    >>> model = kt.zoo.nnjm(source_vocabulary_size=4, target_vocabulary_size=4)
    >>> joint = kt.inference.TrainedJointLanguageModel(model, source, target)
    >>> len(joint.next_words("das Haus", "0-0 1-1", "the", k=2))
    2
    """

    def __init__(
        self,
        model: keras.Model,
        source_vocabulary: Vocabulary,
        vocabulary: Vocabulary,
        tokenization: str = "words",
    ):
        if model.source_vocabulary_size:
            source_vocabulary.check_size(model.source_vocabulary_size, "source words")
        vocabulary.check_size(model.target_vocabulary_size, "target words")
        check_tokenization(tokenization)
        self.model = model
        self.source_vocabulary = source_vocabulary
        self.vocabulary = vocabulary
        self.tokenization = tokenization

    def next_words(self, source: str, alignment: str, history: str, k: int = 5) -> list[tuple[str, float]]:
        """The `k` most probable next target words and their probabilities, most probable first.

        Args:
            source: The source sentence.
            alignment: Links such as `"0-0 1-2"`, from positions of source words to positions of target words, counted
                from 0. The next word is affiliated as in training: by its own links, or those of the nearest word.
            history: The target words so far.
            k: Number of words.

        Raises:
            ValueError: If a link is not of the form `i-j` or points beyond the end of the source sentence, or `k` is
                below 1.
        """
        for name, text in (("source", source), ("alignment", alignment), ("history", history)):
            check_string(name, text)
        check_integer("k", k)
        samples, place = self._sample(source, alignment, history)
        hidden = self.model.hidden_states(model_inputs(self.model, samples, np.array([place])), training=False)
        return most_probable(self.model.scores(hidden), self.vocabulary, k)

    def _sample(self, source: str, alignment: str, history: str) -> tuple[JointSamples, int]:
        """The sentence pair up to the history, and the place of the next target word in it."""
        end = [END_OF_SENTENCE]
        source_ids = self.source_vocabulary.encode([*tokenize(source, self.tokenization), *end])
        history_ids = self.vocabulary.encode(tokenize(history, self.tokenization))
        links = _links(alignment)
        if beyond := [f"{i}-{j}" for i, j in links.tolist() if i >= len(source_ids)]:
            raise ValueError(
                f"`alignment` must point to source positions below {len(source_ids)}. Received: {' '.join(beyond)}"
            )
        place = len(history_ids)
        links = _nearest(links, place)
        # The end of the target sentence, which is not known, is farther away than any link.
        length = 2 * max(place, links[:, 1].max(initial=0)) + 3
        target_ids = np.full(length, self.vocabulary.end_id, np.int32)
        target_ids[:place] = history_ids
        source_starts, target_starts = np.array([0, len(source_ids)]), np.array([0, length])
        affiliations = affiliate(links, source_starts, target_starts)
        part = source_ids, source_starts, target_ids, target_starts, affiliations
        ends = self.source_vocabulary.end_id, self.vocabulary.end_id
        return JointSamples.join([part], *ends), place


def _links(alignment: str) -> np.ndarray:
    """Parses `i-j` pairs, int64 `[M, 2]`."""
    try:
        return parse_links((alignment,), None, 1)[0]
    except ValueError:
        raise ValueError(f"`alignment` must be links such as '0-0 1-2'. Received: alignment={alignment!r}") from None


def _nearest(links: np.ndarray, place: int) -> np.ndarray:
    """The links that can count for the target word at `place`, none of them farther than needed.

    These are all links of the history, and those of the nearest later word.
    """
    later = links[:, 1] > place
    if later.any():
        links = links[~later | (links[:, 1] == links[later, 1].min())]
    farther_than_any = 2 * place + 2
    return np.minimum(links, [np.iinfo(links.dtype).max, farther_than_any])


def model_inputs(model, samples: JointSamples, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of some samples as `model` takes them."""
    sentence = model.sentence_length if model.global_context else 0
    return samples.inputs(chosen, model.order - 1, model.window, sentence)


def sample_perplexity(model, samples: JointSamples | PreparedSamples) -> float:
    """Exact perplexity of a text under a `JointLanguageModel`: `exp` of the mean negative log-likelihood."""
    total = sum(_log_likelihood(model, samples.part(index)) for index in range(len(samples.part_lengths)))
    return perplexity_of(-total / len(samples))


def _log_likelihood(model, samples: JointSamples) -> float:
    """Sum of the log-probabilities of all samples."""
    total = 0.0
    for start in range(0, len(samples), SAMPLES_PER_CALL):
        chosen = np.arange(start, min(start + SAMPLES_PER_CALL, len(samples)))
        scores = model.score(model_inputs(model, samples, chosen), samples.target_ids[chosen])
        total += float(np.sum(scores, dtype=np.float64))
    return total
