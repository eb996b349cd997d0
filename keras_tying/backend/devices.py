"""Names of the accelerators that the current backend computes on."""

from keras_tying.backend import dispatch


@dispatch
def accelerators():
    """Names of the accelerators, for example `["NVIDIA A100"]`; an empty list if there is only a CPU."""
    return []
