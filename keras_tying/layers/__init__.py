"""Layers: the tied embedding and the recurrences around it."""

from keras_tying.layers.carried_state import CarriedState
from keras_tying.layers.lstm import LSTM
from keras_tying.layers.tied_dense import TiedDense
from keras_tying.layers.tied_embedding import TiedEmbedding

__all__ = ["LSTM", "CarriedState", "TiedDense", "TiedEmbedding"]
