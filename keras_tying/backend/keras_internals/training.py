"""What Keras builds for `fit`: the model, compiled losses and metrics; and what its steps on JAX start from."""

import keras
from keras.src.utils import tracking


def compiled_metrics(model):
    """The metrics that were passed to `compile`, as one metric, or `None`.

    `Model._compile_metrics`: the public `Model.metrics` contains the metrics of layers as well.
    """
    return model._compile_metrics


def compiled_objects(model):
    """The functions and classes that a model was compiled with and that are not registered, by name.

    `Model._compile_config`: the public `get_compile_config` has their names only.

    Raises:
        ValueError: If two have the same name.
    """
    found: dict[str, object] = {}
    for each in keras.tree.flatten(model._compile_config.config):
        kind = each if hasattr(each, "__name__") else type(each)
        if (
            keras.saving.get_registered_name(kind) == kind.__name__
            and found.setdefault(kind.__name__, kind) is not kind
        ):
            raise ValueError(
                "A copy needs losses and metrics of different names, or registered ones. Received: two named "
                f"{kind.__name__!r}"
            )
    return found


def take_loss_as_built(model):
    """Keeps `fit` from building the compiled loss, which Keras does by calling it on the logits of a first batch.

    `Model._compile_loss.built`: a loss that needs hidden states cannot be called on logits.
    """
    model._compile_loss.built = True


@tracking.no_automatic_dependency_tracking
def use_loss_tracker(model, metric):
    """Makes a metric the one that takes the mean of the losses of batches, in `fit` and `evaluate`.

    `Trainer._loss_tracker`: Keras weights each loss by the rows of one replica. `no_automatic_dependency_tracking`: as
    in `compile`, because a built model takes no new metric otherwise.
    """
    model._loss_tracker = metric


def give_back(model, state):
    """Gives a model on JAX the variables of a state, from which a step of `fit`, `evaluate` or `predict` started.

    `JAXTrainer._jax_state`: Keras empties the variables before the first step, and writes back those of the last step
    that succeeded only.
    """
    names = ["trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"]
    if len(state) == 3:  # of an evaluation
        names.remove("optimizer_variables")
    model._jax_state, model._jax_state_synced = dict(zip(names, state, strict=False)), False
    model.jax_state_sync()
    model._jax_state = None


class BuiltModel(keras.Model):
    """A model that builds itself before `fit`, for training on several replicas.

    `TensorFlowTrainer._maybe_symbolic_build`: there `fit` averages the first batches of the replicas, which fails on
    several machines, and loses these batches of an iterator. `Trainer._symbolic_build` builds compiled metrics.
    """

    def build_for_fit(self, first_batch):
        """Builds the model for `fit`, or returns `False` to let Keras do it.

        `first_batch()` reads a batch of one replica.
        """
        return False

    def build_metrics(self, batch):
        """Builds the metrics that were passed to `compile` from a batch."""
        self._symbolic_build(data_batch=batch)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        def first_batch():
            return data_batch or self.first_of_replicas(next(iter(iterator))[2])

        if not self.build_for_fit(first_batch):
            super()._maybe_symbolic_build(iterator, data_batch)

    def first_of_replicas(self, batches):
        """The first batch of an iterator, for one replica."""
        raise NotImplementedError
