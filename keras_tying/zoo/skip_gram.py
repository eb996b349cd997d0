"""The skip-gram models of word2vec, untied and tied."""

from keras_tying.models import SkipGram
from keras_tying.zoo.registry import register


@register
def skip_gram(vocabulary_size=10_000, units=100, tied=False, negatives=5, **kwargs):
    """Skip-gram with negative sampling.

    Args:
        vocabulary_size: Integer, word types.
        units: Integer, size of the embeddings.
        tied: Boolean, whether input and output embeddings are one variable.
        negatives: Integer, negatives a pair.
        **kwargs: Further arguments of `SkipGram`.

    Returns:
        A built `SkipGram`.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """
    return SkipGram(vocabulary_size, units, tied, negatives, **kwargs)
