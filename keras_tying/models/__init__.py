"""Models: subclasses of `keras.Model` composed of layers."""

from keras_tying.models.backbone_model import BackboneModel, without_logits
from keras_tying.models.joint_language_model import JointLanguageModel
from keras_tying.models.language_model import LanguageModel
from keras_tying.models.layouts import vocabulary_layout
from keras_tying.models.next_word_model import Example, Losses, NextWordModel
from keras_tying.models.skip_gram import PairLosses, SkipGram
from keras_tying.models.translator import Translator

__all__ = [
    "BackboneModel",
    "Example",
    "JointLanguageModel",
    "LanguageModel",
    "Losses",
    "NextWordModel",
    "PairLosses",
    "SkipGram",
    "Translator",
    "vocabulary_layout",
    "without_logits",
]
