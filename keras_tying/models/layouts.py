"""Layouts: which dimension of a variable is split over the devices of JAX."""

import keras


def vocabulary_layout(device_mesh, *, axis="model"):
    """Splits embeddings, and the loss that scores words with them, along the vocabulary. For JAX.

    Each device holds and trains the rows of its words. It scores only these, and the devices add up their parts of the
    normalizer and of the gradient; no device ever holds the whole matrix or all logits. It splits the variables of
    every layer whose name ends with `embedding`, as in the zoo, or is one that Keras gives to a `TiedEmbedding`. All
    other variables are on every device, and so are those of an `AdaptiveEmbedding` except its bias, which is split; add
    layouts of your own for them, as to any `LayoutMap`.

    Args:
        device_mesh: A `keras.distribution.DeviceMesh`. The size of its dimension `axis` must divide the vocabulary
            sizes; round them up with `vocabulary_size=`.
        axis: Name of the dimension of `device_mesh` over which words are split.

    Returns:
        A `keras.distribution.LayoutMap`.

    Raises:
        ValueError: `device_mesh` has no dimension `axis`.

    Example:

    >>> import keras, keras_tying as kt
    >>> mesh = keras.distribution.DeviceMesh((2, 4), ("batch", "model"), [f"gpu:{i}" for i in range(8)])
    >>> layout = kt.models.vocabulary_layout(mesh)
    >>> layout["language_model/embedding/embeddings"].axes
    ('model', None)
    >>> parallel = keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")

    Models that are made after `keras.distribution.set_distribution(parallel)` are split: of the 10,000 rows of
    `kt.zoo.ptb_large()` each device holds 2,500.
    """
    if axis not in device_mesh.axis_names:
        raise ValueError(f"Expected axis to be a dimension of the mesh, {device_mesh.axis_names}. Received: {axis!r}")
    layout = keras.distribution.LayoutMap(device_mesh)
    for name, dimensions in VOCABULARY_DIMENSIONS.items():
        layout[rf".*(embedding|tied_embedding_\d+)/{name}"] = tuple(
            axis if is_vocabulary else None for is_vocabulary in dimensions
        )
    return layout


VOCABULARY_DIMENSIONS = {
    "embeddings": (True, False),
    "reverse_embeddings": (False, True),
    "bias": (True,),
    "lora_embeddings_a": (True, False),
}
"""By the name of a variable of `TiedEmbedding`: whether each dimension is the vocabulary."""
