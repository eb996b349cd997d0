"""TensorFlow: the replicas of a `tf.distribute.Strategy`."""

from collections.abc import Callable
from functools import lru_cache
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from keras_tying.backend import replicas as portable

REPLICA_STRIDE = 2**16
"""Difference between the seeds of two consecutive replicas."""

_compiled_gathers: WeakKeyDictionary[keras.Model, dict[int, Callable]] = WeakKeyDictionary()
"""Compiled functions that gather the rows of a variable, by model and id of the variable."""


def scope_of(model):
    return model.distribute_strategy.scope()


def replicas_of(model):
    return model.distribute_strategy.num_replicas_in_sync


def own_replica(model):
    """The number of the only replica of this worker; `None` if there are several on it."""
    strategy = model.distribute_strategy
    if len(strategy.extended.worker_devices) > 1:
        return None
    resolver = strategy.cluster_resolver
    after_chief = resolver.task_type == "worker" and "chief" in resolver.cluster_spec().jobs
    return resolver.task_id + after_chief


def is_chief(model):
    return is_chief_of(model.distribute_strategy)


def is_chief_of(strategy):
    """`is_chief` for a strategy, before there is a model."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type == first and resolver.task_id == 0


def sum_over_workers(model, numbers):
    return sum_over_workers_of(model.distribute_strategy, numbers)


def sum_over_workers_of(strategy, numbers):
    """`sum_over_workers` for a strategy, before there is a model."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return numbers
    sums = _compiled_sum(strategy)(tf.constant(numbers, tf.float64))
    local = strategy.experimental_local_results(sums)
    return (local[0].numpy() / len(local)).tolist()


@lru_cache
def _compiled_sum(strategy):
    def of_replica(numbers):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

    return tf.function(lambda numbers: strategy.run(of_replica, args=(numbers,)), autograph=False)


def replicas_in_step():
    replica = tf.distribute.get_replica_context()
    return 1 if replica is None else replica.num_replicas_in_sync


def sum_over_replicas(values):
    if replicas_in_step() == 1:
        return values
    sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
    return [tf.convert_to_tensor(each) for each in sums]  # sparse gradients become dense


def part_of(model, batch_size):
    return portable.rows_per_replica(batch_size, replicas_of(model))


def rows_of_all(model, variable):
    strategy = model.distribute_strategy

    def of_replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.identity(variable.value)[None], tf.reshape(number, [1])

    @tf.function
    def gathered():
        values, numbers = strategy.run(of_replica)
        return strategy.gather(values, 0), strategy.gather(numbers, 0)

    compiled = _compiled_gathers.setdefault(model, {})
    values, numbers = compiled.setdefault(id(variable), gathered)()
    return np.concatenate(values.numpy()[np.argsort(numbers)])


def set_rows_of_all(model, rows):
    def of_replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        for variable, values in rows:
            count = variable.shape[0]
            variable.assign(tf.convert_to_tensor(values)[number * count : (number + 1) * count])

    if rows:
        model.distribute_strategy.run(tf.function(of_replica))


class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator with the same state on all replicas. Seeds are shifted by a multiple of the replica id."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        if replicas_in_step() == 1:
            return seed
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(replica, seed.dtype) * REPLICA_STRIDE
        return seed + tf.stack([shift, tf.zeros_like(shift)])
