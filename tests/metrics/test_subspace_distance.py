import numpy as np
import pytest
import scipy.linalg

from keras_tying.metrics import subspace_distance


def test_distance_is_the_root_mean_square_sine_of_the_principal_angles(rng):
    x, y = rng.normal(size=(2, 30, 4))
    angles = scipy.linalg.subspace_angles(x, y)
    np.testing.assert_allclose(subspace_distance(x, y), np.sqrt(np.mean(np.sin(angles) ** 2)))
    np.testing.assert_allclose(subspace_distance(x, y), subspace_distance(y, x))


def test_matrices_with_equal_column_spaces_have_distance_zero(rng):
    x = rng.normal(size=(30, 4))
    np.testing.assert_allclose(subspace_distance(x, x @ rng.normal(size=(4, 4))), 0, atol=1e-12)


def test_orthogonal_spaces_have_distance_one():
    assert subspace_distance(np.eye(6)[:, :3], np.eye(6)[:, 3:]) == 1


@pytest.mark.parametrize(("x", "y"), [((5, 2), (5, 3)), ((2, 5), (2, 5)), ((5,), (5,))])
def test_invalid_shapes_are_refused(rng, x, y):
    with pytest.raises(ValueError, match=r"N at least C. Received: shapes"):
        subspace_distance(rng.normal(size=x), rng.normal(size=y))


def test_dependent_columns_are_refused(rng):
    x = rng.normal(size=(9, 2))
    with pytest.raises(ValueError, match="columns of `y` must be linearly independent"):
        subspace_distance(x, x[:, :1] * [1.0, 2.0])
