"""Models: keras.Model subclasses assembled from the layers."""

from keras_tying.models.joint_language_model import JointLanguageModel
from keras_tying.models.language_model import LanguageModel
from keras_tying.models.skip_gram import SkipGram
from keras_tying.models.translator import Translator
from keras_tying.models.variational_dropout import VariationalDropout

__all__ = ["JointLanguageModel", "LanguageModel", "SkipGram", "Translator", "VariationalDropout"]
