"""Builder of recurrent language models from hyper-parameters."""

import itertools

import keras

from keras_tying.checks import check_integer, check_needed
from keras_tying.layers import LSTM, AdaptiveEmbedding, Dropout, TiedEmbedding, WordDropout
from keras_tying.layers.initial_weights import another
from keras_tying.models import LanguageModel
from keras_tying.zoo.initial_weights import uniform
from keras_tying.zoo.variational_dropout import ONE_MASK_PER_WINDOW, VariationalDropout, as_dropout

SEEDS_OF_A_LAYER = 1000
"""Distance of the seeds of two layers' initializers. A layer adds less to them for its own variables."""


def lstm(units, unit_forget_bias=False, **arguments):
    """An LSTM layer. Its forget gates start with the bias of the other gates, or with bias 1 if `unit_forget_bias`."""
    return LSTM(units, unit_forget_bias=unit_forget_bias, **arguments)


def recurrent_language_model(
    vocabulary_size,
    units,
    num_layers=2,
    recurrent_layer=lstm,
    tied=True,
    dropout=0.0,
    projection=False,
    projection_bias=False,
    projection_regularizer=None,
    initializer_range=0.1,
    kernel_initializer=None,
    recurrent_initializer=None,
    recurrent_bias_initializer=None,
    unit_forget_bias=False,
    output_bias=True,
    output_bias_initializer=None,
    logit_soft_cap=None,
    embeddings_constraint=None,
    adaptive_cutoffs=None,
    adaptive_factor=4,
    **kwargs,
):
    """Language model of embedding, recurrent layers with dropout, optional projection and output embedding.

    Args:
        vocabulary_size: Integer `V`.
        units: Integer `H`, the size of embeddings and recurrent layers.
        num_layers: Integer, recurrent layers. Defaults to 2.
        recurrent_layer: Function that makes a recurrent layer from the arguments `units`, `name`, `dtype`,
            `kernel_initializer`, `recurrent_initializer`, `bias_initializer`, `return_sequences` and `return_state`;
            with variational dropout also `dropout` and `recurrent_dropout`, and with shared masks also
            `shared_dropout_masks` and `drop_outputs`; if set, `unit_forget_bias`. Default: an LSTM layer.
        tied: Boolean, whether input and output embeddings are one variable. Defaults to `True`.
        dropout: Float in [0, 1), rate for the input of each recurrent layer and the output of the last, with a new
            mask at every step and none in the recurrence; or a `VariationalDropout` or its arguments, with one mask
            per window. Defaults to 0.
        projection: Boolean, whether there is a `Dense` layer `[H, H]` without activation before the output embedding.
            Defaults to `False`.
        projection_bias: Boolean, whether the projection has a bias. Defaults to `False`.
        projection_regularizer: Regularizer of the projection, for example `ProjectionRegularizer`.
        initializer_range: Every weight and bias is drawn from uniform(-range, range), unless it has an initializer of
            its own below. Defaults to 0.1.
        kernel_initializer: Name or configuration of a Keras initializer, for the kernels of the recurrent layers (one
            matrix for all gates), the projection and, untied without `adaptive_cutoffs`, the output embedding. Default:
            as all weights.
        recurrent_initializer: The same for the recurrent kernels, for example `"orthogonal"`.
        recurrent_bias_initializer: The same for the recurrent layers' biases.
        unit_forget_bias: Boolean, whether the biases of the forget gates of LSTM layers start at 1. Defaults to
            `False`.
        output_bias: Boolean, whether the output embedding has a bias. Defaults to `True`.
        output_bias_initializer: Initializer of that bias, if there is one. Default: as all weights.
        logit_soft_cap: Optional float, soft cap of the logits.
        embeddings_constraint: Optional constraint of the (input) embedding, for example `UnitNorm(axis=1)`.
        adaptive_cutoffs: Optional integers, for large vocabularies: the embedding is an `AdaptiveEmbedding` with these
            cutoffs, for which the words must be in order of decreasing frequency.
        adaptive_factor: Integer, by which the vectors of each band of words are narrower than those of the band
            before. Defaults to 4.
        **kwargs: `name` and `dtype` of the model.

    Returns:
        A built `LanguageModel`.

    Raises:
        ValueError: If an argument is outside its range, or arguments contradict each other.

    Example:

    >>> import keras_tying as kt
    >>> dropout = kt.zoo.VariationalDropout(words=0.3, inputs=0.5, hidden=0.3, outputs=0.5)
    >>> model = kt.zoo.recurrent_language_model(10_000, 200, dropout=dropout)
    >>> [layer.name for layer in model.hidden_layers]
    ['word_dropout', 'recurrent_0', 'recurrent_1', 'dropout_2']
    >>> model.count_params()
    2651600
    """
    if not projection:
        check_needed("projection=True", projection_bias=projection_bias, projection_regularizer=projection_regularizer)
    if adaptive_cutoffs is None:
        check_needed("adaptive_cutoffs", adaptive_factor=None if adaptive_factor == 4 else adaptive_factor)
    if adaptive_cutoffs is not None and (logit_soft_cap, embeddings_constraint) != (None, None):
        raise ValueError(
            "`adaptive_cutoffs` excludes `logit_soft_cap` and `embeddings_constraint`. Received: "
            f"adaptive_cutoffs={adaptive_cutoffs}, logit_soft_cap={logit_soft_cap}, "
            f"embeddings_constraint={embeddings_constraint!r}"
        )
    for name, value in {"vocabulary_size": vocabulary_size, "units": units, "num_layers": num_layers}.items():
        check_integer(name, value)
    dropout, initializer = as_dropout(dropout), uniform(initializer_range)
    dtype = keras.dtype_policies.get(kwargs.pop("dtype", None))

    place = itertools.count(SEEDS_OF_A_LAYER, SEEDS_OF_A_LAYER)

    def chosen(own):
        if isinstance(own, keras.initializers.Initializer) or (isinstance(own, dict) and _has_seed(own)):
            return another(keras.initializers.get(own), next(place))
        return keras.initializers.get(own) or initializer()

    settings = {
        "tie_weights": tied,
        "use_bias": output_bias,
        "embeddings_initializer": initializer(),
        "bias_initializer": chosen(output_bias_initializer),
        "dtype": dtype,
        "name": "embedding",
    }
    embedding: TiedEmbedding | AdaptiveEmbedding
    if adaptive_cutoffs is None:
        cap, constraint = logit_soft_cap, embeddings_constraint
        embedding = TiedEmbedding(
            vocabulary_size,
            units,
            logit_soft_cap=cap,
            embeddings_constraint=constraint,
            reverse_embeddings_initializer=None if tied else kernel_initializer,
            **settings,
        )
    else:
        embedding = AdaptiveEmbedding(
            vocabulary_size, units, cutoffs=adaptive_cutoffs, factor=adaptive_factor, **settings
        )
    # Layers draw their seeds when they are created, so the order below determines the initial weights.
    hidden_layers = []
    if isinstance(dropout, VariationalDropout) and dropout.words:
        hidden_layers.append(WordDropout(vocabulary_size, dropout.words, dtype=dtype, name="word_dropout"))
    dropouts = _dropout_layers(dropout, num_layers, dtype)
    for i in range(num_layers):
        layer = recurrent_layer(
            units,
            kernel_initializer=chosen(kernel_initializer),
            recurrent_initializer=chosen(recurrent_initializer),
            bias_initializer=chosen(recurrent_bias_initializer),
            return_sequences=True,
            return_state=True,
            dtype=dtype,
            name=f"recurrent_{i}",
            **_recurrent_dropout(dropout),
            **({"unit_forget_bias": True} if unit_forget_bias else {}),  # recurrent highway layers have no such gate
        )
        hidden_layers += [*dropouts[i], layer]
    hidden_layers += dropouts[-1]
    if projection:
        hidden_layers.append(
            keras.layers.Dense(
                units,
                use_bias=projection_bias,
                kernel_initializer=chosen(kernel_initializer),
                bias_initializer=initializer(),
                kernel_regularizer=projection_regularizer,
                dtype=dtype,
                name="projection",
            )
        )
    return LanguageModel(embedding, hidden_layers, **kwargs)


def _dropout_layers(dropout, num_layers, dtype):
    """Dropout layers before each recurrent layer and after the last: `num_layers + 1` lists of one layer or none."""
    rates, noise_shape = [dropout] * (num_layers + 1), None
    if isinstance(dropout, VariationalDropout):  # recurrent layers have dropout of their inputs
        rates, noise_shape = [0.0] * num_layers + [dropout.outputs], ONE_MASK_PER_WINDOW
        if dropout.shared:  # those of later layers are dropped where they are hidden states
            rates[0] = dropout.inputs
    return [
        [Dropout(rate, noise_shape=noise_shape, dtype=dtype, name=f"dropout_{i}")] if rate else []
        for i, rate in enumerate(rates)
    ]


def _recurrent_dropout(dropout):
    """The arguments of recurrent layers for variational dropout."""
    if not isinstance(dropout, VariationalDropout):
        return {}
    if dropout.shared:
        return {"recurrent_dropout": dropout.hidden, "shared_dropout_masks": True, "drop_outputs": True}
    return {"dropout": dropout.inputs, "recurrent_dropout": dropout.hidden}


def _has_seed(configuration):
    """Whether the configuration of an initializer names a seed."""
    return configuration.get("config", {}).get("seed") is not None
