"""TensorFlow: seed generators with different seeds on each replica."""

import keras
import tensorflow as tf

from keras_tying.backend.replicas import replicas_in_step

REPLICA_STRIDE = 2**16
"""Difference between the seeds of two consecutive replicas."""


class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator with the same state on all replicas. Seeds are shifted by a multiple of the replica id."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        if replicas_in_step() == 1:
            return seed
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(replica, seed.dtype) * REPLICA_STRIDE
        return seed + tf.stack([shift, tf.zeros_like(shift)])
