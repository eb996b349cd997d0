"""The one thing Keras leaves to each backend: compiling a function of a model."""

import keras


def compile_function(model, function):
    """Compiles `function`, which calls `model` and changes none of its variables.

    Args:
        model: The model whose variables `function` reads.
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
            with keras.StatelessScope(zip(model.variables, values, strict=True)):
                return function(*arguments)

        compiled = jax.jit(stateless)
        return lambda *arguments: compiled([variable.value for variable in model.variables], *arguments)
    if backend == "torch":
        import torch

        return torch.no_grad()(function)
    return function
