"""Layers: tied embedding, recurrent layers, attention and dropout."""

from keras_tying.layers.adaptive_embedding import AdaptiveEmbedding
from keras_tying.layers.annotation_attention import AnnotationAttention
from keras_tying.layers.carried_state import CarriedState
from keras_tying.layers.conditional_gru import ConditionalGRU
from keras_tying.layers.dropout import Dropout
from keras_tying.layers.gru import OneBiasGRU
from keras_tying.layers.lstm import LSTM
from keras_tying.layers.mogrifier_lstm import MogrifierLSTM
from keras_tying.layers.recurrent_highway import RecurrentHighway
from keras_tying.layers.section_means import SectionMeans
from keras_tying.layers.tied_dense import TiedDense
from keras_tying.layers.tied_embedding import TiedEmbedding
from keras_tying.layers.word_dropout import WordDropout

__all__ = [
    "LSTM",
    "AdaptiveEmbedding",
    "AnnotationAttention",
    "CarriedState",
    "ConditionalGRU",
    "Dropout",
    "MogrifierLSTM",
    "OneBiasGRU",
    "RecurrentHighway",
    "SectionMeans",
    "TiedDense",
    "TiedEmbedding",
    "WordDropout",
]
