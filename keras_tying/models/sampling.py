"""Sampling of the next word."""

from functools import partial

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.checks import check_integer, check_number
from keras_tying.ids import check_ids

EXCLUDED = -1e9


def candidate_scores(scores, temperature, top_k=None, top_p=None):
    """Scores from which to draw the next word. Excluded words get a score of -1e9.

    Args:
        scores: Scores of all words `[B, V]`.
        temperature: Scores are divided by it; 0 excludes all words but the likeliest. Of words with the same score,
            the one with the smaller id counts as likelier.
        top_k: Number of likeliest words to keep, from 1 to `V`.
        top_p: Keeps the smallest set of likeliest words that has this probability, in (0, 1]; 1 keeps all.

    All arguments but `scores` are numbers or scalar tensors. With both limits, a word must meet both.
    Without limits (`None`) the scores are not sorted.

    Returns:
        Float32 `[B, V]`.

    Reference for `top_p`:
        Holtzman et al., The Curious Case of Neural Text Degeneration.
    """
    temperature = ops.cast(temperature, "float32")
    drawing = temperature > 0
    scores = ops.cast(scores, "float32")
    scores = scores - ops.max(scores, axis=-1, keepdims=True)  # 0 is the best one, at any temperature
    scores = scores / ops.where(drawing, temperature, 1.0)
    if top_k is None and top_p is None:
        likeliest = ops.arange(ops.shape(scores)[1]) == ops.argmax(scores, axis=-1)[:, None]
        return ops.where(drawing | likeliest, scores, EXCLUDED)
    ranked = ops.flip(ops.sort(scores, axis=-1), axis=-1)
    probabilities = ops.softmax(ranked, axis=-1)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    top_p = ops.cast(top_p, "float32")
    within = (before < top_p) | (top_p >= 1)  # rounding lets the sum reach 1 before the last words
    reaching = ops.sum(ops.cast(within, "int32"), axis=-1, keepdims=True)
    reaching = ops.maximum(reaching, 1)  # a `top_p` below the least float32 is 0
    allowed = ops.where(drawing, ops.minimum(reaching, ops.cast(top_k, "int32")), 1)
    least = ops.take_along_axis(ranked, allowed - 1, axis=-1)
    above, equal = scores > least, scores == least
    room = allowed - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    first = ops.cumsum(ops.cast(equal, "int32"), axis=-1) <= room
    return ops.where(above | (equal & first), scores, EXCLUDED)


def generate_words(model, prefix, length, temperature=1.0, top_k=None, top_p=None, seed=None):
    """`LanguageModel.generate`: reads `prefix` `[B, T]`, then draws `length` words per row."""
    check_integer("length", length, least=0)
    check_options(temperature, top_k, top_p, seed)
    prefix = check_ids(prefix, model.vocabulary_size)
    if prefix.ndim != 2 or prefix.shape[1] == 0:
        raise ValueError(f"`prefix` must be word ids [B, T] with T at least 1. Received: shape={prefix.shape}")
    if 0 in (len(prefix), length):
        return np.zeros((len(prefix), length), "int32")
    vocabulary_size = model.vocabulary_size
    options: list[np.generic] = [np.float32(min(temperature, float(np.finfo(np.float32).max)))]
    limited = top_k is not None or top_p is not None
    if limited:
        options += [
            np.int32(min(top_k or vocabulary_size, vocabulary_size)),
            np.float32(1.0 if top_p is None else top_p),
        ]

    next_scores = _scores_by_state if model.reads_word_by_word else _scores_of_whole_text
    name = f"{next_scores.__name__}, {'limited' if limited else 'free'}"
    step = model.compiled_once(name, lambda: compile_function(model, partial(next_scores, model)))
    seeds = keras.random.SeedGenerator(None if seed is None else int(seed) % 2**31)  # PyTorch takes no larger ones
    words, written = ops.convert_to_tensor(prefix, "int32"), []
    read = model.zero_states(len(prefix))
    if not model.reads_word_by_word:
        read = ops.pad(words, [[0, 0], [0, length]])  # one length for all steps: one compiled function
    for i in range(length):
        place = ops.convert_to_tensor(prefix.shape[1] + i, "int32")
        scores, read = step(words, read, place, *map(ops.convert_to_tensor, options))
        words = ops.cast(keras.random.categorical(scores, 1, seed=seeds), "int32")
        written.append(ops.convert_to_numpy(words))
    return np.concatenate(written, axis=1)


def _scores_by_state(model, words, states, place, *options):
    """Scores `[B, V]` of the word after `words`, which are read from `states`, and the new states."""
    hidden, states = model.hidden_states(words, states, training=False)
    return candidate_scores(model.next_word_scores(hidden[:, -1]), *options), states


def _scores_of_whole_text(model, words, text, place, *options):
    """Scores `[B, V]` of the word at `place`, and the text `[B, L]` with the last of `words` at `place - 1`."""
    text = ops.where(ops.arange(ops.shape(text)[1], dtype="int32") == place - 1, words[:, -1:], text)
    hidden, _ = model.hidden_states(text, training=False)  # the model uses no later words
    return candidate_scores(model.next_word_scores(ops.take(hidden, place - 1, axis=1)), *options), text


def check_options(temperature, top_k, top_p, seed=None):
    """Raises ValueError if an option of sampling is out of range."""
    check_number("temperature", temperature, least=0)
    if top_k is not None:
        check_integer("top_k", top_k)
    if top_p is not None:
        check_number("top_p", top_p)
        if not 0 < top_p <= 1:
            raise ValueError(f"`top_p` must be in (0, 1]. Received: top_p={top_p}")
    if seed is not None:
        check_integer("seed", seed, least=0)
