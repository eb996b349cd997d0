"""Metrics: what the published tables are measured in."""

from keras_tying.metrics.neighbours import nearest_neighbours, unit_rows
from keras_tying.metrics.perplexity import Perplexity

__all__ = ["Perplexity", "nearest_neighbours", "unit_rows"]
