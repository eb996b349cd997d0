"""What a training step knows of the other replicas of the model; see docs/distributed.md.

Each replica has some rows of a batch. Losses divide by the rows or tokens of all replicas, so that the gradients of
the replicas add up to the gradient of the whole batch.
"""

from contextlib import nullcontext

from keras import ops

from keras_tying.backend import dispatch


@dispatch
def scope_of(model):
    """The context in which variables and the optimizer of `model` are made."""
    return nullcontext()


@dispatch
def replicas_of(model):
    """How many replicas of `model` there are."""
    return 1


@dispatch
def is_chief(model):
    """Whether this process is the one of all workers that writes files and prints."""
    return True


@dispatch
def sum_over_workers(model, numbers):
    """Numbers of this process, each added up over all workers; all of them must call it."""
    return numbers


@dispatch
def replicas_in_step():
    """How many replicas take the step together that is being computed."""
    return 1


@dispatch
def sum_over_replicas(values):
    """A list of tensors of this replica, each added up over all replicas."""
    return values


@dispatch
def part_of(model, batch_size):
    """How many rows of a batch each replica of `model` has."""
    return batch_size


@dispatch
def rows_of_all(model, variable):
    """A variable of which every replica has its own rows, as one array with the rows of all."""
    return ops.convert_to_numpy(variable)


@dispatch
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
