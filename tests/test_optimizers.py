import keras
import numpy as np
import pytest

from keras_tying.optimizers import ClippedSGD


@pytest.mark.parametrize("clip_norm", [1.0, 100.0])
def test_update_is_the_gradient_cut_to_its_global_norm(rng, clip_norm):
    values = [rng.normal(size=(5, 3)).astype("float32"), rng.normal(size=4).astype("float32")]
    gradients = [rng.normal(size=value.shape).astype("float32") for value in values]
    variables = [keras.Variable(value) for value in values]
    optimizer = ClippedSGD(0.5, clip_norm)
    optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], variables)
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients))
    for variable, value, gradient in zip(variables, values, gradients, strict=True):
        np.testing.assert_allclose(variable, value - 0.5 * min(1, clip_norm / norm) * gradient, rtol=1e-5)
    np.testing.assert_allclose(optimizer.gradient_norm, norm, rtol=1e-5)


@pytest.mark.parametrize("arguments", [{"clip_norm": 0}, {"shrink": 1.0}, {"momentum": 0.9}, {"nesterov": True}])
def test_settings_it_cannot_honour_are_refused(arguments):
    with pytest.raises(ValueError, match="Received"):
        ClippedSGD(**arguments)


def test_shrinking_multiplies_parameters_after_the_update():
    variable = keras.Variable([2.0, -4.0])
    ClippedSGD(0.5, 100.0, shrink=0.25).apply([keras.ops.convert_to_tensor([1.0, 1.0])], [variable])
    np.testing.assert_allclose(variable, [0.75 * 1.5, 0.75 * -4.5])
