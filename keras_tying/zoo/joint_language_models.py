"""The feed-forward language models of Zhang and Qi."""

import keras

from keras_tying.checks import check_integer, check_needed
from keras_tying.layers import SectionMeans, TiedEmbedding
from keras_tying.models import JointLanguageModel
from keras_tying.zoo.initial_weights import uniform
from keras_tying.zoo.registry import register

ACTIVATIONS = ("tanh", "relu", "leaky_relu")


@register
def nnlm(target_vocabulary_size=10_000, tied=False, **kwargs):
    """Neural network language model: the three previous target words, without source words.

    Args:
        target_vocabulary_size: Integer, target word types.
        tied: Boolean, whether the output embedding is the input embedding. The paper has untied models.
        **kwargs: Further arguments of `nnjm_global`, except those for the source.

    Returns:
        A built `JointLanguageModel`.

    Example:

    >>> import keras_tying as kt
    >>> kt.zoo.nnlm().count_params(), kt.zoo.nnlm(tied=True).count_params()
    (2286992, 1019280)

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, table 3.
    """
    return _zhang_qi(target_vocabulary_size, 0, 0, tied, **kwargs)


@register
def nnjm(target_vocabulary_size=10_000, source_vocabulary_size=10_000, tied=False, window=7, **kwargs):
    """Joint model: the three previous target words, the affiliated source word and three source words on each side.

    Args:
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        tied: Boolean, whether the output embedding is the input embedding of target words.
        window: Odd integer, number of source words; "window 3" in the paper is `2 * 3 + 1` words.
        **kwargs: Further arguments of `nnjm_global`, except those for the global context.

    Returns:
        A built `JointLanguageModel`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.zoo.nnjm(target_vocabulary_size=100, source_vocabulary_size=120)
    >>> inputs = {"history": np.zeros((2, 3), "int32"), "window": np.zeros((2, 7), "int32")}
    >>> tuple(model(inputs).shape)
    (2, 100)

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 2 and table 3.
    """
    return _zhang_qi(target_vocabulary_size, source_vocabulary_size, window, tied, **kwargs)


@register
def nnjm_global(
    target_vocabulary_size=10_000,
    source_vocabulary_size=10_000,
    tied=False,
    window=7,
    sections=1,
    split="adaptive",
    stop_words=0,
    global_units=None,
    sentence_length=100,
    **kwargs,
):
    """Joint model with global source context: the model `nnjm` and the mean of the source word vectors.

    Args:
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        tied: Boolean, whether the output embedding is the input embedding of target words, after a projection
            without bias.
        window: Odd integer, number of source words, or 0 for none.
        sections: Integer, number of sections of the sentence, with one mean per section. Defaults to 1.
        split: `"adaptive"` (default) or `"fixed"`: sections of the sentence, or of the sentence padded with its end
            to `sentence_length`.
        stop_words: Integer `N`: the `N` most frequent source words have weight zero. Defaults to 0.
        global_units: Optional integer, size of a hidden layer for the global context.
        sentence_length: Integer: sentences are padded or truncated to this length. Defaults to 100.
        **kwargs: Any of `order` (4: a history of 3 words), `embedding_size` (96), `hidden_units` (sizes of the
            hidden layers, `(128,)`), `activation` (`"tanh"`, `"relu"` or `"leaky_relu"` of slope 0.01),
            `trainable_embeddings` (`True`; `False` freezes the input word vectors, for example those of `bootstrap`),
            `initializer_range` (0.05: every weight and bias is drawn from uniform(-range, range)), and
            `name` and `dtype` of the model.

    Returns:
        A built `JointLanguageModel`.

    Raises:
        ValueError: If an argument is outside its range.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.nnjm_global(target_vocabulary_size=100, source_vocabulary_size=120, sections=2, global_units=32)
    >>> [layer.name for layer in model.global_context]
    ['section_means', 'global_layer']
    >>> model.count_params()
    167300

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 3 and tables 3 to 5.
    """
    means = {"sections": sections, "split": split, "stop_words": stop_words}
    return _zhang_qi(
        target_vocabulary_size,
        source_vocabulary_size,
        window,
        tied,
        means=means,
        global_units=global_units,
        sentence_length=sentence_length,
        **kwargs,
    )


def _zhang_qi(
    target_vocabulary_size,
    source_vocabulary_size,
    window,
    tied,
    order=4,
    embedding_size=96,
    hidden_units=(128,),
    activation="tanh",
    means=None,
    global_units=None,
    sentence_length=100,
    trainable_embeddings=True,
    initializer_range=0.05,
    **kwargs,
):
    """One of the three models. `means` are the arguments of `SectionMeans`, or `None` without global context."""
    if not isinstance(hidden_units, (list, tuple)) or not hidden_units:
        raise ValueError(f"`hidden_units` must be a list of at least one size. Received: hidden_units={hidden_units!r}")
    for units in hidden_units:
        check_integer("hidden_units", units)
    check_integer("target_vocabulary_size", target_vocabulary_size)
    check_integer("embedding_size", embedding_size)
    check_integer("window", window, least=0)
    if window or means:
        check_integer("source_vocabulary_size", source_vocabulary_size)
    if not means:
        length = None if sentence_length == 100 else sentence_length
        check_needed("global context: use nnjm_global", global_units=global_units, sentence_length=length)
    if global_units is not None:
        check_integer("global_units", global_units)
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` must be one of {ACTIVATIONS}. Received: activation={activation!r}")
    initializer, dtype = uniform(initializer_range), kwargs.pop("dtype", None)

    def embedding(vocabulary_size, width, scores_words, name):
        """An embedding. If it does not score words, it is a Keras layer, whose gradient is sparse."""
        seeds = initializer(), initializer()  # always two: the order of seeds determines the initial weights
        common = {"embeddings_initializer": seeds[0], "dtype": dtype, "name": name}
        if scores_words:
            return TiedEmbedding(vocabulary_size, width, bias_initializer=seeds[1], **common)
        return keras.layers.Embedding(vocabulary_size, width, **common)

    def dense(units, name, **arguments):
        return keras.layers.Dense(
            units, kernel_initializer=initializer(), bias_initializer=initializer(), dtype=dtype, name=name, **arguments
        )

    def activated(units, name):
        if activation == "leaky_relu":
            return [dense(units, name), keras.layers.LeakyReLU(0.01, dtype=dtype, name=f"{name}_activation")]
        return [dense(units, name, activation=activation)]

    target = embedding(target_vocabulary_size, embedding_size, tied, "embedding")
    target.trainable = trainable_embeddings
    source = output = global_context = None
    if window or means:
        source = embedding(source_vocabulary_size, embedding_size, False, "source_embedding")
        source.trainable = trainable_embeddings
    if means:
        global_context = [SectionMeans(**means, dtype=dtype, name="section_means")]
        global_context += activated(global_units, "global_layer") if global_units else []
    hidden_layers = [layer for i, units in enumerate(hidden_units) for layer in activated(units, f"hidden_{i}")]
    if tied:
        hidden_layers.append(dense(embedding_size, "projection", use_bias=False))
    else:
        output = embedding(target_vocabulary_size, hidden_units[-1], True, "output_embedding")
    return JointLanguageModel(
        target,
        hidden_layers,
        order=order,
        source_embedding=source,
        window=window,
        global_context=global_context,
        sentence_length=sentence_length,
        output_embedding=output,
        **kwargs,
    )
