"""Fast paths of the PyTorch backend."""
