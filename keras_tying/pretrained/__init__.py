"""Trained models by name: loading them, and publishing them from runs."""

from keras_tying.pretrained.loading import load
from keras_tying.pretrained.publishing import publish

__all__ = ["load", "publish"]
