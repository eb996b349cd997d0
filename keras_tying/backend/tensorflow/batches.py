"""TensorFlow: batches for `fit` as `tf.data`. Each worker makes only the rows of its replicas."""

import keras
import tensorflow as tf

from keras_tying.backend.replicas import part_of, replicas_of
from keras_tying.backend.tensorflow.replicas import own_replica

BATCHES_PER_BLOCK = 50


def feed(model, batches):
    """Arguments of `fit`, see the portable function. All complete epochs use one dataset."""
    if batches.first_batch:
        return _arguments(model, batches)
    if batches.whole_epochs is None:
        batches.whole_epochs = _arguments(model, batches)
    return batches.whole_epochs


def _arguments(model, batches):
    rows_of = _of_one_shape(model, batches) if batches.one_shape else _of_any_shape(batches)
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
    replica = own_replica(model)
    if replica is None:
        x = model.distribute_strategy.distribute_datasets_from_function(of_worker)
    else:
        x = DatasetOfWorker(dataset(range(replica, replica + 1)))
    return {"x": x, "steps_per_epoch": len(batches)}  # Keras would count the batches of each replica


class DatasetOfWorker(tf.data.Dataset, tf.distribute.DistributedDataset):
    """A dataset that Keras takes as it is, because it has the batches of the only replica of a worker.

    What `distribute_datasets_from_function` returns is copied to each device by a second dataset, which is autotuned
    whatever the options of the first are, see `untuned`.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset
        super().__init__(tf.data.experimental.to_variant(dataset))

    def _inputs(self):
        return [self._dataset]

    @property
    def element_spec(self):
        return self._dataset.element_spec


def untuned() -> tf.data.Options:
    """Options of a dataset without autotuning.

    The autotuning thread doubles its sleep after every check, and the end of an epoch waits for the thread, up to the
    duration of the epoch. The number of batches to prefetch is set explicitly, so autotuning is not needed.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def _noting(batches, read):
    """`read`, whose error is also kept in `batches.failure`: TensorFlow raises one of its own, with a traceback."""

    def noting():
        try:
            yield from read()
        except Exception as error:
            batches.failure = error
            raise

    return noting


# Both functions return `rows_of(own, replicas)`, with the numbers of some replicas and the number of all replicas.
# `rows_of` returns a dataset of the rows of these replicas, replica by replica, and the number of elements to prefetch.


def _of_any_shape(batches):
    """Batches of different shapes. The signature is explicit: Keras would infer it from the first two batches."""

    def rows_of(own, replicas):
        def read():
            for index in range(len(batches)):
                for replica in own:
                    yield batches.rows(index, replica, replicas)

        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec((None,) * array.ndim, array.dtype), batches.rows(0, own.start, replicas)
        )
        return tf.data.Dataset.from_generator(_noting(batches, read), output_signature=signature), 4

    return rows_of


def _of_one_shape(model, batches):
    """Batches of one shape, read in blocks to save calls into Python."""
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
        blocks = tf.data.Dataset.from_generator(_noting(batches, read), output_signature=signature)
        return blocks.unbatch(), BATCHES_PER_BLOCK

    return rows_of
