"""The recurrent highway network of Zilly et al., untied and tied."""

from keras_tying.models import LanguageModel, VariationalDropout
from keras_tying.zoo.registry import register


@register
def rhn(tied=True, depth=10, vocabulary_size=10_000, dropout=None, **kwargs):
    """One recurrent highway layer of 830 units and depth 10, weights from uniform(-0.04, 0.04).

    Args:
        tied: Boolean, whether input and output embeddings are one variable.
        depth: Integer, highway layers within a time step.
        vocabulary_size: Integer, word types.
        dropout: `VariationalDropout`, or its arguments. Default: words 0.25, inputs 0.75, hidden 0.25, outputs 0.75.
        **kwargs: Further arguments of `LanguageModel`.

    Returns:
        A built `LanguageModel`: 31,782,400 parameters untied, 23,482,400 tied.

    Reference:
        Zilly, Srivastava, Koutnik and Schmidhuber, Recurrent Highway Networks, table 1; Press and Wolf,
        Using the Output Embedding to Improve Language Models, table 5.
    """
    return LanguageModel(
        vocabulary_size,
        830,
        num_layers=1,
        tied=tied,
        recurrence_depth=depth,
        dropout=VariationalDropout(words=0.25, inputs=0.75, hidden=0.25, outputs=0.75) if dropout is None else dropout,
        **{"initializer_range": 0.04, "lstm_bias_initializer": "zeros", **kwargs},
    )
