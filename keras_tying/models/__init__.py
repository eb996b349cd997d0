"""Models: keras.Model subclasses assembled from the layers."""

from keras_tying.models.language_model import LanguageModel

__all__ = ["LanguageModel"]
