"""Published recurrent language models of Zaremba et al., Press and Wolf, Inan et al. and Zilly et al."""

from functools import partial

from keras_tying.checks import check_needed
from keras_tying.layers import RecurrentHighway
from keras_tying.regularizers import ProjectionRegularizer
from keras_tying.zoo.recurrent_language_models import recurrent_language_model
from keras_tying.zoo.registry import register
from keras_tying.zoo.variational_dropout import VariationalDropout, as_dropout

PENALTY = 1 / 6.5
"""lambda = 0.15 of the paper, with the digits of the code released with it."""


@register
def ptb_small(tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, dropout=0.0, **kwargs):
    """Two LSTM layers of 200 units, no dropout, weights from uniform(-0.1, 0.1).

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        projection: Boolean, whether there is a regularized projection before the output embedding.
        vocabulary_size: Integer, word types.
        projection_bias: Boolean, whether the projection has a bias, as in the code of the authors but not in the
            formula of the paper.
        dropout: Float in [0, 1), the rate between layers; or a `VariationalDropout` or its arguments.
        **kwargs: Further arguments of `recurrent_language_model`.

    Returns:
        A built `LanguageModel`: 4,651,600 parameters untied, 2,651,600 tied. The projection adds 40,000.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.ptb_small(tied=False).count_params(), kt.zoo.ptb_small(tied=True).count_params()
    (4651600, 2651600)

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 6.
    """
    return _zaremba(200, 0.1, dropout, tied, projection, vocabulary_size, projection_bias, kwargs)


@register
def ptb_medium(tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, dropout=0.5, **kwargs):
    """Two LSTM layers of 650 units, dropout 0.5, weights from uniform(-0.05, 0.05).

    Takes the arguments of `ptb_small`.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.ptb_medium(vocabulary_size=1_000)
    >>> [layer.name for layer in model.hidden_layers]
    ['dropout_0', 'recurrent_0', 'dropout_1', 'recurrent_1', 'dropout_2']
    >>> model.count_params()
    7416200

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """
    return _zaremba(650, 0.05, dropout, tied, projection, vocabulary_size, projection_bias, kwargs)


@register
def ptb_large(
    tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, bayesian=False, dropout=0.65, **kwargs
):
    """Two LSTM layers of 1500 units, dropout 0.65, weights from uniform(-0.04, 0.04).

    Takes the arguments of `ptb_small`, and `bayesian`: whether words, inputs, hidden states and outputs are dropped
    with the probabilities 0.3, 0.5, 0.3 and 0.5, with one mask per window and gate. 66,022,000 parameters untied,
    51,022,000 tied.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.ptb_large(vocabulary_size=100, units=30, bayesian=True)
    >>> [layer.name for layer in model.hidden_layers]
    ['word_dropout', 'recurrent_0', 'recurrent_1', 'dropout_2']
    >>> model.count_params()
    17740

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 5.
    """
    if bayesian:
        check_needed("bayesian=False", dropout=None if dropout == 0.65 else dropout)
        dropout = VariationalDropout(words=0.3, inputs=0.5, hidden=0.3, outputs=0.5)
    return _zaremba(1500, 0.04, dropout, tied, projection, vocabulary_size, projection_bias, kwargs)


def _zaremba(units, initializer_range, dropout, tied, projection, vocabulary_size, projection_bias, kwargs):
    penalty = ProjectionRegularizer(scale=PENALTY) if projection else None
    settings = {"units": units, "initializer_range": initializer_range, "projection_regularizer": penalty, **kwargs}
    return recurrent_language_model(
        vocabulary_size,
        tied=tied,
        dropout=dropout,
        projection=projection,
        projection_bias=projection_bias,
        **settings,
    )


