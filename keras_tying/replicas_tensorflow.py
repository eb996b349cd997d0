"""TensorFlow: the replicas of a `tf.distribute.Strategy`."""

from functools import lru_cache

import keras
import numpy as np
import tensorflow as tf


def scope_of(model):
    return model.distribute_strategy.scope()


def replicas_of(model):
    return model.distribute_strategy.num_replicas_in_sync


def is_chief(model):
    return is_chief_of(model.distribute_strategy)


def is_chief_of(strategy):
    """`is_chief` where there is no model yet."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type == first and resolver.task_id == 0


def sum_over_workers(model, numbers):
    return sum_over_workers_of(model.distribute_strategy, numbers)


def sum_over_workers_of(strategy, numbers):
    """`sum_over_workers` where there is no model yet."""
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
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def part_of(model, batch_size):
    replicas = replicas_of(model)
    if batch_size % replicas:
        raise ValueError(
            f"The rows of a batch are divided evenly among {replicas} replicas. "
            f"Received: a batch of {batch_size} rows. Use a multiple of {replicas}."
        )
    return batch_size // replicas


def sum_then_apply(model):
    # Keras clips by the norm of each replica's own gradient, and adds up afterwards.
    optimizer = model.optimizer
    if replicas_of(model) == 1 or optimizer is None or "apply" in vars(optimizer):  # or it does so already
        return
    apply = optimizer.apply

    def summed(gradients, variables=None):
        gradients = list(gradients)
        sums = iter(sum_over_replicas([gradient for gradient in gradients if gradient is not None]))
        apply([None if gradient is None else next(sums) for gradient in gradients], variables)

    optimizer.apply = summed
    innermost = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
    innermost._all_reduce_sum_gradients = list  # they are summed already


def replica_seeds(model):
    if replicas_of(model) == 1:
        return
    for layer in model._flatten_layers():
        generator = getattr(layer, "seed_generator", None)
        if generator is not None:
            generator.__class__ = _ReplicaSeeds


class _ReplicaSeeds(keras.random.SeedGenerator):
    def next(self, ordered=True):
        seed = super().next(ordered)
        replica = tf.distribute.get_replica_context()
        if replica is None:
            return seed
        own = tf.cast(replica.replica_id_in_sync_group, seed.dtype) * 2**16
        return seed + tf.stack([own, tf.zeros_like(own)])


def steps_on_replicas(model, step):
    strategy = model.distribute_strategy
    taken = tf.Variable(0, dtype=tf.int64)  # steps so far
    compiled = (lambda function: function) if model.run_eagerly else tf.function(reduce_retracing=True)

    @tf.autograph.experimental.do_not_convert
    def after_reading(batch):
        # Where there is no batch, nothing of a step must happen, not even what does not depend on it.
        with tf.control_dependencies(tf.nest.flatten(batch)):
            step(batch)
            return tf.constant(1, tf.int64)

    @compiled
    def one_step(batch):
        return strategy.experimental_local_results(strategy.run(after_reading, args=(batch,)))[0]

    @compiled
    def several_steps(batches):
        for _ in tf.range(model.steps_per_execution):
            taken.assign_add(one_step(next(batches)))

    def steps(batches):
        if not isinstance(batches, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            for _, batch in zip(range(model.steps_per_execution), batches, strict=False):
                one_step(batch)
            return model.get_metrics_result()
        before = int(taken)
        try:
            several_steps(batches)
        except tf.errors.OutOfRangeError:  # fewer batches were left, or none
            if int(taken) == before:
                raise
        return model.get_metrics_result()

    return steps


def first_of_replicas(model, iterator):
    _, _, batches = next(iter(iterator))
    local_results = model.distribute_strategy.experimental_local_results
    return keras.tree.map_structure(lambda value: local_results(value)[0], next(batches))


def rows_of_all(model, variable):
    strategy = model.distribute_strategy

    def of_replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.identity(variable.value)[None], tf.reshape(number, [1])

    @tf.function
    def gathered():
        values, numbers = strategy.run(of_replica)
        return strategy.gather(values, 0), strategy.gather(numbers, 0)

    if not hasattr(variable, "_gathered"):
        variable._gathered = gathered  # compiled once, not for every checkpoint
    values, numbers = variable._gathered()
    return np.concatenate(values.numpy()[np.argsort(numbers)])


def set_rows_of_all(model, variable, values):
    def of_replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        rows = variable.shape[0]
        variable.assign(values[number * rows : (number + 1) * rows])

    values = tf.convert_to_tensor(values)
    model.distribute_strategy.run(tf.function(of_replica))
