"""Cross-entropy of words under an adaptive softmax, from hidden states, without keeping logits.

The head is a softmax over the most frequent words and a cluster for each band of rarer words. The words of a band have
a softmax of their own, and narrower vectors. With the band `k` of a target `o`::

    loss = -log head[o]                                for o among the most frequent words
    loss = -log head[cluster k] - log band_k[o]        for o in band k

Both terms are cross-entropies of a matrix of output embeddings, see `fused_cross_entropy`. The second one is computed
for the tokens whose target is in the band only: TensorFlow and PyTorch gather them, JAX sorts them to the front and
skips chunks without any.

Reference:
    Grave, Joulin, Cissé, Grangier and Jégou, Efficient softmax approximation for GPUs, section 4.
"""

from dataclasses import dataclass, field
from typing import Any

from keras import ops

from keras_tying.backend import dispatch
from keras_tying.losses.fused_cross_entropy import OutputProjection, token_losses, total_loss


@dataclass(frozen=True)
class Tail:
    """The parameters that score the words of a band.

    Attributes:
        projection: `[D, H]`, from hidden states to the width of the band.
        output: Vectors `[W, D]` and bias `[W]` of the words.
    """

    projection: Any = field(repr=False)
    output: OutputProjection


@dataclass(frozen=True)
class AdaptiveProjection:
    """The parameters of an adaptive softmax, in the place of an `OutputProjection`.

    Attributes:
        head: Vectors and bias of the most frequent words, and after them of the cluster of each tail.
        tails: A `Tail` for each further band, in the order of their words.
        dtype: Type in which hidden states and embeddings are multiplied. `None` is that of the hidden states.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.recurrent_language_model(100, units=16, adaptive_cutoffs=(20, 50))
    >>> output = model.output_projection
    >>> tuple(output.head.embeddings.shape), [tuple(tail.output.embeddings.shape) for tail in output.tails]
    ((22, 16), [(30, 4), (50, 1)])
    """

    head: OutputProjection
    tails: tuple[Tail, ...]
    dtype: str | None = None

    def total_loss(self, hidden, targets, weights):
        """As `OutputProjection.total_loss`."""
        total, nll = total_loss(hidden, self._head_targets(targets), weights, self.head)
        for inside, places, tail in self._tail_targets(targets):
            of_tail, more = tail_total_loss(inside, _narrow(hidden, tail), places, weights, tail.output)
            total, nll = total + of_tail, nll + more
        return total, nll

    def token_losses(self, hidden, targets):
        """As `OutputProjection.token_losses`."""
        objective, nll = token_losses(hidden, self._head_targets(targets), self.head)
        for inside, places, tail in self._tail_targets(targets):
            more = tail_token_losses(inside, _narrow(hidden, tail), places, tail.output)
            objective, nll = objective + more, nll + more
        return objective, nll

    def _edges(self):
        """The first word of each tail, and the vocabulary size."""
        edges = [self.head.embeddings.shape[0] - len(self.tails)]
        for tail in self.tails:
            edges.append(edges[-1] + tail.output.embeddings.shape[0])
        return edges

    def _head_targets(self, targets):
        """Places `[N]` of the targets in the head: their ids or those of their clusters; -1 outside the vocabulary."""
        *starts, size = self._edges()
        clusters = sum(ops.cast(targets >= start, targets.dtype) for start in starts[1:])
        places = ops.where(targets < starts[0], targets, starts[0] + clusters)
        return ops.where(targets < size, places, -1)

    def _tail_targets(self, targets):
        """For each tail: whether the targets `[N]` are in it, their places in it, and the tail."""
        edges = self._edges()
        for start, stop, tail in zip(edges, edges[1:], self.tails, strict=False):
            inside = ops.logical_and(targets >= start, targets < stop)
            yield inside, targets - start, tail


def _narrow(hidden, tail):
    """Hidden states `[N, D]` of the width of a tail."""
    return ops.matmul(hidden, ops.transpose(ops.cast(tail.projection, hidden.dtype)))


@dispatch
def tail_total_loss(inside, hidden, targets, weights, output):
    """`total_loss` of some of the tokens.

    Args:
        inside: Booleans `[N]`: which tokens count.
        hidden: Hidden states `[N, H]`.
        targets: Word ids `[N]`, any for tokens that do not count.
        weights: Weight of each token `[N]`, without gradient.
        output: An `OutputProjection`.

    Returns:
        The scalar `sum(weights * objective)` of the tokens that count, and negative log-likelihoods `[N]` without
        gradient, 0 for the others.
    """
    total, nll = total_loss(hidden, ops.where(inside, targets, 0), ops.where(inside, weights, 0), output)
    return total, ops.where(inside, nll, 0)


@dispatch
def tail_token_losses(inside, hidden, targets, output):
    """Negative log-likelihoods `[N]` of some of the tokens, without a gradient; 0 for the others.

    Arguments are those of `tail_total_loss`.
    """
    _, nll = token_losses(hidden, ops.where(inside, targets, 0), output)
    return ops.where(inside, nll, 0)
