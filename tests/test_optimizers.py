from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.optimizers import ClippedAdam, ClippedSGD, averaged_weights, use_averaged_weights


@pytest.mark.parametrize("clip_norm", [1.0, 100.0])
def test_update_is_the_gradient_clipped_by_its_global_norm(rng, clip_norm):
    values = [rng.normal(size=(5, 3)).astype("float32"), rng.normal(size=4).astype("float32")]
    gradients = [rng.normal(size=value.shape).astype("float32") for value in values]
    variables = [keras.Variable(value) for value in values]
    optimizer = ClippedSGD(0.5, clip_norm=clip_norm)
    optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], variables)
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients))
    for variable, value, gradient in zip(variables, values, gradients, strict=True):
        np.testing.assert_allclose(variable, value - 0.5 * min(1, clip_norm / norm) * gradient, rtol=1e-5)
    np.testing.assert_allclose(optimizer.gradient_norm, norm, rtol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"clip_norm": 0},
        {"decoupled_weight_decay": 1.0},
        {"decoupled_weight_decay": "1"},
        {"momentum": 0.9},
        {"nesterov": True},
    ],
)
def test_unsupported_arguments_raise(arguments):
    with pytest.raises(ValueError, match="Received"):
        ClippedSGD(**arguments)


def test_decoupled_weight_decay_multiplies_parameters_after_the_update():
    variable = keras.Variable([2.0, -4.0])
    ClippedSGD(0.5, clip_norm=100.0, decoupled_weight_decay=0.25).apply(
        [keras.ops.convert_to_tensor([1.0, 1.0])], [variable]
    )
    np.testing.assert_allclose(variable, [0.75 * 1.5, 0.75 * -4.5])


def test_variables_may_come_from_an_iterator():
    variable = keras.Variable([2.0, -4.0])
    ClippedSGD(0.5, clip_norm=100.0, decoupled_weight_decay=0.25).apply(
        [keras.ops.convert_to_tensor([0.0, 0.0])], iter([variable])
    )
    np.testing.assert_allclose(variable, [1.5, -3.0])


def test_constraints_hold_after_decoupled_weight_decay():
    layer = keras.layers.Embedding(3, 2, embeddings_constraint=keras.constraints.UnitNorm(axis=1))
    layer.build()
    ClippedSGD(0.5, decoupled_weight_decay=0.25).apply([keras.ops.ones((3, 2))], layer.trainable_variables)
    np.testing.assert_allclose(np.linalg.norm(layer.embeddings, axis=1), 1, rtol=1e-6)


def test_decoupled_weight_decay_leaves_variables_that_are_not_updated():
    variables = [keras.Variable([2.0]), keras.Variable([2.0])]
    optimizer = ClippedSGD(0.5, decoupled_weight_decay=0.25)
    optimizer.build(variables)
    optimizer.apply([keras.ops.zeros(1)], variables[:1])
    np.testing.assert_allclose(variables, [[1.5], [2.0]])


