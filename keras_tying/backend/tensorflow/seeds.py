"""Seed generators of layers that may have several replicas."""

import keras
import tensorflow as tf

from keras_tying.backend.replicas import replicas_in_step

REPLICA_STRIDE = 2**16
"""Seeds of two neighbouring replicas are this far apart."""


class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator whose state is the same on all replicas and whose seeds are shifted by the replica's number."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        if replicas_in_step() == 1:
            return seed
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(replica, seed.dtype) * REPLICA_STRIDE
        return seed + tf.stack([shift, tf.zeros_like(shift)])
