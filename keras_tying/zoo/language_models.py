"""The LSTM language models of Zaremba et al., untied and tied."""

from keras_tying.models import LanguageModel, VariationalDropout
from keras_tying.regularizers import ProjectionRegularizer
from keras_tying.zoo.registry import register

PENALTY = 1 / 6.5
"""The paper's lambda = 0.15, to the digits of the code released with it."""


@register
def ptb_small(tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, **kwargs):
    """Two LSTM layers of 200 units, no dropout, weights from uniform(-0.1, 0.1).

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        projection: Boolean, whether a regularized projection stands before the output embedding.
        vocabulary_size: Integer, word types.
        projection_bias: Boolean, whether that projection has a bias, as in the authors' code but not in
            the paper's formula.
        **kwargs: Further arguments of `LanguageModel`.

    Returns:
        A built `LanguageModel`: 4,651,600 parameters untied, 2,651,600 tied; with the projection
        40,000 more.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 6.
    """
    return _zaremba(200, 0.1, 0.0, tied, projection, vocabulary_size, projection_bias, kwargs)


@register
def ptb_medium(tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, **kwargs):
    """Two LSTM layers of 650 units, dropout 0.5, weights from uniform(-0.05, 0.05).

    Takes the arguments of `ptb_small`.

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """
    return _zaremba(650, 0.05, 0.5, tied, projection, vocabulary_size, projection_bias, kwargs)


@register
def ptb_large(tied=True, projection=False, vocabulary_size=10_000, projection_bias=False, bayesian=False, **kwargs):
    """Two LSTM layers of 1500 units, dropout 0.65, weights from uniform(-0.04, 0.04).

    Takes the arguments of `ptb_small`, and `bayesian`: whether whole words, inputs, hidden states and outputs
    are dropped with the probabilities 0.3, 0.5, 0.3 and 0.5, by masks that hold for a window, one for
    each gate. 66,022,000 parameters untied, 51,022,000 tied.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 5.
    """
    dropout = VariationalDropout(words=0.3, inputs=0.5, hidden=0.3, outputs=0.5) if bayesian else 0.65
    return _zaremba(1500, 0.04, dropout, tied, projection, vocabulary_size, projection_bias, kwargs)


def _zaremba(units, initializer_range, dropout, tied, projection, vocabulary_size, projection_bias, kwargs):
    return LanguageModel(
        vocabulary_size,
        units,
        tied=tied,
        projection=projection,
        projection_bias=projection_bias,
        projection_regularizer=ProjectionRegularizer(PENALTY) if projection else None,
        **{"num_layers": 2, "initializer_range": initializer_range, "dropout": dropout, **kwargs},
    )
