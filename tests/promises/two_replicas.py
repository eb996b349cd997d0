"""Run by test_replicas.py in a fresh process, whose processor is in two parts: two_replicas.py FOLDER COMMAND ...

Each COMMAND is the arguments of train/lm.py as JSON. Afterwards what each replica makes of the same batch is written to
FOLDER/outputs.npz, by model, dropout and replica; and the weights of a model with an adaptive embedding before a
training step (0), after it by one replica (1) and by two (2).
"""

import json
import runpy
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_tying import export, optimizers, zoo

IDS = np.arange(40, dtype="int32").reshape(4, 10) % 30


def mirrored():
    # TensorFlow takes the collective operations of two strategies of a process for the same ones.
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())


def adaptive_step(strategy):
    """The weights before and after a step. The rows of the first replica have targets of the first band only."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = zoo.recurrent_language_model(30, 16, num_layers=1, adaptive_cutoffs=(6, 20))
        model.compile(optimizers.ClippedSGD(1.0, clip_norm=0.5))
    before = model.get_weights()
    model.fit(IDS, np.where(np.arange(4)[:, None] < 2, IDS % 6, IDS), batch_size=4, verbose=0)
    return before, model.get_weights()


def outputs(name, dropout):
    strategy = mirrored()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        if name == "language model":
            model, inputs = zoo.ptb_small(vocabulary_size=30, num_layers=1, dropout=dropout), IDS
        else:
            model = zoo.dl4mt_small(30, 30, units=8, embedding_size=8, dropout=dropout)
            inputs = {"source": IDS, "target": IDS}
    model.compile("sgd")
    found = strategy.run(tf.function(lambda: model(inputs, training=True)))
    return [np.asarray(each) for each in strategy.experimental_local_results(found)]


def main():
    folder, *commands = sys.argv[1:]
    for name in [name for name in vars(export) if name.startswith("export_")]:
        setattr(export, name, lambda *_: None)
    for command in commands:
        sys.argv = ["train/lm.py", *json.loads(command), "--strategy", "mirrored", "--replicas", "2"]
        try:
            runpy.run_path("train/lm.py", run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    arrays = {
        f"{name}, {dropout}, {replica}": array
        for name in ("language model", "translator")
        for dropout in (0.0, 0.5)
        for replica, array in enumerate(outputs(name, dropout))
    }
    before, one = adaptive_step(tf.distribute.get_strategy())
    _, two = adaptive_step(mirrored())
    steps = {f"adaptive, {n}, {i}": each for n, found in enumerate((before, one, two)) for i, each in enumerate(found)}
    np.savez(Path(folder) / "outputs.npz", **arrays, **steps)


if __name__ == "__main__":
    main()
