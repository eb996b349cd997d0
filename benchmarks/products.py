"""The matrix products of a training step of a language model, alone, one after another.

Their time is the part of a training step that only the library of matrix products can change.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.work import Size, Work, repeated

Product = tuple[int, int, int, bool, bool]
"""Rows, inner size and columns, and whether the left and the right factor lie in memory as their transpose."""


def products(size: Size) -> Iterator[Product]:
    """All products of a step: forward and backward pass of the LSTM layers and of the tied output layer."""
    units, gates, words = size.units, 4 * size.units, size.words
    for _ in range(size.layers):
        yield words, units, gates, False, False  # inputs to gates
        for _ in range(size.sequence_length):
            yield size.batch_size, units, gates, False, False
        for _ in range(size.sequence_length):
            yield size.batch_size, gates, units, False, True
        yield words, gates, units, False, True  # gradients: of the inputs, and of both kernels
        yield units, words, gates, True, False
        yield units, words, gates, True, False
    yield words, units, size.vocabulary, False, True  # logits, gradients of hidden states and of the embeddings
    yield words, size.vocabulary, units, False, False
    yield size.vocabulary, words, units, True, False


def _factors(size: Size, convert: Callable[[np.ndarray], Any]) -> Iterator[tuple[Any, Any, bool, bool]]:
    """Both factors of each product. Right factors of the same shape are one matrix, as the kernel of all time steps."""
    rng, kernels = np.random.default_rng(0), {}

    def matrix(rows: int, columns: int, transposed: bool):
        return convert(rng.standard_normal((columns, rows) if transposed else (rows, columns), np.float32))

    for rows, inner, columns, left, right in products(size):
        kernel = inner, columns, right
        if kernel not in kernels:
            kernels[kernel] = matrix(*kernel)
        yield matrix(rows, inner, left), kernels[kernel], left, right


def multiply_tensorflow(size: Size, *, dtype: str) -> Work:
    import tensorflow as tf

    factors = list(_factors(size, lambda array: tf.cast(array, dtype)))

    @tf.function
    def step():
        total = tf.zeros([], dtype)  # of one number of each product, so that none is left out
        for left, right, transpose_left, transpose_right in factors:
            with tf.control_dependencies([total]):  # one after another
                total += tf.matmul(left, right, transpose_left, transpose_right)[0, 0]
        return total

    return repeated(step)


def multiply_pytorch(size: Size, *, dtype: str) -> Work:
    import torch

    factors = [
        (left.T if transpose_left else left, right.T if transpose_right else right)
        for left, right, transpose_left, transpose_right in _factors(
            size, lambda array: torch.from_numpy(array).to(getattr(torch, dtype))
        )
    ]

    def step() -> None:
        for left, right in factors:
            torch.mm(left, right)

    return repeated(step)


CONTENDERS: dict[str, dict[str, Callable[[Size], Work]]] = {
    f"matrix products in {dtype}": {
        "keras-tying": partial(multiply_tensorflow, dtype=dtype),
        "PyTorch": partial(multiply_pytorch, dtype=dtype),
    }
    for dtype in ("float32", "bfloat16")
}
