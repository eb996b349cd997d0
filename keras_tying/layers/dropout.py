"""Dropout with a different mask on each replica, drawn in float32."""

import keras
from keras import ops

from keras_tying.backend.keras_internals.layers import replace_seed_generator
from keras_tying.backend.replicas import ReplicaSeedGenerator


def dropout(inputs, rate, noise_shape=None, seed=None):
    """`keras.random.dropout` with masks drawn in at least float32.

    Keras on TensorFlow draws them in the type of the inputs, and in bfloat16 all numbers that it draws are multiples of
    1 / 128: at a rate of 0.73 it drops 0.735 and lowers the mean by almost 2%.
    """
    wide = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
    return ops.cast(keras.random.dropout(wide, rate, noise_shape, seed), inputs.dtype)


@keras.saving.register_keras_serializable("keras_tying")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` with a different mask on each replica, drawn in at least float32.

    Under a `tf.distribute.Strategy` the layer of Keras draws the same mask on every replica, and in bfloat16 on
    TensorFlow it drops another fraction than `rate` and changes the mean. In float32 without a strategy both layers
    draw the same masks.

    Args:
        rate: Float in [0, 1], the fraction of units to drop.
        noise_shape: Optional shape of the mask, 1 or `None` on each axis; 1 shares the mask along the axis.
        seed: Optional integer.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Floats of any shape.
        training: Boolean, whether units are dropped.

    Output shape:
        That of the inputs.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> layer = kt.layers.Dropout(0.5, noise_shape=(None, 1, None), seed=1)
    >>> dropped = np.array(layer(np.ones((2, 3, 4), "float32"), training=True))
    >>> bool(np.all(dropped[:, 0] == dropped[:, 2]))  # one mask for all steps
    True

    Reference:
        Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting, 2014.
    """

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(rate, noise_shape, seed, **kwargs)
        if rate > 0:
            replace_seed_generator(self, ReplicaSeedGenerator)

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return dropout(inputs, self.rate, self.noise_shape, self.seed_generator)
