"""TensorFlow: base class of models that train under a `tf.distribute.Strategy`."""

from typing import Any

import keras
import tensorflow as tf

from keras_tying.backend.keras_internals.optimizers import plain_optimizer, summing_optimizer
from keras_tying.backend.keras_internals.training import BuiltModel, compiled_metrics, use_loss_tracker
from keras_tying.backend.replicas import (
    build_optimizer,
    replicas_in_step,
    replicas_of,
    rows_of_all_replicas,
    scope_of,
    sum_over_replicas,
)


class MeanOfBatches(keras.metrics.Mean):
    """The mean of the losses of batches, weighted by their rows. Each replica gives its part, times the replicas."""

    def update_state(self, values, sample_weight=None):
        known = tf.get_static_value(sample_weight)
        rows = rows_of_all_replicas(sample_weight if known is None else int(known))
        super().update_state(values, rows / replicas_in_step())


class ReplicatedModel(BuiltModel):
    """A model that trains under the synchronous `tf.distribute.Strategy` in whose scope it was created.

    Each replica processes its rows of a batch. Gradients are summed over replicas before they are clipped, and metrics
    are over all rows, so losses and weights are those of one replica with the whole batch. With several replicas
    `model.optimizer` is a copy of the optimizer passed to `compile`.

    A subclass builds its variables in `__init__`. Its loss on a replica is that replica's part of the loss of the batch
    (see `keras_tying.backend.replicas`), and its layers draw random numbers from a `ReplicaSeedGenerator`.
    """

    train_function: Any
    test_function: Any

    def compile(self, optimizer="rmsprop", *args, auto_scale_loss=True, **kwargs):
        with scope_of(self):
            optimizer = keras.optimizers.get(optimizer)
            if replicas_of(self) > 1 and optimizer is not None:
                scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
                if auto_scale_loss and self.dtype_policy.name == "mixed_float16" and not scaled:
                    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
                optimizer = summing_optimizer(optimizer, sum_gradients)
            super().compile(optimizer, *args, auto_scale_loss=auto_scale_loss, **kwargs)
            if replicas_of(self) > 1:
                use_loss_tracker(self, MeanOfBatches(name="loss"))

    def get_compile_config(self):
        config = super().get_compile_config()
        if replicas_of(self) > 1 and config.get("optimizer") is not None:
            config["optimizer"] = keras.saving.serialize_keras_object(plain_optimizer(self.optimizer))
        return config

    # With several replicas, the functions of Keras support neither several steps per call nor several machines.

    def make_train_function(self, force=False):
        if replicas_of(self) == 1:
            if self.built:  # else the first step makes the optimizer's variables, and TensorFlow traces it twice
                build_optimizer(self)
            super().make_train_function(force)
        elif force or self.train_function is None:
            self.train_function = steps_on_replicas(self, self.train_step)

    def make_test_function(self, force=False):
        if replicas_of(self) == 1:
            super().make_test_function(force)
        elif force or self.test_function is None:
            self.test_function = steps_on_replicas(self, self.test_step)

    def build_for_fit(self, first_batch):
        if replicas_of(self) == 1:
            return False
        build_optimizer(self)
        metrics = compiled_metrics(self)
        if metrics is not None and not metrics.built:
            with scope_of(self):
                self.build_metrics(first_batch())
        return True

    def first_of_replicas(self, batches):
        local_results = self.distribute_strategy.experimental_local_results
        return keras.tree.map_structure(lambda value: local_results(value)[0], next(batches))


def sum_gradients(gradients):
    """The sum over replicas of each gradient in a list, in which items can be `None`."""
    gradients = list(gradients)
    sums = iter(sum_over_replicas([gradient for gradient in gradients if gradient is not None]))
    return [None if gradient is None else next(sums) for gradient in gradients]


def steps_on_replicas(model, step):
    """A function that runs training or evaluation steps on all replicas, from an iterator of batches to metrics."""
    strategy = model.distribute_strategy
    taken = tf.Variable(0, dtype=tf.int64)  # steps so far
    compiled = (lambda function: function) if model.run_eagerly else tf.function(reduce_retracing=True)

    @tf.autograph.experimental.do_not_convert
    def after_reading(batch):
        # Without a batch no operation of the step must run, not even one that does not depend on the batch.
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
        except tf.errors.OutOfRangeError:  # the iterator had fewer batches, or none
            if int(taken) == before:
                raise
        return model.get_metrics_result()

    return steps
