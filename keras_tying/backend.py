"""The one thing Keras leaves to each backend: compiling a function of a model."""

import keras


def compile_function(model, function):
    """Compiles `function`, which calls `model` and changes at most its seeds and states.

    Args:
        model: The model whose variables `function` reads; what it changes among those not trained is kept.
        function: Takes and returns structures of tensors.

    Returns:
        A function with the arguments and results of `function`. New shapes are compiled when met.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, reduce_retracing=True, autograph=False)
    if backend == "jax":
        import jax

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
    if backend == "torch":
        import torch

        return torch.no_grad()(function)
    return function
