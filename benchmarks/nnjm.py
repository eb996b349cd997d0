"""Measures training of the joint language model beside PyTorch: python -m benchmarks.nnjm

Both train NNJM at the zoo's size: 96-number vectors of 7 source words and 3 target words, 128 hidden units.
keras-tying cuts its inputs from the text while training, as `train/nnjm.py` does; PyTorch gets them cut.
"""

import argparse
import json

import numpy as np

from benchmarks.contenders import CONTENDERS, Size, Work, fit_seconds, timed
from benchmarks.measure import compare
from benchmarks.run import RESULTS
from keras_tying.files import write_atomically
from keras_tying.training import environment

WINDOW, HISTORY, EMBEDDING = 7, 3, 96
SENTENCE = 20
STEPS_A_TURN = 100
PUBLISHED = 1500
"""Samples a second on a GPU of 2014: Zhang and Qi, section 4."""


def joint_samples(size: Size, count: int):
    """Random text of `count` batches, each target word affiliated with some word of its source sentence."""
    from keras_tying.data import JointSamples

    rng = np.random.default_rng(0)
    words = count * size.words
    sentences = -(-words // SENTENCE)
    starts = np.arange(sentences + 1) * SENTENCE
    source_ids, target_ids = rng.integers(0, size.vocabulary, (2, sentences * SENTENCE), np.int32)
    affiliations = np.repeat(starts[:-1], SENTENCE) + rng.integers(0, SENTENCE, len(target_ids))
    return JointSamples.join([(source_ids, starts, target_ids, starts, affiliations)], 0, 0)


def train_keras_tying(size: Size) -> Work:
    import keras_tying as kt
    from keras_tying.training.fitting import STEPS_PER_CALL
    from keras_tying.training.joint_language_model import JointBatches

    model = kt.zoo.nnjm(size.vocabulary, size.vocabulary, window=WINDOW, hidden_units=(size.units,))
    model.compile(kt.optimizers.ClippedSGD(0.3), steps_per_execution=STEPS_PER_CALL)

    return lambda count: fit_seconds(model, JointBatches(model, joint_samples(size, count), size.words, seed=0))


def train_pytorch(size: Size) -> Work:
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


KIND = "joint language model"
CONTENDERS[KIND] = {"keras-tying": train_keras_tying, "PyTorch": train_pytorch}  # seen by the spawned workers too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    sizes = {f"{size:,} words": Size(vocabulary=size, units=128, batch=128, steps=1) for size in (10_000, 20_000)}
    results = {
        **environment(),
        "part": "nnjm",
        "command": f"python -m benchmarks.nnjm --rounds {rounds}",
        "published_samples_per_second": PUBLISHED,
        "results": {name: compare(KIND, size, STEPS_A_TURN, rounds) for name, size in sizes.items()},
    }
    print(json.dumps(results, indent=2))
    RESULTS.mkdir(exist_ok=True)
    write_atomically(RESULTS / "nnjm.json", (json.dumps(results, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
