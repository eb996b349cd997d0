"""Embedding lookup whose gradient is one dense matrix.

A tied matrix has a dense gradient from its output role and a sparse one from its input role. Frameworks that keep
the sparse gradient pay later: they sort out repeated ids, turn the dense gradient into rows as well, and measure a
global norm over occurrences instead of words. Here the rows are added up at once, which costs one scatter.

A matrix without another role may keep sparse gradients where several replicas exchange them: rows are sent as long as
they are fewer numbers than the matrix, see docs/distributed.md.
"""

from keras import ops

from keras_tying.backend import dispatch


@dispatch
def lookup(matrix, ids, alone):
    """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`.

    Args:
        matrix: The embeddings `[V, H]`.
        ids: Integer ids `[...]`.
        alone: Whether the matrix has no other role, so that its gradient may be sparse.
    """
    return ops.take(matrix, ids, axis=0)
