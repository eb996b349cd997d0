import math

import pytest

from keras_tying.optimizers import ClippedAdam, ClippedSGD
from keras_tying.training.optimisation import averaging_starts, make_optimizer
from keras_tying.zoo.recipes import TokenBatchOptimisation, WindowOptimisation


def optimizer(updates_per_epoch=10, **settings):
    return make_optimizer(WindowOptimisation(**{"decay": 1.0, "epochs": 4, **settings}), updates_per_epoch)


def rates(optimizer, updates):
    found = []
    for step in updates:
        optimizer.iterations.assign(step)
        found.append(float(optimizer.learning_rate))
    return found


def test_a_cosine_ends_with_the_last_epoch():
    made = optimizer(learning_rate=0.8, final_learning_rate=0.2, schedule="cosine")
    expected = [0.2 + 0.6 * (1 + math.cos(math.pi * step / 40)) / 2 for step in (0, 10, 20, 40)]
    assert rates(made, (0, 10, 20, 40)) == pytest.approx(expected)


def test_a_warm_up_before_the_cosine_makes_one_cycle():
    made = optimizer(learning_rate=0.8, final_learning_rate=0.0, schedule="cosine", warmup_epochs=1)
    expected = [0.0, 0.4, 0.8, 0.4, 0.0]
    assert rates(made, (0, 5, 10, 25, 40)) == pytest.approx(expected, abs=1e-6)


def test_a_warm_up_that_is_longer_than_the_updates_is_named_with_them():
    settings = TokenBatchOptimisation(
        epochs=9, updates=25, warmup_epochs=3, schedule="cosine", final_learning_rate=0.0, decay=1.0
    )
    with pytest.raises(ValueError, match=r"fewer than the 2\.5 epochs .* warmup_epochs=3\.0, epochs=9, updates=25$"):
        make_optimizer(settings, updates_per_epoch=10)


def test_rmsprop_is_adam_without_momentum():
    made = optimizer(optimizer="rmsprop", learning_rate=0.005, clip_norm=10.0, l2=1e-4, averaging="exponential")
    assert isinstance(made, ClippedAdam)
    assert (made.beta_1, made.beta_2, made.clip_norm, made.l2, made.average_momentum) == (0.0, 0.999, 10.0, 1e-4, 0.999)


def test_non_monotonic_averaging_waits_for_its_start():
    made = optimizer(clip_norm=0.25, averaging="non_monotonic")
    assert isinstance(made, ClippedSGD)
    assert (made.average_momentum, made.average_from_start) == (1.0, False)


@pytest.mark.parametrize(
    ("perplexities", "starts"),
    [
        ([5.0, 4.0, 4.5], False),
        ([3.0, 5.0, 5.0, 4.0], True),
        ([5.0, 4.0, 3.0, 4.5], False),
        ([5.0, 4.0, 3.0, 6.0], True),
    ],
)
def test_averaging_starts_when_validation_is_worse_than_the_best_of_all_but_the_last(perplexities, starts):
    assert averaging_starts(perplexities, 2) is starts


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adadelta", "averaging": "exponential"},
        {"clip_norm": None, "averaging": "exponential"},
        {"optimizer": "adam", "decoupled_weight_decay": 0.1},
        {"beta_2": 0.9},
        {"average_momentum": 0.9},
        {"averaging": "exponential", "clip_norm": 1.0, "non_monotonic_epochs": 2},
        {"full_rate_epochs": None, "decay": 0.9},
        {"schedule": "cosine"},
        {"warmup_epochs": 1},
        {"final_learning_rate": 0.0, "warmup_epochs": 1},
        {"final_learning_rate": 0.0, "schedule": "cosine", "warmup_epochs": 4},
        {"final_learning_rate": 0.0, "schedule": "cosine", "warmup_epochs": 3.95},  # 39.5 of 40 updates
        {"final_learning_rate": 0.0, "schedule": "cosine", "warmup_epochs": 1e307},
        {"final_learning_rate": 0.0, "schedule": "cosine", "decay": 0.5},
    ],
)
def test_settings_that_do_not_go_together_raise(settings):
    with pytest.raises(ValueError, match="Received"):
        optimizer(**settings)
