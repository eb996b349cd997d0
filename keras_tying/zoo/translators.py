"""The translation models of Press and Wolf: untied, decoder tied, three-way tied."""

from keras_tying.checks import check_integer
from keras_tying.layers import TiedEmbedding
from keras_tying.models import Translator
from keras_tying.zoo.initial_weights import uniform
from keras_tying.zoo.registry import register

TYINGS = ("none", "decoder", "three_way")


@register
def dl4mt(
    source_vocabulary_size=90_000,
    target_vocabulary_size=90_000,
    tying="decoder",
    embedding_size=500,
    units=1000,
    dropout=0.0,
    initializer_range=0.1,
    **kwargs,
):
    """Embeddings of size 500, GRUs of 1000 units, no dropout.

    Args:
        source_vocabulary_size: Integer, source subword types.
        target_vocabulary_size: Integer, target subword types; with three-way tying equal to the source.
        tying: `"none"`, `"decoder"` (input and output embeddings of the decoder) or `"three_way"` (these and the
            embedding of the encoder).
        embedding_size: Integer, width of the embeddings.
        units: Integer, of the decoder and of each direction of the encoder.
        dropout: Float in [0, 1), rate for word vectors, annotations and readout, with a new mask at every step.
        initializer_range: Embeddings are drawn from uniform(-range, range). Recurrent matrices are orthogonal, other
            matrices Glorot uniform.
        **kwargs: `name` and `dtype` of the model.

    Returns:
        A built `Translator`: 32,268,500 parameters without the embeddings and the output bias. English to French
        has 168M untied and 122M with the decoder tied (87k and 92k types), and 79M three-way tied (94k types), where
        the paper has 80M.

    Raises:
        ValueError: If `tying` is unknown, a size is below 1, or the vocabulary sizes differ with three-way tying.

    Example:

    >>> import keras_tying as kt
    >>> sizes = {"source_vocabulary_size": 50, "target_vocabulary_size": 50, "embedding_size": 8, "units": 16}
    >>> {tying: kt.zoo.dl4mt(**sizes, tying=tying).count_params() for tying in ("none", "decoder", "three_way")}
    {'none': 9802, 'decoder': 9402, 'three_way': 9002}

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 8.
    """
    if tying not in TYINGS:
        raise ValueError(f"`tying` must be one of {TYINGS}. Received: tying={tying!r}")
    if tying == "three_way" and source_vocabulary_size != target_vocabulary_size:
        raise ValueError(
            "Three-way tying needs one vocabulary for source and target. Received: "
            f"source_vocabulary_size={source_vocabulary_size}, target_vocabulary_size={target_vocabulary_size}"
        )
    sizes = {"source_vocabulary_size": source_vocabulary_size, "target_vocabulary_size": target_vocabulary_size}
    for name, size in {**sizes, "embedding_size": embedding_size, "units": units}.items():
        check_integer(name, size)
    initializer, dtype = uniform(initializer_range), kwargs.pop("dtype", None)

    def embedding(vocabulary_size, name, **arguments):
        return TiedEmbedding(
            vocabulary_size,
            embedding_size,
            embeddings_initializer=initializer(),
            dtype=dtype,
            name=name,
            **arguments,
        )

    target = embedding(target_vocabulary_size, "embedding", tie_weights=tying != "none")
    source = None
    if tying != "three_way":
        source = embedding(source_vocabulary_size, "source_embedding", use_bias=False)
    return Translator(target, units=units, source_embedding=source, dropout=dropout, **kwargs)


@register
def dl4mt_small(source_vocabulary_size=8_000, target_vocabulary_size=8_000, tying="decoder", **kwargs):
    """Embeddings of size 256, GRUs of 256 units, dropout 0.3: for Multi30k and texts of a similar size.

    Takes the arguments of `dl4mt`.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.dl4mt_small(1_000, 1_000, tying="three_way")
    >>> model.source_embedding is model.embedding
    True
    >>> model.count_params()
    2818024
    """
    settings = {"embedding_size": 256, "units": 256, "dropout": 0.3, **kwargs}
    return dl4mt(source_vocabulary_size, target_vocabulary_size, tying, **settings)
