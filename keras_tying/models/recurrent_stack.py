"""The layers between the input and the output embedding of a recurrent language model."""

from keras_tying.layers import LSTM, Dropout, RecurrentHighway
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
    return [Dropout(rate, noise_shape=noise_shape, dtype=dtype, name=f"dropout_{i}") for i, rate in enumerate(rates)]


def recurrent_layers(units, num_layers, recurrence_depth, dropout, initializer, bias_initializer, dtype):
    """LSTM or recurrent highway layers, `[B, T, H]` to `[B, T, H]` and states.

    Args:
        units: Integer `H`.
        num_layers: Integer, how many.
        recurrence_depth: Integer, micro-steps of recurrent highway layers; `None` makes LSTM layers.
        dropout: A rate, which does not concern them, or a `VariationalDropout`, which does.
        initializer: Makes an initializer of weights each time it is called.
        bias_initializer: Initializer of biases, or `None` for that of the weights.
        dtype: Their dtype policy.

    Raises:
        ValueError: If recurrent highway layers are to share masks as LSTM layers can.
    """

    def arguments(kind, i):
        return {
            "kernel_initializer": initializer(),
            "recurrent_initializer": initializer(),
            "bias_initializer": bias_initializer or initializer(),
            "return_sequences": True,
            "return_state": True,
            "dtype": dtype,
            "name": f"{kind}_{i}",
            **masks,
        }

    masks = {}
    if isinstance(dropout, VariationalDropout):
        masks = {"dropout": dropout.inputs, "recurrent_dropout": dropout.hidden}
        if dropout.shared and recurrence_depth:
            raise ValueError(f"Recurrent highway layers have no `shared` masks. Received: dropout={dropout}")
        if dropout.shared:
            masks |= {"shared_dropout_masks": True, "drop_outputs": True}
    if recurrence_depth is None:
        return [LSTM(units, unit_forget_bias=False, **arguments("lstm", i)) for i in range(num_layers)]
    return [RecurrentHighway(units, recurrence_depth, **arguments("highway", i)) for i in range(num_layers)]
