"""Regularized LSTM language models of Merity et al. and of Melis et al."""

import math
from functools import partial

import keras

from keras_tying.checks import check_integer, check_rate
from keras_tying.layers import LSTM, Dropout, MogrifierLSTM, TiedEmbedding, WordDropout
from keras_tying.models import LanguageModel
from keras_tying.regularizers import ActivationRegularizer, TemporalActivationRegularizer
from keras_tying.zoo.initial_weights import uniform
from keras_tying.zoo.registry import register
from keras_tying.zoo.variational_dropout import ONE_MASK_PER_WINDOW


@register
def awd_lstm(
    tied=True,
    vocabulary_size=10_000,
    embedding_size=400,
    units=1150,
    num_layers=3,
    word_dropout=0.1,
    input_dropout=0.4,
    hidden_dropout=0.25,
    output_dropout=0.4,
    weight_drop=0.5,
    activation_scale=2.0,
    temporal_scale=1.0,
    **kwargs,
):
    """AWD-LSTM: three LSTM layers, the last as wide as the embedding, with weight drop and one mask per window.

    The word dropout is the paper's embedding dropout, with masks of their own for the rows of a batch.

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        vocabulary_size: Integer, word types.
        embedding_size: Integer, width of the embedding and of the last layer.
        units: Integer, width of the other layers.
        num_layers: Integer, LSTM layers.
        word_dropout: Rate of words, see `WordDropout`.
        input_dropout: Rate of embedded words, with one mask per window, as all rates below.
        hidden_dropout: Rate of the outputs of all layers but the last.
        output_dropout: Rate of the outputs of the last layer.
        weight_drop: Rate of elements of the recurrent matrices.
        activation_scale: Float, alpha of the `ActivationRegularizer` of the last outputs after dropout.
        temporal_scale: Float, beta of the `TemporalActivationRegularizer` of the last outputs before dropout.
        **kwargs: `name` and `dtype` of the model.

    Returns:
        A built `LanguageModel`: 24,210,800 parameters tied, 28,210,800 untied.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.awd_lstm(vocabulary_size=100, embedding_size=4, units=6)
    >>> [layer.units for layer in model.recurrent_layers], [layer.weight_drop for layer in model.recurrent_layers]
    ([6, 6, 4], [0.5, 0.5, 0.5])

    Reference:
        Merity, Keskar and Socher, Regularizing and Optimizing LSTM Language Models, 2018, section 5.
    """
    check_integer("num_layers", num_layers)
    check_integer("units", units)
    for name, rate in {"input_dropout": input_dropout, "hidden_dropout": hidden_dropout}.items():
        check_rate(name, rate)
    dtype = kwargs.pop("dtype", None)
    locked = partial(Dropout, noise_shape=ONE_MASK_PER_WINDOW, dtype=dtype)
    embedding = TiedEmbedding(
        vocabulary_size,
        embedding_size,
        tie_weights=tied,
        embeddings_initializer=uniform(0.1)(),
        dtype=dtype,
        name="embedding",
    )
    layers = [
        WordDropout(vocabulary_size, word_dropout, dtype=dtype, name="word_dropout"),
        locked(input_dropout, name="dropout_0"),
    ]
    for i in range(num_layers):
        width = units if i < num_layers - 1 else embedding_size
        initializer = uniform(1 / math.sqrt(width))
        layers += [locked(hidden_dropout, name=f"dropout_{i}")] if i else []
        layers.append(
            LSTM(
                width,
                unit_forget_bias=False,
                weight_drop=weight_drop,
                kernel_initializer=initializer(),
                recurrent_initializer=initializer(),
                bias_initializer=initializer(),
                return_sequences=True,
                return_state=True,
                dtype=dtype,
                name=f"recurrent_{i}",
            )
        )
    layers += _regularized_outputs(locked, num_layers, output_dropout, activation_scale, temporal_scale, dtype)
    return LanguageModel(embedding, layers, dtype=dtype, **kwargs)


def _regularized_outputs(dropout, number, rate, activation_scale, temporal_scale, dtype):
    """The dropout of the last outputs, with the penalties that are not 0."""
    layers = []
    if temporal_scale:
        temporal = TemporalActivationRegularizer(scale=temporal_scale)
        layers.append(keras.layers.Activation("linear", activity_regularizer=temporal, dtype=dtype, name="raw_outputs"))
    activation = ActivationRegularizer(scale=activation_scale) if activation_scale else None
    return [*layers, dropout(rate, activity_regularizer=activation, name=f"dropout_{number}")]


@register
def single_layer_lstm(
    tied=True,
    vocabulary_size=10_000,
    embedding_size=272,
    units=1186,
    input_dropout=0.51551,
    state_dropout=0.18417,
    output_dropout=0.33801,
    **kwargs,
):
    """One wide LSTM layer between narrow embeddings, for ten million parameters.

    Input gates are capped, forget gates start with a bias of 1, and a linear map without bias leads from the LSTM
    down to the embedding. The defaults are those of the authors' code for 10M parameters on Penn Treebank.

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        vocabulary_size: Integer, word types.
        embedding_size: Integer, width of the embedding.
        units: Integer, width of the LSTM layer.
        input_dropout: Rate of embedded words, with a new mask at every step.
        state_dropout: Rate of hidden states in the recurrence, with one mask per window.
        output_dropout: Rate of the outputs of the LSTM layer and of the linear map, with a new mask at every step.
        **kwargs: Further arguments of `mogrifier_lstm`.

    Returns:
        A built `LanguageModel`: 9,974,088 parameters tied, 12,694,088 untied.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.single_layer_lstm().count_params()
    9974088

    Reference:
        Melis, Dyer and Blunsom, On the State of the Art of Evaluation in Neural Language Models, 2018, table 1.
    """
    return mogrifier_lstm(
        tied,
        vocabulary_size,
        embedding_size,
        units,
        **{"num_layers": 1, "rounds": 0, **kwargs},
        input_dropout=input_dropout,
        state_dropout=state_dropout,
        output_dropout=output_dropout,
    )


