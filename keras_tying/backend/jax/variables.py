"""Variables of a model while `fit` runs: JAX trains on copies of their values."""


def write_back(model):
    model.jax_state_sync()
