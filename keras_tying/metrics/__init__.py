"""Metrics: what the published tables are measured in."""

from keras_tying.metrics.perplexity import Perplexity

__all__ = ["Perplexity"]
