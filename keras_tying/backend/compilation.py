"""Compiled functions of a model."""

from keras_tying.backend import dispatch


@dispatch
def compile_function(model, function):
    """Compiles `function`, which calls `model` and changes at most its seeds and states.

    Args:
        model: The model whose variables `function` reads. Changes of its non-trainable variables are kept.
        function: Takes and returns structures of tensors.

    Returns:
        A function with the arguments and results of `function`. It is compiled anew for each new shape of arguments.
    """
    return function
