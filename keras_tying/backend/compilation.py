"""Compiled functions of a model."""

from keras_tying.backend import dispatch


@dispatch
def compile_function(model, function):
    """Compiles a function that calls a model.

    Args:
        model: The model whose variables `function` reads. `function` may change its non-trainable variables.
        function: Takes and returns structures of tensors.

    Returns:
        A function with the arguments and results of `function`. It is compiled again for each new shape of arguments.
    """
    return function
