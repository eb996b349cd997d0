"""Sentences in, translations out: `Translator.translate` and `Translator.sample`."""

from typing import NamedTuple

import numpy as np

from keras_tying.ids import check_ids
from keras_tying.models.beam_search import Draw, search
from keras_tying.models.sampling import check_options


class Translations(NamedTuple):
    """Translations of each sentence, best first.

    Attributes:
        words: Ids `int32 [B, N, L]`, each closed by its end unless it was cut off, filled up with -1.
        scores: Log-probabilities over `length ** length_penalty`, `float32 [B, N]`.
    """

    words: np.ndarray
    scores: np.ndarray


def word_limits(source, longest=None):
    """Words a translation may have: twice those of its source and ten, `[B]`."""
    limits = 2 * (np.asarray(source) >= 0).sum(axis=1) + 10
    return np.minimum(limits, longest or limits.max(initial=1)).astype(np.int32)


def translate(model, source, end_id, beam_size, n_best, length_penalty, longest):
    """See `Translator.translate`."""
    n_best = 1 if n_best is None else n_best
    if beam_size < 1 or not 1 <= n_best <= beam_size:
        raise ValueError(
            f"Expected a beam of at least 1 and at most as many translations. "
            f"Received: beam_size={beam_size}, n_best={n_best}"
        )
    source = checked(model, source)
    words, scores = search(model, source, word_limits(source, longest), beam_size, length_penalty, end_id)
    return Translations(words[:, :n_best], scores[:, :n_best])


def sample(model, source, end_id, number, temperature, top_k, top_p, longest, seed):
    """See `Translator.sample`."""
    check_options(temperature, top_k, top_p)
    source = checked(model, source)
    limits = word_limits(source, longest)
    size = model.target_vocabulary_size
    draw = Draw(
        np.random.default_rng(seed).random((len(source), number, limits.max(initial=1)), np.float32),
        np.float32(temperature),
        np.int32(min(top_k or size, size)),
        np.float32(1.0 if top_p is None else top_p),
    )
    return Translations(*search(model, source, limits, number, 1.0, end_id, draw))


def checked(model, source):
    """Word ids `int32 [B, S]`."""
    source = np.asarray(source, np.int32)
    if source.ndim != 2:
        raise ValueError(f"`source` must be word ids [B, S], filled up with -1. Received: shape={source.shape}")
    check_ids(np.maximum(source, 0), model.source_vocabulary_size)
    return source
