"""Keras's Muon, whose iterations cost less on matrices that are far from square."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_tying")
class GramMuon(keras.optimizers.Muon):
    """Muon, with the Newton-Schulz iteration on the smaller Gram matrix.

    The iteration multiplies a matrix by polynomials of its Gram matrix, which commute: their product is formed first,
    at the Gram matrix's size, and the matrix itself is read twice instead of twice an iteration. Updates are the same
    up to rounding; arguments are those of `keras.optimizers.Muon`.

    Reference:
        Jordan et al., Muon: an optimizer for hidden layers in neural networks (2024).
    """

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
