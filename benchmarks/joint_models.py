"""Contenders that train a joint language model: this library and PyTorch.

The models are NNJM at the size of the zoo: embeddings of 96 units, 7 source words, 3 target words, 128 hidden units.
keras-tying makes its inputs from the text during training and keeps memory between steps, as `train/nnjm.py` does.
PyTorch gets its inputs ready-made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.work import Size, Work, fit_seconds, timed

WINDOW, HISTORY, EMBEDDING = 7, 3, 96
SENTENCE = 20


@dataclass(frozen=True)
class JointSize(Size):
    """A joint language model's size and its batches; speed is counted in samples, one per target word."""

    units: int = 128
    batch_size: int = 128
    sequence_length: int = 1


def joint_samples(size: JointSize, count: int):
    """Random text of `count` batches. Each target word is affiliated with a random word of its source sentence."""
    from keras_tying.data import JointSamples

    rng = np.random.default_rng(0)
    words = count * size.words
    sentences = -(-words // SENTENCE)
    starts = np.arange(sentences + 1) * SENTENCE
    source_ids, target_ids = rng.integers(0, size.vocabulary, (2, sentences * SENTENCE), np.int32)
    affiliations = np.repeat(starts[:-1], SENTENCE) + rng.integers(0, SENTENCE, len(target_ids))
    return JointSamples.join([(source_ids, starts, target_ids, starts, affiliations)], 0, 0)


def train_keras_tying(size: JointSize) -> Work:
    from keras_tying.commands.keras_setup import keep_memory

    keep_memory()
    return train_with_returned_memory(size)


def train_with_returned_memory(size: JointSize) -> Work:
    import keras_tying as kt
    from keras_tying.tasks.joint_language_model import JointBatches
    from keras_tying.training.engine import STEPS_PER_EXECUTION

    model = kt.zoo.nnjm(size.vocabulary, size.vocabulary, window=WINDOW, hidden_units=(size.units,))
    model.compile(kt.optimizers.ClippedSGD(0.3), steps_per_execution=STEPS_PER_EXECUTION)

    def work(count: int) -> float:
        batches = JointBatches(model, joint_samples(size, count), size.words, seed=0)
        return fit_seconds(model, **batches.feed(model))

    return work


def train_pytorch(size: JointSize) -> Work:
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    source, target = (torch.nn.Embedding(size.vocabulary, EMBEDDING) for _ in range(2))
    hidden = torch.nn.Linear((WINDOW + HISTORY) * EMBEDDING, size.units)
    output = torch.nn.Linear(size.units, size.vocabulary)
    parameters = [parameter for layer in (source, target, hidden, output) for parameter in layer.parameters()]
    for parameter in parameters:
        torch.nn.init.uniform_(parameter, -0.05, 0.05)
    optimizer = torch.optim.SGD(parameters, 0.3)

    @timed
    def train(batches: list) -> None:
        for window, history, targets in batches:
            vectors = torch.cat([source(window).flatten(1), target(history).flatten(1)], 1)
            loss = functional.cross_entropy(output(torch.tanh(hidden(vectors))), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()

    def work(count: int) -> float:
        samples = joint_samples(size, count)
        order = np.random.default_rng(0).permutation(len(samples))[: count * size.words]
        inputs = samples.inputs(order, HISTORY, WINDOW)
        columns = (inputs["window"], inputs["history"], samples.target_ids[order])
        tensors = (torch.from_numpy(column).long().split(size.words) for column in columns)
        return train(list(zip(*tensors, strict=True)))

    return work


CONTENDERS: dict[str, dict[str, Callable[[JointSize], Work]]] = {
    "joint language model": {
        "keras-tying": train_keras_tying,
        "memory returned": train_with_returned_memory,
        "PyTorch": train_pytorch,
    },
}
