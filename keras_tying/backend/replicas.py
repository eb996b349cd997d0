"""Functions for the replicas of a model, see docs/distributed.md.

Each replica has some rows of a batch. Losses are divided by the number of rows or tokens of all replicas, so that the
sum of the gradients of all replicas is the gradient of the whole batch.
"""

from contextlib import nullcontext

import keras
from keras import ops

from keras_tying.backend import dispatch


@dispatch
def scope_of(model):
    """The context in which the variables and the optimizer of `model` are created."""
    return nullcontext()


def build_optimizer(model):
    """Builds the optimizer of `model`, if there is one, once: a `LossScaleOptimizer` would begin its scale anew."""
    if model.optimizer is not None and not model.optimizer.built:
        with scope_of(model):
            model.optimizer.build(model.trainable_variables)


@dispatch
def replicas_of(model):
    """Number of replicas of `model`."""
    return 1


@dispatch
def is_chief(model):
    """Whether this process is the worker that writes files and prints."""
    return True


@dispatch
def sum_over_workers(model, numbers):
    """The sum over all workers of each of `numbers`. All workers must call this function."""
    return numbers


@dispatch
def replicas_in_step():
    """Number of replicas that compute the current step."""
    return 1


@dispatch
def sum_over_replicas(values):
    """The sum over all replicas of each tensor in a list."""
    return values


@dispatch
def part_of(model, batch_size):
    """Number of rows of a batch for each replica of `model`."""
    return batch_size


def rows_per_replica(batch_size, replicas):
    """Number of rows of a batch for each of `replicas`. Raises ValueError if they cannot be divided evenly."""
    if batch_size % replicas:
        raise ValueError(
            f"The rows of a batch are divided evenly among {replicas} replicas. "
            f"Received: a batch of {batch_size} rows. Use a multiple of {replicas}."
        )
    return batch_size // replicas


@dispatch
def rows_of_all(model, variable):
    """The rows of all replicas, as one array, of a variable of which every replica has its own rows."""
    return ops.convert_to_numpy(variable)


@dispatch
def set_rows_of_all(model, rows):
    """Sets variables of which every replica has its own rows.

    `rows` has pairs of a variable and an array with the rows of all replicas.
    """
    for variable, values in rows:
        variable.assign(values)


def of_chief(model, numbers):
    """The numbers of the chief, on all workers, so that all workers make the same decision. All must call this."""
    return sum_over_workers(model, numbers if is_chief(model) else [0.0] * len(numbers))


def has_own_rows(variable):
    """Whether every replica has its own rows of a variable, for example of a carried state."""
    return variable.synchronization == "on_read" and variable.aggregation == "only_first_replica"


def rows_of_batch(array):
    """Number of rows of the batch over all replicas, a float32 scalar. `array` has the rows of this replica."""
    return rows_of_all_replicas(ops.shape(array)[0])


def rows_of_all_replicas(rows):
    """The sum over all replicas of their number of rows, float32. Where it is an integer, all have as many."""
    if isinstance(rows, int):
        return ops.cast(rows * replicas_in_step(), "float32")
    (total,) = sum_over_replicas([ops.cast(rows, "float32")])
    return total


@dispatch
class ReplicaSeedGenerator(keras.random.SeedGenerator):
    """A seed generator with different seeds on each replica of a model, so that dropout masks differ.

    This portable class is for one replica.
    """
