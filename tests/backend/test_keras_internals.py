"""The private names of Keras exist as the library uses them, and the functions that use them work."""

import inspect
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.backend.keras_internals.layers import ResumableSeedGenerator
from keras_tying.backend.keras_internals.optimizers import plain_optimizer, summing_optimizer, without_loss_scale
from keras_tying.backend.replicas import ReplicaSeedGenerator

LIBRARY = Path(kt.__file__).parent
INTERNALS = LIBRARY / "backend" / "keras_internals"
LSTM, EMBEDDING, OPTIMIZER = keras.layers.LSTM, keras.layers.ReversibleEmbedding, keras.optimizers.Optimizer


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (LSTM.inner_loop, ["self", "sequences", "initial_state", "mask", "training"]),
        (LSTM._maybe_config_dropout_masks, ["self", "cell", "input_sequence", "input_state"]),
        (EMBEDDING._int8_call, ["self", "inputs", "reverse"]),
        (EMBEDDING._int4_call, ["self", "inputs", "reverse"]),
        (EMBEDDING._not_implemented_error, ["self", "attr", "msg"]),
        (keras.Model._flatten_layers, ["self", "include_self", "recursive"]),
        (keras.Model._maybe_symbolic_build, ["self", "iterator", "data_batch"]),
        (keras.Model._symbolic_build, ["self", "iterator", "data_batch"]),
        (OPTIMIZER._all_reduce_sum_gradients, ["self", "grads_and_vars"]),
        (OPTIMIZER._clip_gradients, ["self", "grads"]),
        (OPTIMIZER._var_key, ["self", "variable"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_keras_has_the_methods_that_are_overridden_or_called(method, arguments):
    assert list(inspect.signature(method).parameters) == arguments


@pytest.mark.parametrize(
    ("calling", "called"),
    [
        (keras.layers.RNN.call, "self.inner_loop("),
        (keras.layers.RNN.call, "self._maybe_config_dropout_masks("),
        (keras.layers.ReversibleEmbedding.quantized_call, "self._int8_call("),
        (keras.Model.quantize, "if not should_quantize_layer(layer, filters)"),
        (keras.Model.fit, "self._maybe_symbolic_build(iterator="),
        (OPTIMIZER._backend_update_step, "self._all_reduce_sum_gradients("),
        (OPTIMIZER._backend_apply_gradients, "grads = self._clip_gradients(grads)"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_keras_calls_the_methods_that_are_overridden(calling, called):
    assert called in inspect.getsource(inspect.unwrap(calling))


def test_keras_has_the_attributes_that_are_read():
    model = kt.zoo.skip_gram(3, 2)
    model.compile("sgd", metrics=["mae"])
    assert isinstance(model._compile_metrics, keras.metrics.Metric)
    assert isinstance(model._loss_tracker, keras.metrics.Mean)
    compiled = keras.Sequential([keras.layers.Dense(2)])
    compiled.compile("sgd", "mse")
    assert compiled._compile_loss.built is False
    model.optimizer.build(model.trainable_variables)
    assert list(model.optimizer._trainable_variables) == list(model.trainable_variables)
    ids = np.array([[3, 0]])
    mask = keras.layers.Embedding(4, 2, mask_zero=True)(ids)._keras_mask
    np.testing.assert_array_equal(mask, ids != 0)


def test_an_optimizer_is_found_with_and_without_a_loss_scale():
    optimizer = keras.optimizers.SGD()
    assert without_loss_scale(optimizer) is optimizer
    assert without_loss_scale(keras.optimizers.LossScaleOptimizer(optimizer)) is optimizer


def private_names():
    """Private names of Keras that `keras_internals` uses."""
    source = "".join(path.read_text() for path in sorted(INTERNALS.glob("*.py")))
    own = {"_SumsGradients", "_GivenSums", "_subclass", "_loss_scale", "_with_nested"}
    own |= {"_vectors", "_scores", "_products", "_without_lora", "_scaled_lora_b"}
    used = set(re.findall(r"\._[a-z]\w+|def _[a-z]\w+", source))
    return used - {f"{use}{name}" for use in ("def ", ".") for name in own}


def test_no_other_module_uses_private_names_of_keras():
    names = {name.removeprefix("def ").removeprefix(".") for name in private_names()}
    names |= {"_loss_tracker", "_flatten_layers", "_distribute_strategy", "_dropout_mask", "__class__ ="}
    for path in LIBRARY.rglob("*.py"):
        if path.parent != INTERNALS:
            used = rf"""(?:\.|def |["'])({"|".join(map(re.escape, names))})(?!\w)"""  # attribute, method, or getattr
            assert not re.findall(used, path.read_text()), path


@pytest.mark.parametrize("seed", [None, 5])
def test_replaced_seed_generator_draws_the_same_masks(seed):
    layers = []
    for kind in (keras.layers.Dropout, kt.layers.Dropout):
        keras.utils.set_random_seed(1)
        layers.append(kind(0.5, seed=seed))
    stock, ours = layers
    assert len(ours.variables) == 1
    assert isinstance(ours.seed_generator, ReplicaSeedGenerator)
    for _ in range(2):
        inputs = np.ones((3, 7), "float32")
        np.testing.assert_array_equal(ours(inputs, training=True), stock(inputs, training=True))
    np.testing.assert_array_equal(ours.variables[0], stock.variables[0])


def test_dropout_on_pytorch_uses_the_state_of_a_generator_without_a_seed():
    source = Path(keras.__file__).parent / "src" / "backend" / "torch" / "random.py"
    assert "isinstance(seed, SeedGenerator) and seed._initial_seed is None" in source.read_text()
    for seed in (None, 5):
        generator = ResumableSeedGenerator(seed)
        assert generator._initial_seed is not None
        assert generator.get_config()["seed"] == seed


def doubled(gradients):
    """The sum over two replicas with the same gradients."""
    return [None if gradient is None else 2 * gradient for gradient in gradients]


def test_gradients_are_summed_before_they_are_clipped():
    variable = keras.Variable([1.0, 1.0])
    optimizer = summing_optimizer(keras.optimizers.SGD(1.0, global_clipnorm=5.0), doubled)
    optimizer.apply([tf.constant([3.0, 4.0])], [variable])  # norm 5, doubled 10
    np.testing.assert_allclose(variable, [-2.0, -3.0])
    optimizer.apply([tf.constant([0.3, 0.4])], [variable])
    np.testing.assert_allclose(variable, [-2.6, -3.8])


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.Adam(0.3, global_clipnorm=0.5),
        lambda: kt.optimizers.ClippedSGD(0.3, clip_norm=0.5),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.3), initial_scale=8.0),
    ],
    ids=["Adam", "ClippedSGD", "LossScaleOptimizer"],
)
def test_summing_optimizer_is_saved_as_the_given_optimizer(optimizer):
    given = optimizer()
    summing = summing_optimizer(given, doubled)
    assert summing_optimizer(summing, doubled) is summing
    stored = keras.saving.serialize_keras_object(plain_optimizer(summing))
    assert stored == keras.saving.serialize_keras_object(given)


def test_built_optimizer_raises():
    optimizer = keras.optimizers.SGD()
    optimizer.build([keras.Variable([1.0])])
    with pytest.raises(ValueError, match="Received: a built SGD"):
        summing_optimizer(optimizer, doubled)
