"""Embedding lookup whose gradient is one dense matrix.

A tied matrix receives a dense gradient from its output role and sparse rows from its input role.
Frameworks that keep the rows sparse pay for it later: duplicates are sorted out, the dense gradient
is turned into rows too, and the global norm sees occurrences instead of words. Summing the rows once,
here, costs one scatter. Where replicas have to tell each other the gradient of a matrix that has no
other role, rows are what they tell, as long as that is less: see docs/distributed.md.
"""

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from keras_tying.layers.lookup_tensorflow import lookup
else:

    def lookup(matrix, ids, alone):
        """Rows of `matrix` `[V, H]` at `ids` of any shape: `[..., H]`; `alone` if it has no other role."""
        return ops.take(matrix, ids, axis=0)
