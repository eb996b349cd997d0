import numpy as np
import pytest

from keras_tying.regularizers import ProjectionRegularizer


def test_half_squared_norm_is_divided_by_the_batch(rng):
    projection = rng.normal(size=(5, 5)).astype("float32")
    penalty = ProjectionRegularizer(scale=0.15, batch_size=20)(projection)
    np.testing.assert_allclose(penalty, 0.15 * np.sum(projection**2) / 2 / 20, rtol=1e-6)


def test_frobenius_norm_is_not_squared(rng):
    projection = rng.normal(size=(5, 5)).astype("float32")
    penalty = ProjectionRegularizer(scale=0.15, norm="frobenius")(projection)
    np.testing.assert_allclose(penalty, 0.15 * np.linalg.norm(projection), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": -1}, "scale=-1"),
        ({"norm": "l1"}, "norm='l1'"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_arguments_out_of_range_raise(arguments, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        ProjectionRegularizer(**arguments)
