"""Optimizers and learning-rate schedules of recipes."""

from itertools import pairwise

import keras

from keras_tying.optimizers import ClippedAdam, ClippedSGD
from keras_tying.training.progress import Progress
from keras_tying.zoo.recipes import Optimisation


def length(optimisation: Optimisation, updates_per_epoch: int) -> tuple[int, int]:
    """The number of epochs, and the number of updates that are left out of the last one.

    Args:
        optimisation: The recipe's table.
        updates_per_epoch: Number of updates of a whole epoch.

    Example:

    >>> from keras_tying.zoo.recipes import TokenBatchOptimisation
    >>> recipe = TokenBatchOptimisation(epochs=9, updates=25)
    >>> length(recipe, 10), length(recipe, 2), length(recipe, 5)
    ((3, 5), (9, 0), (5, 0))
    """
    updates = getattr(optimisation, "updates", None)  # a key of one task
    epochs = optimisation.epochs if updates is None else -(-updates // updates_per_epoch)
    if updates is None or epochs > optimisation.epochs:
        return optimisation.epochs, 0
    return epochs, epochs * updates_per_epoch - updates


def make_optimizer(optimisation: Optimisation, updates_per_epoch: int) -> keras.optimizers.Optimizer:
    """The optimizer of a recipe.

    Args:
        optimisation: The recipe's table.
        updates_per_epoch: Number of updates per epoch. The schedules end with the last epoch.

    Raises:
        ValueError: If the settings do not go together.
    """
    o = optimisation
    adaptive = o.optimizer in ("adam", "rmsprop")
    ours = adaptive or (o.optimizer == "sgd" and o.clip_norm is not None)
    needs = {
        "decoupled_weight_decay": (ours and not adaptive, "the optimizer sgd with a clip_norm"),
        "l2": (ours, "the optimizer adam, rmsprop, or sgd with a clip_norm"),
        "averaging": (ours, "the optimizer adam, rmsprop, or sgd with a clip_norm"),
        "beta_2": (adaptive, "the optimizer adam or rmsprop"),
        "average_momentum": (o.averaging == "exponential", 'averaging="exponential"'),
        "non_monotonic_epochs": (o.averaging == "non_monotonic", 'averaging="non_monotonic"'),
        "decay": (o.full_rate_epochs is not None or o.decay == 1, "full_rate_epochs"),
    }
    for name, (possible, what) in needs.items():
        value = getattr(o, name)
        if not possible and value != type(o).model_fields[name].default:
            raise ValueError(
                f"optimisation.{name} needs {what}. Received: {name}={value!r}, optimizer={o.optimizer!r}, "
                f"clip_norm={o.clip_norm}, averaging={o.averaging!r}, full_rate_epochs={o.full_rate_epochs}"
            )
    rate = _schedule(o, updates_per_epoch)
    averaging = {
        "average_momentum": {None: None, "exponential": o.average_momentum, "non_monotonic": 1.0}[o.averaging],
        "average_from_start": o.averaging != "non_monotonic",
    }
    if adaptive:
        beta_1, epsilon = (0.0, 1e-8) if o.optimizer == "rmsprop" else (0.9, 1e-7)
        return ClippedAdam(rate, beta_1, o.beta_2, epsilon, clip_norm=o.clip_norm, l2=o.l2, **averaging)
    if ours:
        return ClippedSGD(
            rate,
            clip_norm=o.clip_norm,
            decoupled_weight_decay=o.decoupled_weight_decay,
            weight_decay=o.l2 or None,
            **averaging,
        )
    if o.optimizer == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, global_clipnorm=o.clip_norm)
    return keras.optimizers.SGD(rate)


def _schedule(o: Optimisation, updates_per_epoch: int) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate, or a schedule that ends with the last epoch."""
    if o.final_learning_rate is None:
        if o.schedule != "linear" or o.warmup_epochs:
            raise ValueError(
                "optimisation.schedule and optimisation.warmup_epochs need final_learning_rate. "
                f"Received: schedule={o.schedule!r}, warmup_epochs={o.warmup_epochs}, final_learning_rate=None"
            )
        return o.learning_rate
    if changes_by_epoch(o):
        raise ValueError(
            "optimisation.final_learning_rate excludes decay and halve_when_worse: choose one schedule. "
            f"Received: final_learning_rate={o.final_learning_rate}, decay={o.decay}, "
            f"halve_when_worse={o.halve_when_worse}"
        )
    epochs, left_out = length(o, updates_per_epoch)
    updates = epochs * updates_per_epoch - left_out
    if not updates:
        return o.learning_rate
    if o.schedule == "linear":
        if o.warmup_epochs:
            raise ValueError(
                'optimisation.warmup_epochs needs schedule="cosine". '
                f"Received: schedule={o.schedule!r}, warmup_epochs={o.warmup_epochs}"
            )
        return keras.optimizers.schedules.PolynomialDecay(o.learning_rate, updates, o.final_learning_rate)
    warmup = round(min(o.warmup_epochs * updates_per_epoch, updates))  # a product may be infinite
    if warmup >= updates:
        raise ValueError(
            f"optimisation.warmup_epochs must be fewer than the {updates / updates_per_epoch:g} epochs of training. "
            f"Received: warmup_epochs={o.warmup_epochs}, epochs={o.epochs}"
            + (f", updates={updates}" if left_out else "")
        )
    final = o.final_learning_rate / o.learning_rate
    if not warmup:
        return keras.optimizers.schedules.CosineDecay(o.learning_rate, updates, final)
    return keras.optimizers.schedules.CosineDecay(
        0.0, updates - warmup, final, warmup_target=o.learning_rate, warmup_steps=warmup
    )


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


def averaging_starts(perplexities: list[float], epochs: int) -> bool:
    """Whether the mean of NT-ASGD starts after the last of these epochs.

    Args:
        perplexities: Validation perplexities of the epochs so far.
        epochs: Number of epochs before the last one whose perplexities do not count.

    Example:

    >>> averaging_starts([90.0, 80.0, 75.0, 70.0], 2), averaging_starts([90.0, 80.0, 82.0, 81.0, 81.0], 2)
    (False, True)

    Reference:
        Merity, Keskar and Socher, Regularizing and Optimizing LSTM Language Models, 2018, algorithm 1.
    """
    *earlier, last = perplexities
    return len(earlier) > epochs and last > min(earlier[:-epochs])