def test_sparse_gradient_with_repeated_rows_equals_the_dense_gradient():
    rows, places = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32"), [2, 0, 2]
    dense = np.zeros((4, 2), "float32")
    np.add.at(dense, places, rows)
    found = []
    for gradient in (tf.IndexedSlices(rows, places, [4, 2]), tf.constant(dense)):
        variable, optimizer = keras.Variable(np.ones((4, 2), "float32")), ClippedSGD(0.5, clip_norm=5.0)
        optimizer.apply([gradient], [variable])
        found.append((optimizer.gradient_norm.numpy(), variable.numpy()))
    np.testing.assert_allclose(found[0][0], np.linalg.norm(dense), rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


def test_sparse_gradient_with_repeated_rows_gives_the_same_bits_each_time(rng):
    places = rng.zipf(1.3, 10_000).clip(max=500) - 1
    gradient = tf.IndexedSlices(rng.normal(size=(10_000, 64)).astype("float32"), places, [500, 64])
    variable = keras.Variable(np.zeros((500, 64), "float32"))
    optimizer = ClippedSGD(0.5)
    optimizer.build([variable])
    updated = set()
    for _ in range(20):
        variable.assign(np.zeros((500, 64)))
        optimizer.apply([gradient])
        updated.add(variable.numpy().tobytes() + optimizer.gradient_norm.numpy().tobytes())
    assert len(updated) == 1


@pytest.mark.parametrize(("beta_1", "clip_norm", "l2"), [(0.0, 0.5, 0.3), (0.9, None, 0.0), (0.9, 100.0, 0.3)])
def test_adam_updates_are_those_of_the_clipped_gradient_with_the_penalty(rng, beta_1, clip_norm, l2):
    values = [rng.normal(size=(5, 3)), rng.normal(size=4)]
    variables = [keras.Variable(value.astype("float32")) for value in values]
    optimizer = ClippedAdam(0.1, beta_1, 0.99, clip_norm=clip_norm, l2=l2)
    means, squares = [0.0, 0.0], [0.0, 0.0]
    for step in (1, 2, 3):
        gradients = [rng.normal(size=value.shape) for value in values]
        optimizer.apply([keras.ops.convert_to_tensor(g.astype("float32")) for g in gradients], variables)
        gradients = [g + l2 * value for g, value in zip(gradients, values, strict=True)]
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
        for i, g in enumerate(gradients):
            g = g * (1 if clip_norm is None else min(1, clip_norm / norm))
            means[i] = beta_1 * means[i] + (1 - beta_1) * g
            squares[i] = 0.99 * squares[i] + 0.01 * g**2
            corrected = means[i] / (1 - beta_1**step), squares[i] / (1 - 0.99**step)
            values[i] = values[i] - 0.1 * corrected[0] / np.sqrt(corrected[1])
        np.testing.assert_allclose(optimizer.gradient_norm, norm, rtol=1e-4)
    for variable, value in zip(variables, values, strict=True):
        np.testing.assert_allclose(variable, value, rtol=1e-4, atol=1e-4)


def averages_of(optimizer, weights, gradients):
    """The average after each update of one variable, and the weights after each update."""
    variable, found = keras.Variable(weights), []
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        found.append((np.array(optimizer.averages[0]), np.array(variable)))
    return [np.array(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize(
    "make",
    [partial(ClippedSGD, 0.5, decoupled_weight_decay=0.1), partial(ClippedAdam, 0.1, l2=0.3)],
    ids=["sgd", "adam"],
)
def test_accumulated_and_scaled_gradients_update_once_as_their_mean(rng, make):
    make = partial(make, clip_norm=0.5, average_momentum=0.5)
    optimizers = [make(), make(gradient_accumulation_steps=2, loss_scale_factor=8.0)]
    start, gradients = rng.normal(size=3).astype("float32"), rng.normal(size=(3, 2, 3)).astype("float32")
    variables = [keras.Variable(start) for _ in optimizers]
    for pair in gradients:
        optimizers[0].apply([keras.ops.convert_to_tensor(pair.mean(axis=0))], variables[:1])
        for gradient in pair:
            optimizers[1].apply([keras.ops.convert_to_tensor(8 * gradient)], variables[1:])
        np.testing.assert_allclose(*variables, rtol=1e-5)
        for name in ("gradient_norm", "averaged_steps"):
            np.testing.assert_allclose(*(getattr(each, name) for each in optimizers), rtol=1e-5)
        np.testing.assert_allclose(*(each.averages[0] for each in optimizers), rtol=1e-5)


@pytest.mark.parametrize("kind", [ClippedSGD, ClippedAdam])
def test_averages_are_a_mean_at_first_and_exponential_later(rng, kind):
    averages, weights = averages_of(
        kind(0.5, average_momentum=0.75), np.zeros(3, "float32"), rng.normal(size=(8, 3)).astype("float32")
    )
    for step in range(8):
        share = max(1 / (step + 1), 0.25)
        before = averages[step - 1] if step else 0
        np.testing.assert_allclose(averages[step], (1 - share) * before + share * weights[step], atol=1e-6)
    np.testing.assert_allclose(averages[3], weights[:4].mean(axis=0), atol=1e-6)


def test_a_mean_begins_when_it_is_started(rng):
    optimizer = ClippedSGD(0.5, average_momentum=1.0, average_from_start=False)
    variable = keras.Variable(np.zeros(3, "float32"))
    weights = []
    for step in range(9):
        if step == 4:
            optimizer.start_averaging()
        optimizer.apply([keras.ops.convert_to_tensor(rng.normal(size=3).astype("float32"))], [variable])
        weights.append(np.array(variable))
        expected = weights[-1] if step < 4 else np.mean(weights[4:], axis=0)
        np.testing.assert_allclose(optimizer.averages[0], expected, atol=1e-6)


@pytest.mark.parametrize("arguments", [{}, {"average_momentum": 1.0, "average_from_start": False}])
def test_a_mean_cannot_be_started_before_the_averages_exist(arguments):
    with pytest.raises(ValueError, match=r"`start_averaging` needs `average_momentum`, and .* built=False"):
        ClippedSGD(**arguments).start_averaging()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_averages_are_at_least_float32(dtype):
    variable = keras.Variable([1 / 3], dtype=dtype)
    optimizer = ClippedSGD(average_momentum=0.5)
    optimizer.apply([keras.ops.zeros(1, dtype)], [variable])
    assert optimizer.averages[0].dtype == {"bfloat16": "float32"}.get(dtype, dtype)
    np.testing.assert_array_equal(np.array(optimizer.averages[0], "float64"), np.array(variable, "float64"))


def test_averaged_weights_are_exchanged_for_a_while_or_for_good(rng):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(ClippedSGD(0.1, average_momentum=0.9), "mse")
    model.fit(rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), batch_size=3, verbose=0)
    own, averages = model.get_weights(), [np.array(each) for each in model.optimizer.averages]
    assert np.abs(own[0] - averages[0]).max() > 1e-4
    with averaged_weights(model):
        np.testing.assert_array_equal(model.get_weights()[0], averages[0])
    np.testing.assert_array_equal(model.get_weights()[0], own[0])
    use_averaged_weights(model)
    np.testing.assert_array_equal(model.get_weights()[0], averages[0])


@pytest.mark.parametrize(
    "arguments", [{"clip_norm": 0}, {"l2": -1}, {"average_momentum": 1.5}, {"average_from_start": False}]
)
def test_arguments_of_adam_outside_their_range_raise(arguments):
    with pytest.raises(ValueError, match="Received"):
        ClippedAdam(**arguments)


def test_a_model_without_an_optimizer_has_no_averages():
    with (
        pytest.raises(ValueError, match=r"The model must be compiled with an optimizer"),
        averaged_weights(keras.Model()),
    ):
        pass
