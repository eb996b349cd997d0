"""Fast paths of the TensorFlow backend."""
