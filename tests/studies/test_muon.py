import keras
import numpy as np
import pytest

from studies.muon import GramMuon


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (12, 12)])
def test_updates_are_those_of_keras(shape):
    gradient = np.random.default_rng(0).normal(size=shape).astype("float32")
    ours, theirs = (
        keras.ops.convert_to_numpy(optimizer.zeropower_via_newtonschulz5(keras.ops.convert_to_tensor(gradient), 5))
        for optimizer in (GramMuon(), keras.optimizers.Muon())
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_factor_is_of_the_variables_whose_path_it_names():
    before = np.eye(3, dtype="float32")
    fast, slow = (keras.Variable(before, name=name) for name in ("output", "kernel"))
    optimizer = GramMuon(0.1, rate_factors={"output": 8.0}, weight_decay=None)
    gradient = keras.ops.convert_to_tensor(np.diag([1.0, 2.0, 3.0]).astype("float32"))
    optimizer.apply([gradient, gradient], [fast, slow])
    moved, little = (keras.ops.convert_to_numpy(variable) - before for variable in (fast, slow))
    assert np.abs(little).max() > 0
    np.testing.assert_allclose(moved, 8.0 * little, rtol=1e-4, atol=1e-6)
