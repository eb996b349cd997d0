"""Losses: the cross-entropy of a sequence, fused with the output layer where a model allows it."""

from keras_tying.losses.augmented_loss import AugmentedLoss
from keras_tying.losses.cross_entropy import SequenceCrossEntropy
from keras_tying.losses.output_layer import OutputLayer
from keras_tying.losses.sampled_cross_entropy import SampledCrossEntropy

__all__ = ["AugmentedLoss", "OutputLayer", "SampledCrossEntropy", "SequenceCrossEntropy"]
