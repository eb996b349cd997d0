"""Muon with a learning rate factor per variable, and faster on matrices that are far from square."""

import re
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops


class GramMuon(keras.optimizers.Muon):
    """Muon with the Newton-Schulz iteration on the smaller Gram matrix.

    The iteration multiplies a matrix by polynomials of its Gram matrix. Polynomials of one matrix commute, so their
    product is formed first, at the size of the Gram matrix, and multiplied by the matrix once. Updates equal those of
    `keras.optimizers.Muon` up to rounding.

    Args:
        learning_rate: Learning rate of a variable with factor 1.
        rate_factors: Factors of the learning rate by regular expression. The first expression found in a variable's
            path decides; without any, the factor is 1.
        **options: Those of `keras.optimizers.Muon`.

    Reference:
        Jordan et al., Muon: an optimizer for hidden layers in neural networks (2024).
    """

    def __init__(self, learning_rate=0.001, rate_factors: Mapping[str, float] | None = None, **options: Any):
        super().__init__(learning_rate, **options)
        self.rate_factors = dict(rate_factors or {})

    def build(self, variables):
        super().build(variables)
        self._factors = [self._factor(variable.path) for variable in variables]

    def _factor(self, path: str) -> float:
        return next((factor for pattern, factor in self.rate_factors.items() if re.search(pattern, path)), 1.0)

    def update_step(self, gradient, variable, learning_rate):
        factor = self._factors[self._get_variable_index(variable)]
        super().update_step(gradient, variable, learning_rate * factor)

    def zeropower_via_newtonschulz5(self, x, steps):
        tall = x.shape[0] > x.shape[1]
        x = x / (ops.norm(x) + 1e-7)
        gram = ops.matmul(ops.transpose(x), x) if tall else ops.matmul(x, ops.transpose(x))
        identity = ops.eye(gram.shape[0], dtype=gram.dtype)
        product = identity
        for _ in range(steps):
            polynomial = self.muon_a * identity + self.muon_b * gram + self.muon_c * ops.matmul(gram, gram)
            product = ops.matmul(product, polynomial)
            gram = ops.matmul(ops.matmul(gram, polynomial), polynomial)
        return ops.matmul(x, product) if tall else ops.matmul(product, x)
