"""The translation models of Press and Wolf: untied, with the decoder tied, three-way tied."""

from keras_tying.models import Translator
from keras_tying.zoo.registry import register


@register
def dl4mt(source_vocab=90_000, target_vocab=90_000, tying="decoder", **kwargs):
    """Embeddings of 500, GRUs of 1000 units, no dropout.

    Args:
        source_vocab: Integer, source subword types.
        target_vocab: Integer, target subword types; with three-way tying the same.
        tying: `"none"`, `"decoder"` or `"three_way"`.
        **kwargs: Further arguments of `Translator`.

    Returns:
        A built `Translator`: 32,268,500 parameters besides the embeddings and the output bias. For
        English to French, 87k and 92k types, 168M untied and 122M with the decoder tied; three-way,
        94k types, 79M.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 8.
    """
    return Translator(source_vocab, target_vocab, tying, **kwargs)


@register
def dl4mt_small(source_vocab=8_000, target_vocab=8_000, tying="decoder", **kwargs):
    """Embeddings of 256, GRUs of 256 units, dropout 0.3: for Multi30k and texts of its size.

    Takes the arguments of `dl4mt`.
    """
    return Translator(
        source_vocab, target_vocab, tying, **{"embedding_size": 256, "units": 256, "dropout": 0.3, **kwargs}
    )
