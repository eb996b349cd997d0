"""Compiled functions of a model, and its variables during compiled training."""

from keras_tying.backend import dispatch


@dispatch
def compile_function(model, function):
    """Compiles a function that calls a model.

    Args:
        model: The model whose variables `function` reads. `function` may change them.
        function: Takes and returns structures of tensors.

    Returns:
        A function with the arguments and results of `function`. It is compiled again for each new shape of arguments.
    """
    return function


@dispatch
def loop_steps(model, train_function):
    """Training of several steps per call, for `make_train_function` of a model.

    Args:
        model: A compiled `keras.Model`.
        train_function: What the `make_train_function` of Keras has made.

    Returns:
        A function with the arguments and results of `train_function`. Where `steps_per_execution` is above 1 and the
        backend has a loop for it, the function compiles one step and loops over it.
    """
    return train_function


@dispatch
def keep_variables(model, step_function):
    """A step after whose failure a model has its variables, on backends where `fit` takes them away.

    Args:
        model: The model.
        step_function: A training, evaluation or prediction step of Keras, or one with its first argument and errors.
    """
    return step_function


@dispatch
def write_back(model):
    """Writes the current values of `fit` to the variables of `model`, on backends where `fit` trains copies."""