@register
def mogrifier_lstm(
    tied=True,
    vocabulary_size=10_000,
    embedding_size=912,
    units=912,
    num_layers=2,
    rounds=5,
    rank=84,
    input_dropout=0.72908,
    layer_dropout=0.29098,
    state_dropout=0.38729,
    output_dropout=0.71567,
    projection_dropout=None,
    word_dropout=0.0,
    weight_drop=0.0,
    one_mask_per_window=False,
    activation_scale=0.0,
    temporal_scale=0.0,
    state_reset_rate=0.01,
    **kwargs,
):
    """Mogrifier LSTM: LSTM layers with capped input gates, in which input and state gate each other before each step.

    Rates and rank are those of the authors' code for 24M parameters on Penn Treebank. In that code the outputs of all
    layers are added up before the output embedding; here only the last layer's are used.

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        vocabulary_size: Integer, word types.
        embedding_size: Integer, width of the embedding.
        units: Integer, width of the LSTM layers. If it is not the width of the embedding, a linear map without bias
            leads from the last layer to the embedding.
        num_layers: Integer, LSTM layers.
        rounds: Integer, rounds of gating, see `MogrifierLSTM`. With 0 the layers are of the class `LSTM`.
        rank: Optional integer, the rank of the matrices of the rounds. `None`: full matrices.
        input_dropout: Rate of embedded words.
        layer_dropout: Rate of the outputs of all layers but the last.
        state_dropout: Rate of hidden states in the recurrence, with one mask per window.
        output_dropout: Rate of the outputs of the last layer.
        projection_dropout: Optional rate of the outputs of the linear map. Defaults to `output_dropout`.
        word_dropout: Rate of words, see `WordDropout`.
        weight_drop: Rate of elements of the recurrent matrices, see `LSTM`.
        one_mask_per_window: Boolean, whether the masks of inputs, layers and outputs are the same for all steps of a
            window. Defaults to `False`: a new mask at every step.
        activation_scale: Float, see `awd_lstm`.
        temporal_scale: Float, see `awd_lstm`.
        state_reset_rate: Probability that a row starts a window of training from a zero state.
        **kwargs: `name` and `dtype` of the model.

    Returns:
        A built `LanguageModel`: 23,986,480 parameters tied, 33,106,480 untied.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.mogrifier_lstm(vocabulary_size=100, embedding_size=4, units=6, rounds=2, rank=3)
    >>> [layer.name for layer in model.hidden_layers]
    ['dropout_0', 'recurrent_0', 'dropout_1', 'recurrent_1', 'dropout_2', 'projection', 'projection_dropout']

    Reference:
        Melis, Kocisky and Blunsom, Mogrifier LSTM, 2020, section 4.
    """
    check_integer("num_layers", num_layers)
    rates = {"input_dropout": input_dropout, "layer_dropout": layer_dropout, "state_dropout": state_dropout}
    for name, rate in (rates | {"output_dropout": output_dropout}).items():
        check_rate(name, rate)
    dtype = kwargs.pop("dtype", None)
    dropout = partial(Dropout, noise_shape=ONE_MASK_PER_WINDOW if one_mask_per_window else None, dtype=dtype)
    kind = partial(MogrifierLSTM, rounds=rounds, rank=rank) if rounds else partial(LSTM, shared_dropout_masks=True)
    embedding = TiedEmbedding(
        vocabulary_size,
        embedding_size,
        tie_weights=tied,
        embeddings_initializer=_scaled("fan_out"),
        reverse_embeddings_initializer=None if tied else _scaled("fan_in"),  # [H, V]: the same variance
        dtype=dtype,
        name="embedding",
    )
    layers = [WordDropout(vocabulary_size, word_dropout, dtype=dtype, name="word_dropout")] if word_dropout else []
    for i in range(num_layers):
        layers += [
            dropout(layer_dropout if i else input_dropout, name=f"dropout_{i}"),
            kind(
                units,
                cap_input_gate=True,
                recurrent_dropout=state_dropout,
                weight_drop=weight_drop,
                kernel_initializer=_scaled("fan_in"),
                recurrent_initializer=_scaled("fan_in"),
                return_sequences=True,
                return_state=True,
                dtype=dtype,
                name=f"recurrent_{i}",
            ),
        ]
    layers += _regularized_outputs(dropout, num_layers, output_dropout, activation_scale, temporal_scale, dtype)
    if units != embedding_size:
        layers += [
            keras.layers.Dense(
                embedding_size, use_bias=False, kernel_initializer="orthogonal", dtype=dtype, name="projection"
            ),
            dropout(output_dropout if projection_dropout is None else projection_dropout, name="projection_dropout"),
        ]
    return LanguageModel(embedding, layers, state_reset_rate=state_reset_rate, dtype=dtype, **kwargs)


def _scaled(mode):
    """A truncated normal distribution with variance 1 / fan."""
    return keras.initializers.VarianceScaling(1.0, mode, "truncated_normal")
