"""The skip-gram model of word2vec, untied or tied."""

import keras

from keras_tying.checks import check_integer
from keras_tying.layers import TiedEmbedding
from keras_tying.models import SkipGram
from keras_tying.zoo.registry import register


@register
def skip_gram(vocabulary_size=10_000, units=100, tied=False, negatives=5, **kwargs):
    """Skip-gram with negative sampling.

    Args:
        vocabulary_size: Integer, word types.
        units: Integer, size of the embeddings.
        tied: Boolean, whether input and output embeddings are one variable.
        negatives: Integer, negatives per pair.
        **kwargs: `name` and `dtype` of the model.

    Returns:
        A built `SkipGram`.

    Raises:
        ValueError: If a size is below 1.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.skip_gram(vocabulary_size=1_000, units=50)
    >>> {role: tuple(matrix.shape) for role, matrix in model.embedding_matrices().items()}
    {'input': (1000, 50), 'output': (1000, 50)}
    >>> list(kt.zoo.skip_gram(vocabulary_size=1_000, units=50, tied=True).embedding_matrices())
    ['tied']

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 4.1.
    """
    for name, value in (("vocabulary_size", vocabulary_size), ("units", units)):
        check_integer(name, value)
    dtype = kwargs.pop("dtype", None)

    def embedding(initializer, name):
        return TiedEmbedding(
            vocabulary_size, units, use_bias=False, embeddings_initializer=initializer, dtype=dtype, name=name
        )

    centres = embedding(keras.initializers.RandomUniform(-0.5 / units, 0.5 / units), "embedding")
    contexts = None if tied else embedding("zeros", "context_embedding")
    return SkipGram(centres, context_embedding=contexts, negatives=negatives, **kwargs)
