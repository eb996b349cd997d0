"""Trained translators: sentences in, translations out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np

from keras_tying import backend
from keras_tying.checks import check_integer, check_number, check_string
from keras_tying.data import PAD_ID, PairBatches, SentencePairs, Subwords, pad_sentences
from keras_tying.data.subwords import LONGEST_SENTENCE
from keras_tying.inference.sentences import check_sentences, similar_lengths
from keras_tying.metrics.perplexity import perplexity_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_PLOT = 60.0
"""Inches of the longer side of a plot of attention. Labels of sentences of more than 200 subwords overlap."""
POSITIONS_PER_CALL = 4000
"""Source positions that are translated, or target positions scored, per call. It does not change the result."""


class Attention(NamedTuple):
    """Attention weights of a translation.

    Attributes:
        weights: `float32 [T, S]`: how much each target subword looks at each source subword; rows sum to 1.
        source: The `S` source subwords, `</s>` at the end.
        translation: The `T` target subwords, `</s>` at the end.
    """

    weights: np.ndarray
    source: list[str]
    translation: list[str]


class TrainedTranslator:
    """A translator with its subwords: sentences in, translations out, on every backend of Keras.

    Args:
        model: A `Translator`.
        subwords: The subwords of both languages.

    Attributes:
        model: The `keras.Model`.
        subwords: The subwords.

    Raises:
        ValueError: If model and subwords differ in size.

    Example:

    >>> import keras_tying as kt
    >>> subwords = kt.data.Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=30)
    >>> sizes = {"source_vocabulary_size": 30, "target_vocabulary_size": 30}
    >>> translator = kt.inference.TrainedTranslator(kt.zoo.dl4mt_small(**sizes), subwords)
    >>> len(translator.translate(["a rose", ""], beam=2))
    2
    """

    def __init__(self, model: keras.Model, subwords: Subwords):
        subwords.check_sizes(model.source_vocabulary_size, model.target_vocabulary_size)
        self.model = model
        self.subwords = subwords

    def translate(self, sentences: Sequence[str], beam: int = 5, length_penalty: float = 1.0) -> list[str]:
        """Translates sentences; those of similar length are translated together.

        Args:
            sentences: Text. A sentence without words has the translation `""`. Subwords after the first
                `LONGEST_SENTENCE` of a sentence are not read, as in an exported model.
            beam: Hypotheses per sentence; 1 is greedy.
            length_penalty: See `Translator.translate`.

        Raises:
            ValueError: If `sentences` is not a list of strings, `beam` is below 1, or `length_penalty` is no finite
                number.
        """
        check_sentences(sentences)
        check_integer("beam", beam)
        check_number("length_penalty", length_penalty)
        encoded = [self._read(sentence) for sentence in sentences]
        translations = [""] * len(encoded)
        places = [i for i, ids in enumerate(encoded) if len(ids) > 1]
        with_words = [encoded[i] for i in places]
        for batch in similar_lengths([*map(len, with_words)], POSITIONS_PER_CALL // beam):
            source = pad_sentences([with_words[i] for i in batch])
            found = self.model.translate(source, self.subwords.end_id, beam, length_penalty=length_penalty)
            for i, words in zip(batch, found.words[:, 0], strict=True):
                translations[places[i]] = self.subwords.decode(words)
        return translations

    def attention(self, source: str, translation: str) -> Attention:
        """Attention weights of a translation.

        Args:
            source: A sentence.
            translation: Its translation.

        Raises:
            ValueError: If a text is not a string.
        """
        check_string("source", source)
        check_string("translation", translation)
        ids, words = self._read(source), self.subwords.encode(translation)
        before = np.concatenate([[PAD_ID], words[:-1]]).astype(np.int32)
        weights = self.model.attend({"source": pad_sentences([ids]), "target": before[None]})[0]
        read = self.subwords.pieces(source)[: len(ids) - 1]
        return Attention(weights, [*read, "</s>"], [*self.subwords.pieces(translation), "</s>"])

    def attention_plot(self, source: str, translation: str) -> "Figure":
        """Plots the attention weights of a translation. For arguments and errors see `attention`."""
        return plot_attention(self.attention(source, translation))

    def _read(self, sentence: str) -> np.ndarray:
        """Ids of a sentence that the model reads: its first `LONGEST_SENTENCE` subwords and its end."""
        ids = self.subwords.encode(sentence)
        return np.append(ids[:LONGEST_SENTENCE], ids[-1]) if len(ids) > LONGEST_SENTENCE else ids


def pair_perplexity(model: keras.Model, pairs: SentencePairs) -> float:
    """Exact perplexity of the target sentences, including their ends, given their sources."""
    total = 0.0
    for chosen in PairBatches(pairs, max(POSITIONS_PER_CALL, pairs.longest()), seed=0).order(0):
        inputs, targets, weights = pairs.batch(chosen, backend.SHAPE_MULTIPLE, backend.SHAPE_MULTIPLE)
        scores = model.score(inputs, np.where(weights > 0, targets, PAD_ID))
        total -= float(np.sum(scores, dtype=np.float64))
    return perplexity_of(total / pairs.target_tokens)


def plot_attention(found: Attention) -> "Figure":
    """Plots attention weights: one row per target subword, one column per source subword; dark is large."""
    from matplotlib.figure import Figure

    columns, rows = ([label.replace("▁", " ") for label in each] for each in (found.source, found.translation))
    width, height = 2 + 0.28 * len(columns), 1.5 + 0.28 * len(rows)
    figure = Figure(figsize=(min(width, LARGEST_PLOT), min(height, LARGEST_PLOT)), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(found.weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(columns)), columns, rotation=90, parse_math=False)
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.set_xlabel("source")
    axes.set_ylabel("translation")
    return figure
