import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_tying.layers import LSTM, Dropout, RecurrentHighway, WordDropout

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


@pytest.mark.parametrize("rate", [0.4, 0.729])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_fraction_that_is_dropped_is_the_rate_and_the_mean_stays(policy, rate):
    """The numbers of bfloat16 in [0, 1) that TensorFlow draws are multiples of 1 / 128."""
    ones = np.ones((1000, 400), "float32")
    lstm = LSTM(400, dropout=rate, recurrent_dropout=rate, weight_drop=rate, seed=2, dtype=policy)
    lstm.build((None, 1, 400))
    highway = RecurrentHighway(4, depth=1, seed=3, dtype=policy)
    like = ops.cast(ones, lstm.compute_dtype)
    drawn = lstm._masks(like[:, None], like)
    masks = [*drawn.inputs, *drawn.hidden, drawn.kernel, highway._mask(like, rate)]
    masks += [Dropout(rate, seed=1, dtype=policy)(ones, training=True)]
    for mask in masks:
        assert keras.backend.standardize_dtype(mask.dtype) == lstm.compute_dtype
        mask = ops.convert_to_numpy(ops.cast(mask, "float32"))
        assert abs(np.mean(mask == 0) - rate) < 0.003  # four standard deviations
        assert abs(np.mean(mask) - 1) < 0.003 / (1 - rate) + 2**-9  # and the rounding of 1 / (1 - rate)


def test_word_dropout_does_not_round_ids():
    def dropped(ids):
        dropout = WordDropout(1_000, 0.5, seed=1, dtype="mixed_bfloat16")
        return np.array(keras.ops.cast(dropout(np.ones((1, 999, 2)), ids, training=True), "float32"))

    ids = np.arange(999)[None]
    np.testing.assert_array_equal(dropped(ids.astype("float32")), dropped(ids.astype("int32")))
