"""Distribution: strategies for several devices and machines, and a cluster of workers on one machine."""

from keras_tying.distribution.strategies import STRATEGIES, Distribution, open_distribution

__all__ = ["STRATEGIES", "Distribution", "open_distribution"]
