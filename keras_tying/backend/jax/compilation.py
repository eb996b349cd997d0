"""JAX: `jax.jit` on the values of the variables of a model, and training steps in a loop of one compiled call."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_tying.backend.keras_internals.training import give_back


def compile_function(model, function):
    def stateless(values, *arguments):
        with keras.StatelessScope(zip(model.variables, values, strict=True)) as scope:
            results = function(*arguments)
        after = [scope.get_current_value(variable) for variable in model.variables]
        changes = zip(values, after, strict=True)
        return results, {place: new for place, (old, new) in enumerate(changes) if new is not old}

    compiled = jax.jit(stateless)

    def stateful(*arguments):
        variables = model.variables
        results, changed = compiled([variable.value for variable in variables], *arguments)
        for place, value in changed.items():
            variables[place].assign(value)
        return results

    return stateful


def loop_steps(model, train_function):
    """As the portable `loop_steps`. One program runs any number of steps up to `steps_per_execution`.

    The state of a step has all variables, also those of seed generators, so masks are those of single steps.
    """
    longest = model.steps_per_execution
    if longest == 1 or model.run_eagerly or not model.jit_compile or keras.distribution.distribution() is not None:
        return train_function
    train_step = jax.jit(model.train_step)  # traced once, for the shapes of the logs and for the loop

    @partial(jax.jit, donate_argnums=0)
    def steps(state, batches, count):
        def step(place, before):
            return train_step(before[1], jax.tree.map(lambda each: each[place], batches))

        logs, _ = jax.eval_shape(step, 0, (None, state))
        logs = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), logs)
        return jax.lax.fori_loop(0, count, step, (logs, state))

    group_of_steps = keep_variables(model, steps)  # if a group fails, the model has the state of the one before

    def several_steps(state, iterator):
        batches = list(itertools.islice(iterator, longest))
        if not batches:
            raise StopIteration  # the end of the data, as Keras expects
        for _, alike in itertools.groupby(batches, _shapes):
            group = list(alike)
            padded = group + group[-1:] * (longest - len(group))  # so that few steps run in the same program
            logs, state = group_of_steps(state, jax.tree.map(_stacked, *padded), len(group))
        return logs, state

    return several_steps


def keep_variables(model, step_function):
    """As the portable `keep_variables`. What fails while it runs, and not before, may have freed the values."""

    def step(state, *arguments):
        try:
            return step_function(state, *arguments)
        except StopIteration:  # the end of the data
            raise
        except BaseException:
            if not any(value.is_deleted() for value in jax.tree.leaves(state)):
                give_back(model, state)
            raise

    return step


def write_back(model):
    model.jax_state_sync()


def _shapes(batch):
    leaves, structure = jax.tree.flatten(batch)
    return structure, [(each.shape, each.dtype) for each in leaves]


def _stacked(*arrays):
    return (np if isinstance(arrays[0], np.ndarray) else jnp).stack(arrays)
