"""Trained models with their text, and three ways to adapt a language model to the text it is measured on."""

from keras_tying.inference.dynamic_evaluation import DynamicEvaluation
from keras_tying.inference.joint_language_model import TrainedJointLanguageModel
from keras_tying.inference.language_model import SentenceScore, TrainedLanguageModel
from keras_tying.inference.neural_cache import NeuralCache
from keras_tying.inference.temperature import TemperedSoftmax
from keras_tying.inference.translator import TrainedTranslator
from keras_tying.inference.word_vectors import TrainedWordVectors

__all__ = [
    "DynamicEvaluation",
    "NeuralCache",
    "SentenceScore",
    "TemperedSoftmax",
    "TrainedJointLanguageModel",
    "TrainedLanguageModel",
    "TrainedTranslator",
    "TrainedWordVectors",
]
