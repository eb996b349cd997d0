import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.optimizers import ClippedSGD


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
    "arguments", [{"clip_norm": 0}, {"decoupled_weight_decay": 1.0}, {"momentum": 0.9}, {"nesterov": True}]
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
