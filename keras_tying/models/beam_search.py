"""Beam search and sampling of translations.

A beam holds `K` hypotheses per sentence. At each step every unfinished hypothesis is continued by its `K`
likeliest words. Of these continuations and the finished hypotheses, the `K` likeliest are kept. Finally they
are ranked by log-probability over `length ** length_penalty`, where the end counts as a word.

A sentence leaves the batch when all its hypotheses are finished. TensorFlow runs the whole search in one graph,
removes finished sentences at every step and scores words only for unfinished hypotheses. Other backends compile a
function for each shape, so there a batch is halved when half of its sentences are finished.
"""

from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.compilation import compile_function
from keras_tying.ids import PAD_ID
from keras_tying.models.sampling import candidate_scores

IMPOSSIBLE = -1e9
LENGTH_MULTIPLE = 16
"""Lengths are padded to multiples of this number."""


class Beam(NamedTuple):
    """`K` hypotheses for each of `B` sentences.

    Attributes:
        words: Words so far, `[B, K, L]`, padded with -1.
        scores: Log-probabilities, `[B, K]`.
        lengths: Number of words so far, including the end, `[B, K]`.
        finished: Whether a hypothesis has ended, booleans `[B, K]`.
        last: Last words, `[B, K]`; -1 before the first word.
        states: States of the decoder, `[B, K, H]`.
        limits: Maximum number of words per translation, `[B]`.
        memory: The `Memory` of the source sentences.
    """

    words: Any
    scores: Any
    lengths: Any
    finished: Any
    last: Any
    states: Any
    limits: Any
    memory: Any


class Draw(NamedTuple):
    """Settings of sampling, see `candidate_scores`, and random numbers `uniform` `[B, K, L]` in [0, 1)."""

    uniform: Any
    temperature: Any
    top_k: Any
    top_p: Any


def first_beam(encoded, limits, beam_size, steps, drawing=False):
    """The beam before the first word. Only one hypothesis per sentence is possible, or all with `drawing`."""
    sentences = ops.shape(encoded.state)[0]
    shape = (sentences, beam_size)
    hypotheses = ops.broadcast_to(ops.arange(beam_size, dtype="int32"), shape)
    return Beam(
        words=ops.full((sentences, beam_size, steps), PAD_ID, "int32"),
        scores=ops.where((hypotheses == 0) | drawing, ops.cast(0.0, "float32"), ops.cast(IMPOSSIBLE, "float32")),
        lengths=ops.zeros(shape, "int32"),
        finished=ops.zeros(shape, "bool"),
        last=ops.full(shape, PAD_ID, "int32"),
        states=ops.repeat(ops.expand_dims(encoded.state, 1), beam_size, axis=1),
        limits=ops.cast(limits, "int32"),
        memory=encoded.memory,
    )


@dispatch
def likeliest_words(model, hidden, live, number):
    """The `number` likeliest words of each hypothesis: log-probabilities and words `[B, K, number]`, best first.

    Args:
        model: A `Translator`.
        hidden: Hidden states before the output embedding, `[B, K, E]`.
        live: Booleans `[B, K]`, `True` for unfinished hypotheses. The results of the others are arbitrary.
        number: Number of words.
    """
    logits = ops.cast(model.scores(hidden), "float32")
    best, words = ops.top_k(logits, number)
    return best - ops.logsumexp(logits, axis=-1, keepdims=True), words


def advance(model, end_id, step, beam, draw=None):
    """The beam after one more word."""
    hidden, states, _ = model.step(beam.last, beam.states, beam.memory)
    if draw is None:
        live = ~beam.finished & (beam.scores > IMPOSSIBLE)
        number = min(beam.scores.shape[1], model.target_vocabulary_size)
        best, words = likeliest_words(model, hidden, live, number)  # [B, K, K]
        parents, words, scores = best_continuations(best, words, beam)
    else:
        logits = ops.cast(model.scores(hidden), "float32")
        parents, words, scores = drawn_continuations(logits, beam, draw, step)

    def of_parents(values):
        places = ops.reshape(parents, (*ops.shape(parents), *(1,) * (len(values.shape) - 2)))
        return ops.take_along_axis(values, places, axis=1)

    finished = of_parents(ops.cast(beam.finished, "int32")) > 0
    place = ops.arange(ops.shape(beam.words)[2], dtype="int32") == step
    words = ops.where(finished, PAD_ID, words)
    lengths = of_parents(beam.lengths) + ops.cast(~finished, "int32")
    return Beam(
        words=ops.where(place, ops.expand_dims(words, -1), of_parents(beam.words)),
        scores=scores,
        lengths=lengths,
        finished=finished | (words == end_id) | (step + 1 >= ops.expand_dims(beam.limits, -1)),
        last=words,
        states=of_parents(states),
        limits=beam.limits,
        memory=beam.memory,
    )


