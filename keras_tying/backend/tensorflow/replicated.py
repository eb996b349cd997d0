"""TensorFlow: what `fit` needs of a model to train it on several replicas at once."""

from typing import Any

import keras
import tensorflow as tf

from keras_tying.backend.replicas import replicas_of, scope_of, sum_over_replicas


class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run under every synchronous `tf.distribute.Strategy` it was made under.

    Each replica takes its rows of a batch. Gradients are added up over replicas before they are clipped,
    dropout draws numbers of its own on each, and metrics are those of all rows: losses and weights are what one replica
    would have come to with the whole batch. A subclass builds its variables in `__init__`, and its loss is
    its share of the batch's: see `keras_tying.backend.replicas`.
    """

    train_function: Any
    test_function: Any

    def compile(self, *args, **kwargs):
        with scope_of(self):
            super().compile(*args, **kwargs)
        if replicas_of(self) > 1:
            sum_then_apply(self.optimizer)
            replica_seeds(self)

    def compile_from_config(self, config):
        # Keras compiles no loaded model whose `compile` is its own.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    # Keras' own functions cannot take several steps a call on several replicas, nor report on several machines.

    def make_train_function(self, force=False):
        if replicas_of(self) == 1:
            super().make_train_function(force)
        elif force or self.train_function is None:
            self.train_function = steps_on_replicas(self, self.train_step)

    def make_test_function(self, force=False):
        if replicas_of(self) == 1:
            super().make_test_function(force)
        elif force or self.test_function is None:
            self.test_function = steps_on_replicas(self, self.test_step)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras averages the replicas' first batches, which fails on several machines, and loses them if they are read
        # but once. What the compiled metrics need is the first batch of one replica; the model itself is built.
        if replicas_of(self) == 1:
            return super()._maybe_symbolic_build(iterator, data_batch)
        with scope_of(self):
            if self.optimizer is not None:
                self.optimizer.build(self.trainable_variables)
            if self._compile_metrics is not None and not self._compile_metrics.built:
                self._symbolic_build(data_batch=data_batch or first_of_replicas(self, iterator))


def sum_then_apply(optimizer):
    """Makes an optimizer add gradients up over replicas before it measures, clips or checks them, not after."""
    if optimizer is None or "apply" in vars(optimizer):  # there is none, or it does so already
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
    """Makes every replica of `model` draw random numbers of its own."""
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
    """Takes steps of training or evaluation on all replicas: a function from an iterator of batches to metrics."""
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
    """The first batch of an iterator of `fit`, as one replica sees it."""
    _, _, batches = next(iter(iterator))
    local_results = model.distribute_strategy.experimental_local_results
    return keras.tree.map_structure(lambda value: local_results(value)[0], next(batches))
