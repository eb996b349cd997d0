"""Embedding lookup whose gradient is one dense matrix.

A tied matrix receives a dense gradient from its output role and sparse rows from its input role.
Frameworks that keep the rows sparse pay for it later: duplicates are sorted out, the dense gradient
is turned into rows too, and the global norm sees occurrences instead of words. Summing the rows once,
here, costs one scatter.
"""

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from keras_tying.layers.lookup_tensorflow import dense_gradient_lookup
else:

    def dense_gradient_lookup(matrix, ids):
        """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`."""
        return ops.take(matrix, ids, axis=0)