def best_continuations(best, words, beam):
    """The best `K` continuations per sentence: parents, words and scores, `[B, K]` each.

    Args:
        best: Log-probabilities of at most `K` likeliest words of each hypothesis, best first.
        words: These words.
        beam: The `Beam` to continue.
    """
    beam_size = beam.scores.shape[1]
    scores = beam.scores[..., None] + best
    finished = ops.expand_dims(beam.finished, -1)
    alone = ops.where(ops.arange(best.shape[-1], dtype="int32") == 0, beam.scores[..., None], 2 * IMPOSSIBLE)
    scores = ops.where(finished, alone, scores)
    sentences, choices = ops.shape(scores)[0], best.shape[-1]
    scores, places = ops.top_k(ops.reshape(scores, (sentences, beam_size * choices)), beam_size)
    words = ops.take_along_axis(ops.reshape(words, (sentences, beam_size * choices)), places, axis=1)
    return places // choices, ops.cast(words, "int32"), scores


def drawn_continuations(logits, beam, draw, step):
    """One drawn word per hypothesis: parents, words and scores, `[B, K]` each."""
    shape = ops.shape(logits)
    candidates = candidate_scores(ops.reshape(logits, (-1, logits.shape[-1])), *draw[1:])
    reached = ops.cumsum(ops.softmax(candidates, axis=-1), axis=-1)
    number = ops.reshape(ops.take(draw.uniform, step, axis=2), (-1, 1)) * reached[:, -1:]
    words = ops.reshape(ops.sum(ops.cast(reached <= number, "int32"), axis=-1), shape[:2])
    scores = ops.take_along_axis(logits, words[..., None], axis=-1)[..., 0] - ops.logsumexp(logits, axis=-1)
    parents = ops.broadcast_to(ops.arange(beam.scores.shape[1], dtype="int32"), shape[:2])
    return parents, words, beam.scores + ops.where(beam.finished, 0.0, scores)


def ranked(beam, length_penalty):
    """Words `[B, K, L]` and scores `[B, K]` divided by the length penalty, best first.

    Where fewer hypotheses than `K` are possible, the others come last, without words and with the score `IMPOSSIBLE`.
    """
    lengths = ops.cast(ops.maximum(beam.lengths, 1), "float32")
    possible = beam.scores > IMPOSSIBLE / 2
    scores = ops.where(possible, beam.scores / lengths**length_penalty, IMPOSSIBLE)
    words = ops.where(ops.expand_dims(possible, -1), beam.words, PAD_ID)
    scores, order = ops.top_k(scores, beam.scores.shape[1])
    return ops.take_along_axis(words, ops.expand_dims(order, -1), 1), scores


@dispatch
def search(model, source, limits, beam_size, length_penalty, end_id, draw=None):
    """Translates a batch with one compiled call per word.

    The batch size is padded to a power of two and lengths to multiples of 16, so that few shapes are compiled.

    Args:
        model: A `Translator`.
        source: Word ids `[B, S]`, padded with -1.
        limits: Maximum number of words per translation, `[B]`.
        beam_size: Hypotheses per sentence.
        length_penalty: Scores are divided by the length to this power.
        end_id: The id that ends a translation.
        draw: A `Draw` for sampling, or `None` for the best translations.

    Returns:
        NumPy arrays, best first: words `[B, K, L]` padded with -1, and scores `[B, K]`.
    """
    number, longest = len(source), int(limits.max(initial=1))
    padding = (1 << max(number - 1, 0).bit_length()) - number
    steps = -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
    source = np.pad(source, ((0, padding), (0, -source.shape[1] % LENGTH_MULTIPLE)), constant_values=PAD_ID)
    limits = np.pad(limits, (0, padding), constant_values=1)
    if draw is not None:
        draw = draw._replace(uniform=np.pad(draw.uniform, ((0, padding), (0, 0), (0, steps - longest))))
    key = f"beam of {beam_size}, {'best' if draw is None else 'drawn'}, end {end_id}"
    encode = model.compiled_once("encode", lambda: compile_function(model, lambda ids: model.encode(ids, False)))
    one_step = model.compiled_once(key, lambda: compile_function(model, partial(advance, model, end_id)))
    beam = first_beam(encode(ops.convert_to_tensor(source)), limits, beam_size, steps, draw is not None)
    words = np.full((len(source), beam_size, steps), PAD_ID, np.int32)
    scores = np.full((len(source), beam_size), IMPOSSIBLE, np.float32)
    sentences, drawn = np.arange(len(source)), [] if draw is None else [draw]

    def write_results(beam):
        found = ranked(beam, length_penalty)
        words[sentences], scores[sentences] = (ops.convert_to_numpy(part) for part in found)

    for step in range(longest):
        beam = one_step(ops.convert_to_tensor(step, "int32"), beam, *drawn)
        live = ~ops.convert_to_numpy(beam.finished).all(axis=1)
        if not live.any():
            break
        if len(sentences) > 1 and live.sum() <= len(sentences) // 2:
            write_results(beam)
            kept = np.argsort(~live, kind="stable")[: len(sentences) // 2]
            beam, *drawn = _kept_sentences((beam, *drawn), kept)
            sentences = sentences[kept]
    write_results(beam)
    return words[:number, :, :longest], scores[:number]


def _kept_sentences(arrays, kept):
    """The sentences `kept` of every array; scalars stay as they are."""
    return keras.tree.map_structure(lambda part: ops.take(part, kept, axis=0) if len(part.shape) else part, arrays)
