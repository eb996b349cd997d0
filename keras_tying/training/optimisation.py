"""Optimizers and learning-rate schedules of recipes."""

from itertools import pairwise

import keras

from keras_tying.optimizers import ClippedSGD
from keras_tying.training.progress import Progress
from keras_tying.zoo.recipes import Optimisation


def make_optimizer(optimisation: Optimisation, updates: int) -> keras.optimizers.Optimizer:
    """The optimizer of a recipe.

    Args:
        optimisation: The recipe's table.
        updates: Number of updates of the whole training, over which a linear schedule falls.

    Raises:
        ValueError: If the settings do not go together.
    """
    o = optimisation
    clipped = o.optimizer == "sgd" and o.clip_norm is not None
    if (o.decoupled_weight_decay or o.l2) and not clipped:
        raise ValueError(
            "optimisation.decoupled_weight_decay and optimisation.l2 need the optimizer sgd with a clip_norm. "
            f"Received: optimizer={o.optimizer!r}, clip_norm={o.clip_norm}"
        )
    if o.final_learning_rate is not None and changes_by_epoch(o):
        raise ValueError(
            "optimisation.final_learning_rate excludes decay and halve_when_worse: choose one schedule. "
            f"Received: final_learning_rate={o.final_learning_rate}, decay={o.decay}, "
            f"halve_when_worse={o.halve_when_worse}"
        )
    rate: float | keras.optimizers.schedules.LearningRateSchedule = o.learning_rate
    if o.final_learning_rate is not None:
        rate = keras.optimizers.schedules.PolynomialDecay(o.learning_rate, updates, o.final_learning_rate)
    if clipped:
        return ClippedSGD(
            rate, clip_norm=o.clip_norm, decoupled_weight_decay=o.decoupled_weight_decay, weight_decay=o.l2 or None
        )
    if o.optimizer == "sgd":
        return keras.optimizers.SGD(rate)
    if o.optimizer == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, global_clipnorm=o.clip_norm)
    return keras.optimizers.Adam(rate, global_clipnorm=o.clip_norm)


def changes_by_epoch(optimisation: Optimisation) -> bool:
    """Whether the learning rate changes from epoch to epoch."""
    decays = optimisation.full_rate_epochs is not None and optimisation.decay < 1
    return decays or optimisation.halve_when_worse


def learning_rate(optimisation: Optimisation, progress: Progress) -> float:
    """The learning rate of the current epoch, for schedules that change it by epoch."""
    rate = optimisation.learning_rate
    if optimisation.full_rate_epochs is not None:
        rate = decayed_rate(progress.epoch, rate, optimisation.full_rate_epochs, optimisation.decay)
    if optimisation.halve_when_worse:
        rate = halved_rate([metrics["val_perplexity"] for metrics in progress.history], rate)
    return rate


def decayed_rate(epoch: int, learning_rate: float, full_rate_epochs: int, decay: float) -> float:
    """The full rate for the first epochs, then smaller by a factor for each further epoch.

    Args:
        epoch: Counted from 0.
        learning_rate: The full rate.
        full_rate_epochs: Number of epochs at the full rate.
        decay: The factor.

    Example:

    >>> [decayed_rate(epoch, 1.0, 4, 0.5) for epoch in (0, 3, 4, 5)]
    [1.0, 1.0, 0.5, 0.25]

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """
    return learning_rate * decay ** max(epoch + 1 - full_rate_epochs, 0)


def halved_rate(perplexities: list[float], learning_rate: float) -> float:
    """The rate, halved for each epoch that made the validation perplexity worse.

    Args:
        perplexities: Validation perplexities of the epochs so far.
        learning_rate: The full rate.

    Example:

    >>> halved_rate([90.0, 80.0, 81.0, 79.0], 0.3)
    0.15

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 4.
    """
    return learning_rate * 0.5 ** sum(later > earlier for earlier, later in pairwise(perplexities))
