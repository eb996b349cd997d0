"""Losses of word sequences, computed from logits or from hidden states."""

from keras_tying.losses.augmented_loss import AugmentedLoss
from keras_tying.losses.cross_entropy import OutputProjection, SequenceCrossEntropy
from keras_tying.losses.sampled_cross_entropy import SampledCrossEntropy

__all__ = ["AugmentedLoss", "OutputProjection", "SampledCrossEntropy", "SequenceCrossEntropy"]
