"""TensorFlow: a scan over time-major sequences, unrolled or as a loop.

Sequences of a static length up to `UNROLLED_STEPS` are unrolled: without a loop there is less overhead between
operations, and values for the backward pass need not be stacked. A sequence is then a list of `T` tensors `[B, ...]`,
else one tensor `[T, B, ...]`.
"""

import tensorflow as tf

UNROLLED_STEPS = 64


def is_unrolled(tensor):
    """Whether a scan over `tensor` `[T, B, ...]` is unrolled."""
    length = tensor.shape[0]
    return length is not None and length <= UNROLLED_STEPS


def as_sequence(tensor):
    """`tensor` `[T, B, ...]` as a sequence for `scan`."""
    return tf.unstack(tensor) if is_unrolled(tensor) else tensor


def as_tensor(sequence):
    """A sequence as one tensor `[T, B, ...]`."""
    return tf.stack(sequence) if isinstance(sequence, list) else sequence


def delayed(sequence, first, reverse=False):
    """The sequence delayed by one step: `first`, then all items but the last. With `reverse`, delayed from the end."""
    if reverse:
        return [*sequence[1:], first] if isinstance(sequence, list) else tf.concat([sequence[1:], first[None]], 0)
    if isinstance(sequence, list):
        return [first, *sequence[:-1]]
    return tf.concat([first[None], sequence[:-1]], 0)


def scan(step, states, sequences, outputs, reverse=False):
    """Applies `step` to each time step.

    Args:
        step: Takes states and the inputs of one time step, and returns new states and outputs, as tuples.
        states: Initial states, tensors `[B, ...]`.
        sequences: Results of `as_sequence` or of another `scan`, either all lists or all tensors.
        outputs: The dtype of each output of `step`.
        reverse: Whether the steps are processed in reverse order.

    Returns:
        The last states, and a sequence for each output, in the order of time.
    """
    run = _unrolled if isinstance(sequences[0], list) else _looped
    return run(step, tuple(states), sequences, outputs, reverse)


def _unrolled(step, states, sequences, outputs, reverse):
    length = len(sequences[0])
    written = [[None] * length for _ in outputs]
    for t in reversed(range(length)) if reverse else range(length):
        states, results = step(states, [sequence[t] for sequence in sequences])
        for sequence, result in zip(written, results, strict=True):
            sequence[t] = result
    return states, written


def _looped(step, states, sequences, outputs, reverse):
    length = tf.shape(sequences[0])[0]
    arrays = tuple(tf.TensorArray(dtype, length) for dtype in outputs)

    def body(i, states, arrays):
        t = length - 1 - i if reverse else i
        states, results = step(states, [sequence[t] for sequence in sequences])
        return i + 1, tuple(states), tuple(a.write(t, r) for a, r in zip(arrays, results, strict=True))

    _, states, arrays = tf.while_loop(lambda i, *_: i < length, body, (0, states, arrays), maximum_iterations=length)
    return states, [array.stack() for array in arrays]
