"""Variables of a model while `fit` runs."""

from keras_tying.backend import dispatch


@dispatch
def write_back(model):
    """Writes the values that `fit` holds to the variables of `model`, on backends where the two differ."""
