"""Copies of a language model for another vocabulary."""

import numpy as np
from keras import ops

from keras_tying.ids import check_ids


def with_rows(model, rows):
    """`LanguageModel.with_rows`."""
    embedding = model.embedding
    if embedding.quantization_mode is not None or embedding.lora_enabled:
        raise ValueError(
            "The rows of a quantized embedding, or of one with LoRA, cannot be taken. "
            f"Received: quantization_mode={embedding.quantization_mode!r}, lora_enabled={embedding.lora_enabled}"
        )
    rows = check_ids(rows, model.vocabulary_size)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"`rows` must be word ids [V] with at least one. Received: shape={rows.shape}")
    config = model.get_config()
    config["embedding"]["config"]["input_dim"] = len(rows)
    resized = type(model).from_config(config)
    for old, new in zip(model.weights, resized.weights, strict=True):
        new.assign(_rows_of(embedding, old, rows))
    return resized


def _rows_of(embedding, variable, rows):
    """The value of a variable of the model after rows were taken; most variables do not change."""
    values = ops.convert_to_numpy(variable)
    if variable is embedding.embeddings:
        return values[rows]
    if embedding.bias is not None and variable is embedding.bias:
        return values[rows] - np.log(np.bincount(rows)[rows]).astype(values.dtype)
    if not embedding.tie_weights and variable is embedding.reverse_embeddings:
        return values[:, rows]
    return values
