"""TensorFlow: a beam search in one graph, from which finished sentences are removed."""

import keras
import numpy as np
import tensorflow as tf

from keras_tying.ids import PAD_ID
from keras_tying.models import beam_search as portable

WORDS_PER_BLOCK = 40


def search(model, source, limits, beam_size, length_penalty, end_id, draw=None):
    """Translates a batch in one compiled call; sentences leave the batch as they finish."""
    drawn = [] if draw is None else [tf.convert_to_tensor(part) for part in draw]

    def compiled():
        ids, numbers = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        arguments = [ids, numbers, tf.TensorSpec([], tf.float32)]
        if draw is not None:
            scalars = [tf.TensorSpec([], part.dtype) for part in drawn[1:]]
            arguments += [tf.TensorSpec([None, beam_size, None], tf.float32), *scalars]

        def run(source, limits, length_penalty, *drawn):
            how = portable.Draw(*drawn) if drawn else None
            return search_in_graph(model, source, limits, beam_size, length_penalty, end_id, how)

        return tf.function(run, input_signature=arguments, autograph=False)

    key = f"search, {beam_size} {'best' if draw is None else 'drawn'}, end {end_id}"
    run = model.compiled_once(key, compiled)
    words, scores = run(
        tf.cast(source, tf.int32), tf.cast(limits, tf.int32), tf.cast(length_penalty, tf.float32), *drawn
    )
    return np.asarray(words), np.asarray(scores)


def likeliest_words(model, hidden, live, number):
    """The `number` likeliest words of the hypotheses that are `live`.

    The words are in the `number` blocks of words with the highest maxima, so few scores are ranked.
    """
    logits = tf.cast(model.scores(tf.boolean_mask(hidden, live)), tf.float32)  # [N, V]
    vocabulary_size = model.target_vocabulary_size
    blocks = -(-vocabulary_size // WORDS_PER_BLOCK)
    padding = blocks * WORDS_PER_BLOCK - vocabulary_size
    padded = tf.pad(logits, [[0, 0], [0, padding]], constant_values=logits.dtype.min) if padding else logits
    in_blocks = tf.reshape(padded, [-1, blocks, WORDS_PER_BLOCK])
    best_blocks = tf.math.top_k(tf.reduce_max(in_blocks, -1), min(number, blocks)).indices
    candidates = tf.gather(in_blocks, best_blocks, batch_dims=1)
    best, places = tf.math.top_k(tf.reshape(candidates, [-1, min(number, blocks) * WORDS_PER_BLOCK]), number)
    words = tf.gather(best_blocks, places // WORDS_PER_BLOCK, batch_dims=1) * WORDS_PER_BLOCK
    words += places % WORDS_PER_BLOCK
    first = tf.gather(tf.nn.softmax(logits), words[:, :1], batch_dims=1)
    best += tf.math.log(first) - best[:, :1]
    shape = tf.concat([tf.shape(live), [number]], 0)
    return tuple(tf.scatter_nd(tf.where(live), found, tf.cast(shape, tf.int64)) for found in (best, words))


def search_in_graph(model, source, limits, beam_size, length_penalty, end_id, draw=None):
    """`search` on tensors, to be traced."""
    with cast_weights(model):
        return _search(model, source, limits, beam_size, length_penalty, end_id, draw)


def cast_weights(model):
    """A scope in which the weights of a model are cast to its compute dtype once, instead of at every step.

    Not those of an output embedding that computes in another dtype.
    """
    scope, output = keras.StatelessScope(), model.output_embedding
    kept = {id(weight) for weight in output.weights} if getattr(output, "reverse_dtype", None) else ()
    for weight in model.weights:
        if id(weight) not in kept and keras.backend.is_float_dtype(weight.dtype):
            scope.add_update((weight, tf.cast(weight.value, model.compute_dtype)))
    return scope


def _search(model, source, limits, beam_size, length_penalty, end_id, draw):
    rows, steps = tf.shape(source)[0], tf.maximum(tf.reduce_max(limits), 1)
    beam = portable.first_beam(model.encode(source, False), limits, beam_size, steps, draw is not None)
    words = tf.fill([rows, beam_size, steps], PAD_ID)
    scores = tf.fill([rows, beam_size], portable.IMPOSSIBLE)
    places = tf.range(rows)
    structure = (beam,) if draw is None else (beam, draw)
    flat = tf.nest.flatten(structure)
    varying = [len(part.shape) > 0 for part in flat]

    def step(t, places, words, scores, *parts):
        beam, *draw = tf.nest.pack_sequence_as(structure, parts)
        beam = portable.advance(model, end_id, t, beam, draw[0] if draw else None)
        live = ~tf.reduce_all(beam.finished, axis=1)
        parts = tf.nest.flatten((beam, *draw))

        def drop():
            found = [tf.boolean_mask(part, ~live) for part in portable.ranked(beam, length_penalty)]
            done = tf.boolean_mask(places, ~live)[:, None]
            return (
                tf.boolean_mask(places, live),
                tf.tensor_scatter_nd_update(words, done, found[0]),
                tf.tensor_scatter_nd_update(scores, done, found[1]),
                *(tf.boolean_mask(p, live) if v else p for p, v in zip(parts, varying, strict=True)),
            )

        return t + 1, *tf.cond(tf.reduce_all(live), lambda: (places, words, scores, *parts), drop)

    loop = (tf.constant(0), places, words, scores, *flat)
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), *(tf.TensorShape(part.shape) for part in (words, scores)))
    shapes += tuple(tf.TensorShape([None, *part.shape[1:]]) if part.shape.rank else part.shape for part in flat)
    _, _, words, scores, *_ = tf.while_loop(
        lambda t, places, *_: tf.size(places) > 0, step, loop, shape_invariants=shapes, parallel_iterations=1
    )
    return words, scores
