import json

import keras
import numpy as np

from keras_tying.layers import WordDropout

ON_REPLICAS = """
import json, sys
import numpy as np
from keras_tying import layers, training

distribution = training.open_distribution("mirrored", replicas=2)
inputs, masks = np.ones((8, 6), "float32"), []
with distribution.scope():
    made = [
        layers.Dropout(0.5, seed=1),
        layers.LSTM(6, dropout=0.5, seed=1),
        layers.RecurrentHighway(6, depth=1, dropout=0.5, seed=1),
        layers.WordDropout(9, 0.5, seed=1),
    ]
    made[1].build((None, 1, 6)), made[2].build((None, 1, 6))
ids = np.arange(6)[None].repeat(8, 0)
calls = [
    lambda: made[0](inputs, training=True),
    lambda: made[1](inputs[:, None], training=True),
    lambda: made[2](inputs[:, None], training=True),
    lambda: made[3](inputs[..., None], ids, training=True),
]
for call in calls:
    found = distribution.strategy.experimental_local_results(distribution.strategy.run(call))
    masks.append(bool(np.array_equal(*map(np.array, found))))
print(json.dumps(masks))
"""


def test_replicas_have_different_dropout_masks(run_python):
    equal = json.loads(run_python("-c", ON_REPLICAS).stdout.splitlines()[-1])
    np.testing.assert_array_equal(equal, [False] * 4)


def test_word_dropout_does_not_round_ids():
    def dropped(ids):
        dropout = WordDropout(1_000, 0.5, seed=1, dtype="mixed_bfloat16")
        return np.array(keras.ops.cast(dropout(np.ones((1, 999, 2)), ids, training=True), "float32"))

    ids = np.arange(999)[None]
    np.testing.assert_array_equal(dropped(ids.astype("float32")), dropped(ids.astype("int32")))
