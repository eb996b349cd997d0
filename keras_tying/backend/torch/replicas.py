"""PyTorch: random numbers that a resumed run draws again."""

from keras_tying.backend.keras_internals.layers import ResumableSeedGenerator


class ReplicaSeedGenerator(ResumableSeedGenerator):
    """A seed generator whose state alone determines dropout masks."""
