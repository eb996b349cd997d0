import keras
import numpy as np
import pytest

from keras_tying.study.muon import GramMuon


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (12, 12)])
def test_updates_are_those_of_keras(shape):
    gradient = np.random.default_rng(0).normal(size=shape).astype("float32")
    ours, theirs = (
        keras.ops.convert_to_numpy(optimizer.zeropower_via_newtonschulz5(keras.ops.convert_to_tensor(gradient), 5))
        for optimizer in (GramMuon(), keras.optimizers.Muon())
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_serialises():
    optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(GramMuon(0.02, ns_steps=3)))
    assert isinstance(optimizer, GramMuon)
    assert optimizer.ns_steps == 3
