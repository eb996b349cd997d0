"""Trains small models of each kind on real text under a strategy and prints what came out: run by test_distribution.py.

python tests/distribution/replicated.py FOLDER STRATEGY[,STRATEGY] MODEL ...
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_tying import data, training, zoo
from keras_tying.data import JointSamples, PairBatches, SentencePairs, SkipGramBatches, Subwords, word_counts
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.optimizers import ClippedSGD
from keras_tying.tasks.joint_language_model import JointBatches
from keras_tying.tasks.language_model import WindowBatches
from keras_tying.tasks.translation import TranslationBatches
from keras_tying.training.checkpoints import read_variables

BATCH, STEPS, EPOCHS = 8, 10, 2


def untied_language_model():
    return language_model(tied=False)


def language_model(tied=True):
    corpus = data.load_corpus("embedded")
    vocabulary = data.Vocabulary.from_tokens(corpus.tokens("train"), size=300)
    cut = data.windows(vocabulary.encode(corpus.tokens("train"))[:2500], BATCH, STEPS)
    model = zoo.recurrent_language_model(
        len(vocabulary), 16, num_layers=1, tied=tied, projection=True, projection_regularizer="l2"
    )
    model.carry_state(BATCH)
    model.compile(ClippedSGD(1.0, clip_norm=0.5), steps_per_execution=4)
    arrays = {"x": cut.inputs, "y": cut.targets, "batch_size": BATCH}  # of which Keras gives the replicas their rows
    return model, lambda epoch: WindowBatches(cut).feed(model) if epoch else arrays


def uneven_batches(reduction="sum_over_steps"):
    """Five rows in batches of four: the replicas have no rows of the last batch, or one."""
    rows = np.random.default_rng(0).integers(0, 11, (2, 5, 7)).astype(np.int32)
    model = zoo.recurrent_language_model(11, 8, num_layers=1)
    model.compile(keras.optimizers.SGD(0.5), SequenceCrossEntropy(reduction=reduction))
    return model, lambda epoch: {"x": rows[0], "y": rows[1], "batch_size": 4}


def uneven_means():
    return uneven_batches("mean")


def translator():
    lines = [line.split() for line in list(data.load_corpus("embedded").lines("train"))[:120]]
    pairs = [(" ".join(words[:3]), " ".join(words[3:6])) for words in lines]  # not all are as long
    subwords = Subwords.learn(data.sentences_of(pairs), 120)
    model = zoo.dl4mt(len(subwords), len(subwords), "three_way", units=8, embedding_size=6)
    model.compile(
        keras.optimizers.Adam(0.01, global_clipnorm=0.05),
        SequenceCrossEntropy(reduction="mean_with_sample_weight"),
        steps_per_execution=3,
    )
    batches = PairBatches(SentencePairs.encode(pairs, subwords, subwords), 150, seed=1)
    return model, lambda epoch: TranslationBatches(batches, replicas=2).feed(model)


def joint_language_model():
    ids = np.random.default_rng(0).integers(0, 50, 800).astype(np.int32)
    starts = np.arange(0, 801, 8)
    samples = JointSamples.join([(ids, starts, ids[::-1].copy(), starts, np.arange(800))], 0, 0)
    model = zoo.nnjm(50, 50, window=3, hidden_units=(12,), embedding_size=8)
    model.compile(ClippedSGD(0.3))
    return model, lambda epoch: JointBatches(model, samples, 40, seed=1).feed(model)


def skip_gram():
    corpus = data.load_corpus("embedded")
    vocabulary = data.Vocabulary.from_tokens(corpus.tokens("train"), size=300)
    ids = vocabulary.encode(corpus.tokens("train"))[:2000]
    text = SkipGramBatches(ids, word_counts(ids, vocabulary), vocabulary.end_id, span=8, spans=4, negatives=8)
    model = zoo.skip_gram(len(vocabulary), 12, tied=True)
    model.compile(keras.optimizers.SGD(0.02))
    return model, lambda epoch: {"x": ((batch,) for batch in text.epoch(0)), "steps_per_epoch": text.batches}


MAKE = {
    make.__name__: make
    for make in (
        *(language_model, untied_language_model, translator, joint_language_model, skip_gram),
        *(uneven_batches, uneven_means),
    )
}


def train(distribution: training.Distribution, names: list[str]) -> dict:
    results = {}
    for name in names:
        keras.utils.set_random_seed(1)
        with distribution.scope():
            model, data_of = MAKE[name]()
        history = [model.fit(**data_of(epoch), shuffle=False, verbose=0).history for epoch in range(EPOCHS)]
        values = read_variables(model)
        results[name] = {"history": history, "variables": values}
    return results


def main() -> None:
    folder, strategies, *names = sys.argv[1:]
    for strategy in strategies.split(","):
        distribution = training.open_distribution(strategy, 2 if strategy == "mirrored" else None)
        results = train(distribution, names)
        if distribution.is_chief:
            for name, found in results.items():
                np.savez(Path(folder, f"{strategy}-{name}.npz"), **found["variables"])
            histories = {name: found["history"] for name, found in results.items()}
            Path(folder, f"{strategy}.json").write_text(json.dumps(histories))
        distribution.meet()


if __name__ == "__main__":
    main()
