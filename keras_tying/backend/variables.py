"""Variables of a model during `fit`."""

from keras_tying.backend import dispatch


@dispatch
def write_back(model):
    """Writes the current values of `fit` to the variables of `model`, on backends where `fit` trains copies."""
