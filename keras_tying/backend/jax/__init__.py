"""Fast paths of the JAX backend."""
