"""JAX: `jax.jit` on the values of the variables of a model."""

import jax
import keras


def compile_function(model, function):
    def stateless(values, *arguments):
        with keras.StatelessScope(zip(model.variables, values, strict=True)) as scope:
            results = function(*arguments)
        return results, [scope.get_current_value(variable) for variable in model.non_trainable_variables]

    compiled = jax.jit(stateless)

    def stateful(*arguments):
        results, changed = compiled([variable.value for variable in model.variables], *arguments)
        for variable, value in zip(model.non_trainable_variables, changed, strict=True):
            variable.assign(value)
        return results

    return stateful
