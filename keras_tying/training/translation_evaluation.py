"""What a translation model makes of a text: its perplexity, its translations."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_tying.data import PairBatches, SentencePairs, Subwords, filled_up
from keras_tying.training.translation_batches import SHAPES_OF

POSITIONS = 4000
"""Source positions translated, or target positions scored, at a time; it does not change the result."""


def pair_perplexity(model: keras.Model, pairs: SentencePairs) -> float:
    """Exact perplexity of target sentences, their ends included, given their sources."""
    total = 0.0
    for chosen in PairBatches(pairs, max(POSITIONS, pairs.longest()), seed=0).order(0):
        inputs, targets, weights = pairs.batch(chosen, SHAPES_OF, SHAPES_OF)
        scores = model.score(inputs, np.where(weights > 0, targets, -1))
        total -= float(np.sum(scores, dtype=np.float64))
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(total / pairs.target_tokens))


def translate_sentences(
    model: keras.Model, subwords: Subwords, sentences: Sequence[str], beam_size: int = 5, length_penalty: float = 1.0
) -> list[str]:
    """Translates a text, sentences of like length together.

    Args:
        model: A `Translator`.
        subwords: Its subwords, of both languages.
        sentences: Text; one without any words is translated to one without any.
        beam_size: Hypotheses a sentence; 1 is greedy.
        length_penalty: See `Translator.translate`.
    """
    encoded = [subwords.encode(sentence) for sentence in sentences]
    translations = [""] * len(encoded)
    waiting = sorted((i for i, ids in enumerate(encoded) if len(ids) > 1), key=lambda i: -len(encoded[i]))
    while waiting:
        size = max(1, POSITIONS // (beam_size * len(encoded[waiting[0]])))
        batch, waiting = waiting[:size], waiting[size:]
        source = filled_up([encoded[i] for i in batch])
        found = model.translate(source, subwords.end_id, beam_size, length_penalty=length_penalty)
        for i, words in zip(batch, found.words[:, 0], strict=True):
            translations[i] = subwords.decode(words)
    return translations
