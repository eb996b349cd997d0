"""The layers between the input and the output embedding of a recurrent language model."""

import keras

from keras_tying.layers import LSTM
from keras_tying.models.variational_dropout import VariationalDropout

ONE_MASK_A_WINDOW = (None, 1, None)


def dropout_layers(dropout, num_layers, dtype):
    """What stands before each recurrent layer and behind the last: a list of `num_layers + 1` layers.

    Args:
        dropout: A rate, of masks drawn at every step, or a `VariationalDropout`.
        num_layers: Integer, recurrent layers.
        dtype: Their dtype policy.
    """
    rates, noise_shape = [dropout] * (num_layers + 1), None
    if isinstance(dropout, VariationalDropout):  # the recurrent layers drop their own inputs
        rates, noise_shape = [0.0] * num_layers + [dropout.outputs], ONE_MASK_A_WINDOW
    return [
        keras.layers.Dropout(rate, noise_shape=noise_shape, dtype=dtype, name=f"dropout_{i}")
        for i, rate in enumerate(rates)
    ]


def recurrent_layers(units, num_layers, dropout, initializer, bias_initializer, dtype):
    """LSTM layers `[B, T, H]` to `[B, T, H]` and states.

    Args:
        units: Integer `H`.
        num_layers: Integer, how many.
        dropout: A rate, which does not concern them, or a `VariationalDropout`, which does.
        initializer: Makes an initializer of weights each time it is called.
        bias_initializer: Initializer of biases, or `None` for that of the weights.
        dtype: Their dtype policy.
    """
    return [
        LSTM(
            units,
            kernel_initializer=initializer(),
            recurrent_initializer=initializer(),
            bias_initializer=bias_initializer or initializer(),
            unit_forget_bias=False,
            return_sequences=True,
            return_state=True,
            dtype=dtype,
            name=f"lstm_{i}",
            **_dropout_arguments(dropout),
        )
        for i in range(num_layers)
    ]


def _dropout_arguments(dropout):
    if not isinstance(dropout, VariationalDropout):
        return {}
    arguments = {"dropout": dropout.inputs, "recurrent_dropout": dropout.hidden}
    return {**arguments, "shared_dropout_masks": True, "drop_outputs": True} if dropout.shared else arguments
