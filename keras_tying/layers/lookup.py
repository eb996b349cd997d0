"""Embedding lookup with a dense gradient.

A tied matrix has a dense gradient from its output role and a sparse one from its input role. A sparse gradient costs
time later: repeated ids must be merged, the dense gradient is converted to rows as well, and a global norm is taken
over occurrences instead of words. Here the rows are summed in one scatter.

With several replicas, a matrix without another role keeps its sparse gradient if the rows of all replicas are fewer
numbers than twice the matrix, see docs/distributed.md.
"""

from keras import ops

from keras_tying.backend import dispatch


def embedding_matrix(layer):
    """The matrix `[V, H]` with which an embedding layer embeds words: its variable if it has such a one of floats."""
    if layer.quantization_mode is None and hasattr(layer, "embeddings"):
        return layer.embeddings
    return layer(ops.arange(layer.input_dim, dtype="int32"))


@dispatch
def lookup(matrix, ids, alone):
    """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`.

    Args:
        matrix: The embeddings `[V, H]`.
        ids: Integer ids `[...]`.
        alone: Whether the matrix has no other role, so that its gradient may be sparse.
    """
    return ops.take(matrix, ids, axis=0)
