"""What `fit` needs of a model to train it on several replicas at once."""

from typing import Any

import keras

from keras_tying.replicas import (
    first_of_replicas,
    replica_seeds,
    replicas_of,
    scope_of,
    steps_on_replicas,
    sum_then_apply,
)


class ReplicatedModel(keras.Model):
    """A model that `fit` and `evaluate` run under every synchronous `tf.distribute.Strategy` it was made under.

    Each replica takes its rows of a batch. Gradients are added up over replicas before they are clipped,
    dropout draws numbers of its own on each, and metrics are those of all rows: losses and weights are what one replica
    would have come to with the whole batch. A subclass builds its variables in `__init__`, and its loss is
    its share of the batch's: see `keras_tying.replicas`.
    """

    train_function: Any
    test_function: Any

    def compile(self, *args, **kwargs):
        with scope_of(self):
            super().compile(*args, **kwargs)
            sum_then_apply(self)
            replica_seeds(self)

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
