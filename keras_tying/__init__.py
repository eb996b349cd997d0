"""A model zoo for weight tying: one variable embeds words on the way in and scores them on the way out."""

from keras_tying import data, layers, losses, metrics, models, optimizers, regularizers, zoo
from keras_tying.version import __version__

__all__ = ["__version__", "data", "layers", "losses", "metrics", "models", "optimizers", "regularizers", "zoo"]
