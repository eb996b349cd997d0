"""Losses of word sequences, computed from logits or from hidden states."""

from keras_tying.losses.adaptive_cross_entropy import AdaptiveProjection
from keras_tying.losses.augmented_loss import AugmentedLoss
from keras_tying.losses.cross_entropy import SequenceCrossEntropy
from keras_tying.losses.cross_entropy_of_arrays import linear_cross_entropy
from keras_tying.losses.fused_cross_entropy import OutputProjection
from keras_tying.losses.sampled_cross_entropy import SampledCrossEntropy

__all__ = [
    "AdaptiveProjection",
    "AugmentedLoss",
    "OutputProjection",
    "SampledCrossEntropy",
    "SequenceCrossEntropy",
    "linear_cross_entropy",
]
