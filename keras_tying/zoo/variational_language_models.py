"""The LSTM language models of Inan et al.: variational dropout, augmented loss, reused embedding."""

from keras_tying.losses import AugmentedLoss
from keras_tying.models import LanguageModel, VariationalDropout
from keras_tying.zoo.registry import register


@register
def vd_lstm_small(tied=False, augmented=False, vocabulary_size=10_000, gamma=0.65, tau=20.0, dropout=0.3, **kwargs):
    """Two LSTM layers of 200 units, hidden states dropped with probability 0.3.

    Args:
        tied: Boolean, whether the input embedding is reused as the output embedding, without an output
            bias (the paper's RE).
        augmented: Boolean, whether the model trains with `AugmentedLoss` unless told otherwise (AL); tied,
            with the gradient through its target.
        vocabulary_size: Integer, word types.
        gamma: Float, the augmentation's weight over its temperature.
        tau: Float, the augmentation's temperature.
        dropout: Float in [0, 1): the rate. The paper names the probabilities to be kept: 0.7, 0.5 and
            0.35 for small, medium and large on Penn Treebank, 0.8 and 0.6 for small and medium on WikiText-2.
        **kwargs: Further arguments of `LanguageModel`.

    Returns:
        A built `LanguageModel`: 4,651,600 parameters untied, 2,641,600 tied.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _vd_lstm(200, 0.1, dropout, tied, augmented, vocabulary_size, gamma, tau, kwargs)


@register
def vd_lstm_medium(tied=False, augmented=False, vocabulary_size=10_000, gamma=0.65, tau=20.0, dropout=0.5, **kwargs):
    """Two LSTM layers of 650 units, hidden states dropped with probability 0.5.

    Takes the arguments of `vd_lstm_small`.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _vd_lstm(650, 0.05, dropout, tied, augmented, vocabulary_size, gamma, tau, kwargs)


@register
def vd_lstm_large(tied=False, augmented=False, vocabulary_size=10_000, gamma=0.65, tau=20.0, dropout=0.65, **kwargs):
    """Two LSTM layers of 1500 units, hidden states dropped with probability 0.65.

    Takes the arguments of `vd_lstm_small`.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 1 and appendix A.
    """
    return _vd_lstm(1500, 0.04, dropout, tied, augmented, vocabulary_size, gamma, tau, kwargs)


def _vd_lstm(units, initializer_range, dropout, tied, augmented, vocabulary_size, gamma, tau, kwargs):
    return LanguageModel(
        vocabulary_size,
        units,
        tied=tied,
        dropout=VariationalDropout(hidden=dropout, shared=True),
        output_bias=not tied,
        default_loss=AugmentedLoss(gamma, tau, target_gradient=tied) if augmented else None,
        **{"initializer_range": initializer_range, **kwargs},
    )
