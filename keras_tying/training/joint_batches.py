"""Batches of aligned samples."""

import keras
import numpy as np

from keras_tying.data import JointSamples
from keras_tying.training.batches import Blocks


class JointBatches(Blocks):
    """Samples in batches, in another order each epoch, their inputs cut as they are asked for.

    Samples that fill no batch are left out; which ones changes with the order.

    Args:
        model: The `JointLanguageModel` that takes them.
        samples: The text.
        batch_size: Samples of a batch.
        seed: Decides the order, together with the epoch.
    """

    def __init__(self, model, samples: JointSamples, batch_size: int, seed: int):
        super().__init__()
        self.model = model
        self.samples = samples
        self.batch_size = batch_size
        self.seed = seed
        self.begin(0)

    def __len__(self):
        return len(self.samples) // self.batch_size - self.first_batch

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """So many batches from the given one on, or those that are left: inputs `[N, B, ...]`, targets `[N, B]`."""
        size, first = self.batch_size, self.first_batch + index
        chosen = self._order[first * size : (first + min(count, len(self) - index)) * size].reshape(-1, size)[:, rows]
        flat = chosen.ravel()
        arrays = model_inputs(self.model, self.samples, flat), self.samples.target_ids[flat]
        return keras.tree.map_structure(lambda array: array.reshape(*chosen.shape, *array.shape[1:]), arrays)

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.samples))


def model_inputs(model, samples: JointSamples, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of some samples as `model` takes them."""
    sentence = model.sentence_length if model.global_context else 0
    return samples.inputs(chosen, model.order - 1, model.window, sentence)