@register
def vd_lstm_small(tied=False, vocabulary_size=10_000, dropout=0.3, **kwargs):
    """Two LSTM layers of 200 units, hidden states dropped with probability 0.3.

    For the augmented loss (AL) of the paper, compile with `keras_tying.losses.AugmentedLoss(target_gradient=tied)`.

    Args:
        tied: Boolean, whether the input embedding is reused as the output embedding, without an output
            bias (RE in the paper).
        vocabulary_size: Integer, word types.
        dropout: Float in [0, 1), the rate of hidden states, with masks shared by recurrence, next layer and output; or
            a `VariationalDropout` or its arguments. The paper gives "dropout probabilities", taken here as those of
            keeping a unit: 0.7, 0.5 and 0.35 for small, medium and large on Penn Treebank, 0.8 and 0.6 for small and
            medium on WikiText-2.
        **kwargs: Further arguments of `recurrent_language_model`.

    Returns:
        A built `LanguageModel`: 4,651,600 parameters untied, 2,641,600 tied.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.vd_lstm_small(tied=True)
    >>> model.compile(kt.optimizers.ClippedSGD(1.0), kt.losses.AugmentedLoss(gamma=0.65, tau=20, target_gradient=True))

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _inan(200, 0.1, dropout, tied, vocabulary_size, kwargs)


@register
def vd_lstm_medium(tied=False, vocabulary_size=10_000, dropout=0.5, **kwargs):
    """Two LSTM layers of 650 units, hidden states dropped with probability 0.5.

    Takes the arguments of `vd_lstm_small`.

    Example:

    >>> import keras_tying as kt
    >>> sizes = {"vocabulary_size": 100, "units": 30}
    >>> kt.zoo.vd_lstm_medium(**sizes).count_params(), kt.zoo.vd_lstm_medium(tied=True, **sizes).count_params()
    (20740, 17640)

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _inan(650, 0.05, dropout, tied, vocabulary_size, kwargs)


@register
def vd_lstm_large(tied=False, vocabulary_size=10_000, dropout=0.65, **kwargs):
    """Two LSTM layers of 1500 units, hidden states dropped with probability 0.65.

    Takes the arguments of `vd_lstm_small`.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.vd_lstm_large(tied=True, vocabulary_size=100, units=30)
    >>> [layer.recurrent_dropout for layer in model.hidden_layers]
    [0.65, 0.65]

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _inan(1500, 0.04, dropout, tied, vocabulary_size, kwargs)


def _inan(units, initializer_range, dropout, tied, vocabulary_size, kwargs):
    dropout = as_dropout(dropout)
    if not isinstance(dropout, VariationalDropout):
        dropout = VariationalDropout(hidden=dropout, shared=True)
    settings = {"units": units, "initializer_range": initializer_range, "output_bias": not tied, **kwargs}
    return recurrent_language_model(vocabulary_size, tied=tied, dropout=dropout, **settings)


@register
def rhn(tied=True, depth=10, vocabulary_size=10_000, dropout=None, **kwargs):
    """One recurrent highway layer of 830 units and depth 10, weights from uniform(-0.04, 0.04).

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        depth: Integer, highway layers within a time step.
        vocabulary_size: Integer, word types.
        dropout: Float in [0, 1), a `VariationalDropout` or its arguments. Default: words 0.25, inputs 0.75,
            hidden 0.25, outputs 0.75.
        **kwargs: Further arguments of `recurrent_language_model`.

    Returns:
        A built `LanguageModel`: 31,782,400 parameters untied, 23,482,400 tied.

    Raises:
        ValueError: If `dropout` has `shared=True`, or `unit_forget_bias` is set: only LSTM layers have these.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.rhn(depth=3, vocabulary_size=100, units=20)
    >>> [layer.name for layer in model.hidden_layers], model.hidden_layers[1].depth
    (['word_dropout', 'recurrent_0', 'dropout_1'], 3)
    >>> model.count_params()
    5420

    Reference:
        Zilly, Srivastava, Koutnik and Schmidhuber, Recurrent Highway Networks, table 1; Press and Wolf,
        Using the Output Embedding to Improve Language Models, table 5.
    """
    dropout = VariationalDropout(words=0.25, inputs=0.75, hidden=0.25, outputs=0.75) if dropout is None else dropout
    dropout = as_dropout(dropout)
    if isinstance(dropout, VariationalDropout) and dropout.shared:
        raise ValueError(
            f"Recurrent highway layers have no `shared` masks; use `shared=False`. Received: dropout={dropout}"
        )
    check_needed("LSTM layers", unit_forget_bias=kwargs.get("unit_forget_bias"))
    settings = {"units": 830, "num_layers": 1, "initializer_range": 0.04, **kwargs}
    return recurrent_language_model(
        vocabulary_size, recurrent_layer=partial(RecurrentHighway, depth=depth), tied=tied, dropout=dropout, **settings
    )
