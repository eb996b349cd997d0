"""The feed-forward language models of Zhang and Qi, at the size of their comparisons."""

import keras

from keras_tying.layers import SectionMeans, TiedEmbedding
from keras_tying.models import JointLanguageModel
from keras_tying.zoo.initial_weights import uniform
from keras_tying.zoo.registry import register

ACTIVATIONS = ("tanh", "relu", "leaky_relu")


@register
def nnlm(target_vocabulary_size=10_000, tied=False, **kwargs):
    """Three target words before the next one, and nothing of the source.

    Args:
        target_vocabulary_size: Integer, target word types.
        tied: Boolean, whether the output embedding is the input embedding. The paper's is not.
        **kwargs: Further arguments of `nnjm_global` that do not concern the source.

    Returns:
        A built `JointLanguageModel`.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, table 3.
    """
    return _zhang_qi(target_vocabulary_size, 0, 0, tied, **kwargs)


@register
def nnjm(target_vocabulary_size=10_000, source_vocabulary_size=10_000, tied=False, window=7, **kwargs):
    """Beside the history, the source word the next one is affiliated with and three on either side.

    Args:
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        tied: Boolean, whether the output embedding is the target words' input embedding.
        window: Odd integer, source words; the paper's "window 3" is `2 * 3 + 1` words.
        **kwargs: Further arguments of `nnjm_global` that do not concern the global context.

    Returns:
        A built `JointLanguageModel`.

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
    """Beside history and window, the mean of the whole source sentence.

    Args:
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        tied: Boolean, whether the output embedding is the target words' input embedding, through a projection
            without bias.
        window: Odd integer, source words, or 0 for none.
        sections: Integer, sections of the sentence, one mean each. Defaults to 1.
        split: `"adaptive"` (default) or `"fixed"`: sections of the sentence, or of the sentence padded with its end
            to `sentence_length`.
        stop_words: Integer: so many most frequent source words have no weight. Defaults to 0.
        global_units: Optional integer, size of a hidden layer of the global context's own.
        sentence_length: Integer: sentences are padded or cut to it. Defaults to 100.
        **kwargs: Any of `order` (4: a history of 3 words), `embedding_size` (96), `hidden_units` (sizes of the
            hidden layers, `(128,)`), `activation` (`"tanh"`, `"relu"` or `"leaky_relu"` of slope 0.01),
            `trainable_embeddings` (`True`; `False` keeps input word vectors as they are, for example as `bootstrap` set
            them), `initializer_range` (0.05: every weight and bias is drawn from uniform(-range, range)), and
            `name` and `dtype` of the model.

    Returns:
        A built `JointLanguageModel`.

    Raises:
        ValueError: If an argument is outside its range.

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
    """A model of all three kinds; `means` are the arguments of a `SectionMeans` where there is a global context."""
    if not hidden_units:
        raise ValueError(f"`hidden_units` needs at least one size. Received: hidden_units={hidden_units!r}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` must be one of {ACTIVATIONS}. Received: activation={activation!r}")
    initializer, dtype = uniform(initializer_range), kwargs.pop("dtype", None)

    def embedding(vocabulary_size, width, scores_words, name):
        """An embedding; for one that only looks words up, no gradient but that of the rows looked up is computed."""
        seeds = initializer(), initializer()  # both in any case: the order of seeds decides the initial weights
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
        target, hidden_layers, order, source, window, global_context, sentence_length, output, **kwargs
    )
