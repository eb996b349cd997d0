"""What a step of training must know of the other replicas of the model: see docs/distributed.md.

A replica sees some rows of each batch. Losses divide by what all replicas see, so that the gradients of all,
added up, are the gradient of the whole batch.
"""

from contextlib import nullcontext

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from keras_tying.replicas_tensorflow import (
        is_chief,
        part_of,
        replicas_in_step,
        replicas_of,
        rows_of_all,
        scope_of,
        set_rows_of_all,
        sum_over_replicas,
        sum_over_workers,
    )
else:

    def scope_of(model):
        """The context in which variables and the optimizer of `model` are made."""
        return nullcontext()

    def replicas_of(model):
        """How many replicas of `model` there are."""
        return 1

    def is_chief(model):
        """Whether this process is the one of all workers that writes files and prints."""
        return True

    def sum_over_workers(model, numbers):
        """Numbers of this process, each added up over all workers; all of them must call it."""
        return numbers

    def replicas_in_step():
        """How many replicas take the step together that is being computed."""
        return 1

    def sum_over_replicas(values):
        """A list of tensors of this replica, each added up over all replicas."""
        return values

    def part_of(model, batch_size):
        """How many rows of a batch each replica of `model` has."""
        return batch_size

    def rows_of_all(model, variable):
        """A variable of which every replica has its own rows, as one array with the rows of all."""
        return ops.convert_to_numpy(variable)

    def set_rows_of_all(model, rows):
        """Gives every replica its rows: `rows` has pairs of a variable and an array with the rows of all."""
        for variable, values in rows:
            variable.assign(values)


def of_chief(model, number):
    """The chief's number, on all workers: what they decide by it, they decide alike."""
    return sum_over_workers(model, [number if is_chief(model) else 0.0])[0]


def has_own_rows(variable):
    """Whether every replica has its own rows of a variable, as of a carried state."""
    return variable.synchronization == "on_read" and variable.aggregation == "only_first_replica"


def rows_of_batch(array):
    """Rows of the whole batch of which `array` has this replica's, a float32 scalar."""
    return ops.cast(ops.shape(array)[0], "float32") * replicas_in_step()
