"""TensorFlow: batches to `fit` as `tf.data`, each worker making only the rows of its replicas."""

import keras
import tensorflow as tf

from keras_tying.backend.replicas import part_of, replicas_of

BATCHES_PER_BLOCK = 50


def feed(model, batches):
    """Arguments of `fit`: see the portable one. Whole epochs are read from one and the same dataset."""
    if batches.first_batch:
        return _arguments(model, batches)
    if batches.whole_epochs is None:
        batches.whole_epochs = _arguments(model, batches)
    return batches.whole_epochs


def _arguments(model, batches):
    rows_of = _of_one_shape(model, batches) if hasattr(batches, "block") else _of_any_shape(batches)
    replicas = replicas_of(model)

    def dataset(own):
        made, ahead = rows_of(own, replicas)
        made = made.apply(tf.data.experimental.assert_cardinality(len(batches) * len(own))).prefetch(ahead)
        return made.with_options(untuned())

    def of_worker(worker):
        local = replicas // worker.num_input_pipelines
        first = worker.input_pipeline_id * local
        return dataset(range(first, first + local))

    if replicas == 1:
        return {"x": dataset(range(1))}
    distributed = model.distribute_strategy.distribute_datasets_from_function(of_worker)
    return {"x": distributed, "steps_per_epoch": len(batches)}  # Keras would count those of all replicas


def untuned() -> tf.data.Options:
    """Options of a dataset that ends when its rows do.

    The thread that tunes a dataset sleeps twice as long after every look at it, and the end of an epoch waits for it to
    wake: up to as long as the epoch took. What is read ahead is set by hand here, so there is nothing to tune.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


# Both return a function of some replicas' numbers and of the number of all. It returns a dataset of their rows, replica
# by replica, and how many of its elements to make ahead.


def _of_any_shape(batches):
    """Batches whose shapes differ; Keras would guess from the first two what they have in common."""
    ids = tf.TensorSpec((None, None), tf.int32)
    signature = {"source": ids, "target": ids}, ids, tf.TensorSpec((None, None), tf.float32)

    def rows_of(own, replicas):
        def read():
            for index in range(len(batches)):
                for replica in own:
                    yield batches.rows(index, replica, replicas)

        return tf.data.Dataset.from_generator(read, output_signature=signature), 4

    return rows_of


def _of_one_shape(model, batches):
    """Batches that are handed over together, since every visit to Python takes its time."""
    part = part_of(model, batches.batch_size)

    def rows_of(own, replicas):
        rows = slice(own.start * part, own.stop * part)

        def stacked(index, count):
            return keras.tree.map_structure(
                lambda array: array.reshape(len(array) * len(own), part, *array.shape[2:]),
                batches.block(index, count, rows),
            )

        def read():
            for index in range(0, len(batches), BATCHES_PER_BLOCK):
                yield stacked(index, BATCHES_PER_BLOCK)

        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec((None, *array.shape[1:]), array.dtype), stacked(0, 1)
        )
        return tf.data.Dataset.from_generator(read, output_signature=signature).unbatch(), BATCHES_PER_BLOCK

    return rows_of
