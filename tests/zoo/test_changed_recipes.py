import pytest

from keras_tying.zoo.changed_recipes import assignments, changed_recipe
from keras_tying.zoo.recipes import load_recipe


def test_settings_are_changed_by_their_keys():
    recipe = load_recipe("ptb_small_tied")
    changed = changed_recipe(recipe, {"model.num_layers": 1, "optimisation.learning_rate": 0.5, "loss.tau": 3.0})
    assert changed.model.arguments == {"tied": True, "num_layers": 1}
    assert changed.optimisation.learning_rate == 0.5
    assert changed.loss.arguments == {"tau": 3.0}
    with pytest.raises(ValueError, match=r"data.size: unknown key, expected .*vocabulary_size.*Received: 3"):
        changed_recipe(recipe, {"data.size": 3})


def test_a_changed_value_that_is_nested_too_deeply_is_a_text():
    assert assignments([f"data.corpus={'[' * 100_000}"]) == {"data.corpus": "[" * 100_000}
