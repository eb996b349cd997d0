"""Batches of aligned samples as `fit` takes them."""

import keras
import numpy as np

from keras_tying.data import JointSamples

if keras.backend.backend() == "tensorflow":
    from keras_tying.training.joint_batches_tensorflow import in_blocks
else:

    def in_blocks(batches):
        """What `fit` takes, with as little work between batches as can be."""
        return batches


class JointBatches(keras.utils.PyDataset):
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

    def __getitem__(self, index):
        return keras.tree.map_structure(lambda stacked: stacked[0], self.block(index, 1))

    def block(self, index: int, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """So many batches from the given one on, or those that are left: inputs `[N, B, ...]`, targets `[N, B]`."""
        size, first = self.batch_size, self.first_batch + index
        chosen = self._order[first * size : (first + min(count, len(self) - index)) * size]
        arrays = model_inputs(self.model, self.samples, chosen), self.samples.target_ids[chosen]
        return keras.tree.map_structure(lambda rows: rows.reshape(-1, size, *rows.shape[1:]), arrays)

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        """Goes to a batch of an epoch, counted from 0, as if those before had been seen."""
        self.epoch, self.first_batch = epoch, first_batch
        self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.samples))


def model_inputs(model, samples: JointSamples, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of some samples as `model` takes them."""
    sentence = model.sentence_length if model.global_context else 0
    return samples.inputs(chosen, model.order - 1, model.window, sentence)
