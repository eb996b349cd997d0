"""Cross-entropy of words under a mixture of softmaxes, from hidden states, without keeping logits.

A token has `K` states `h_k` and a weight `pi_k` for each. With the output embeddings `V` and bias `b` of all softmaxes::

    p(o) = sum_k pi_k softmax(h_k V^T + b)[o]

The gradient of `-log p(o)` is that of the cross-entropies of the softmaxes, each times its share in `p(o)`. The shares
are computed first, without a gradient, so that no logits are kept: four products with the output embeddings for each
softmax, where a single softmax needs three.

Reference:
    Yang, Dai, Salakhutdinov and Cohen, Breaking the Softmax Bottleneck: A High-Rank RNN Language Model, section 2.4.
"""

from dataclasses import dataclass

from keras import ops

from keras_tying.losses.fused_cross_entropy import OutputProjection


@dataclass(frozen=True)
class MixtureProjection:
    """The parameters of a mixture of softmaxes, in the place of an `OutputProjection`.

    Attributes:
        output: Output embeddings `[V, H]` and bias of all softmaxes.
        softmaxes: Integer `K`.

    Example:

    >>> import keras_tying as kt
    >>> mixture = kt.layers.SoftmaxMixture(8, softmaxes=3)
    >>> model = kt.models.LanguageModel(kt.layers.TiedEmbedding(100, 8), [mixture])
    >>> model.output_projection.softmaxes, tuple(model.output_projection.output.embeddings.shape)
    (3, (100, 8))
    """

    output: OutputProjection
    softmaxes: int

    @property
    def dtype(self):
        """Type in which states and embeddings are multiplied."""
        return self.output.dtype

    def total_loss(self, hidden, targets, weights):
        """As `OutputProjection.total_loss`, from packed states `[N, K * (H + 1)]`."""
        states, log_weights = unpacked(hidden, self.softmaxes)
        repeated = ops.repeat(targets, self.softmaxes)
        joint = log_weights - self._by_softmax(self.output.token_losses(ops.stop_gradient(states), repeated)[1])
        nll = ops.stop_gradient(-ops.logsumexp(joint, axis=-1))
        shares = ops.stop_gradient(ops.softmax(joint, axis=-1)) * weights[:, None]
        of_softmaxes, _ = self.output.total_loss(states, repeated, ops.reshape(shares, (-1,)))
        slope = of_softmaxes - ops.sum(shares * log_weights)
        return slope + ops.stop_gradient(ops.sum(nll * weights) - slope), nll

    def token_losses(self, hidden, targets):
        """As `OutputProjection.token_losses`, from packed states `[N, K * (H + 1)]`."""
        states, log_weights = unpacked(hidden, self.softmaxes)
        _, nll = self.output.token_losses(states, ops.repeat(targets, self.softmaxes))
        nll = -ops.logsumexp(log_weights - self._by_softmax(nll), axis=-1)
        return nll, nll

    def _by_softmax(self, losses):
        return ops.reshape(losses, (-1, self.softmaxes))


def unpacked(hidden, softmaxes):
    """States `[N * K, H]` and log-weights float32 `[N, K]` from the packed states `[N, K * (H + 1)]` of a token."""
    packed = ops.reshape(hidden, (-1, softmaxes, hidden.shape[-1] // softmaxes))
    states = ops.reshape(packed[..., :-1], (-1, packed.shape[-1] - 1))
    return states, ops.log_softmax(ops.cast(packed[..., -1], "float32"), axis=-1)
