"""TensorFlow: many small batches handed over together, since every visit to Python takes its time."""

import keras
import tensorflow as tf

BATCHES_PER_BLOCK = 50


def in_blocks(batches):
    """A `tf.data.Dataset` of the batches of a `JointBatches` from where they stand when it is iterated."""
    signature = keras.tree.map_structure(
        lambda stacked: tf.TensorSpec((None, *stacked.shape[1:]), stacked.dtype), batches.block(0, 1)
    )

    def read():
        for index in range(0, len(batches), BATCHES_PER_BLOCK):
            yield batches.block(index, BATCHES_PER_BLOCK)

    dataset = tf.data.Dataset.from_generator(read, output_signature=signature).unbatch()
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(BATCHES_PER_BLOCK)
