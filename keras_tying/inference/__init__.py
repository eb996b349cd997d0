"""Trained models with their text: strings in, strings and numbers out."""

from keras_tying.inference.joint_language_model import TrainedJointLanguageModel
from keras_tying.inference.language_model import SentenceScore, TrainedLanguageModel
from keras_tying.inference.translator import TrainedTranslator
from keras_tying.inference.word_vectors import TrainedWordVectors

__all__ = [
    "SentenceScore",
    "TrainedJointLanguageModel",
    "TrainedLanguageModel",
    "TrainedTranslator",
    "TrainedWordVectors",
]
