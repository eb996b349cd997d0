"""Embeddings and losses split along the vocabulary over eight devices of JAX."""

import json

import keras
import pytest

import keras_tying as kt
from tests.test_conformance import BUILDERS

PROGRAM = """
import json
import jax
import keras
import numpy as np
import sys
import keras_tying as kt

corpus = kt.data.load_corpus("embedded")
text = kt.data.windows(corpus.ids("train", corpus.vocabulary(2000)), batch_size=16, sequence_length=20)
seen, others = slice(16 * 6), slice(16 * 6, 16 * 8)


def bytes_of_the_loss(model):
    # Those that a device needs beside arguments and gradients; no device may ask for the rows of another.
    hidden, targets = np.zeros((1024, 64), "float32"), np.zeros(1024, "int32")
    embeddings = model.embedding.embeddings.value
    function = jax.jit(jax.grad(lambda *arrays: kt.losses.linear_cross_entropy(arrays[0], targets, arrays[1]).sum(), 1))
    jax.config.update("jax_disable_most_optimizations", False)  # because the test is about the compiled program
    compiled = function.lower(hidden, embeddings).compile()
    jax.config.update("jax_disable_most_optimizations", True)
    assert "all-gather" not in compiled.as_text()
    return compiled.memory_analysis().temp_size_in_bytes


def shape_here(variable):
    return variable.value.addressable_shards[0].data.shape


def trained(tied):
    model = kt.zoo.recurrent_language_model(2000, units=64, num_layers=1, tied=tied)
    rng = np.random.default_rng(0)
    model.set_weights([rng.uniform(-0.1, 0.1, weight.shape) for weight in model.get_weights()])
    optimizer = kt.optimizers.ClippedAdam(0.01, average_momentum=0.9)
    model.compile(optimizer, loss=kt.losses.SequenceCrossEntropy(reduction="mean"))
    fitted = model.fit(text.inputs[seen], text.targets[seen], batch_size=16, epochs=2, shuffle=False, verbose=0)
    loss = model.evaluate(text.inputs[others], text.targets[others], batch_size=16, verbose=0, return_dict=True)["loss"]
    held = {each.name: shape_here(each) for each in model.embedding.weights}
    averages = [shape_here(each) for each in model.optimizer.averages if 2000 in each.shape]
    return {"temporaries": bytes_of_the_loss(model), "losses": [*fitted.history["loss"], loss], "held": held,
            "averages": averages}


found = {}
for n in (1, 4, 8):
    if n > 1:
        mesh = keras.distribution.DeviceMesh((8 // n, n), ("batch", "model"), keras.distribution.list_devices())
        layout = kt.models.vocabulary_layout(mesh)
        keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))
    found[n] = {str(tied): trained(tied) for tied in (True, False)}
whole = {"vocabulary_size": 40, "source_vocabulary_size": 40, "target_vocabulary_size": 40}
found["zoo"] = {}
for name, arguments in json.loads(sys.argv[1]).items():
    model = kt.zoo.create_model(name, **{key: whole.get(key, value) for key, value in arguments.items()})
    found["zoo"][name] = {
        each.path: shape_here(each) for each in model.trainable_weights if 40 in each.shape
    }
second = kt.layers.TiedEmbedding(40, 2, name="tied_embedding_1")
second.build()
found["second"] = shape_here(second.embeddings)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def trained(printed_on):
    devices = "--xla_force_host_platform_device_count=8"
    return printed_on("jax", PROGRAM, json.dumps(BUILDERS), XLA_FLAGS=devices)


@pytest.mark.parametrize("tied", ["True", "False"])
@pytest.mark.parametrize("devices", ["4", "8"])
def test_many_devices_train_as_one(trained, tied, devices):
    assert trained[devices][tied]["losses"] == pytest.approx(trained["1"][tied]["losses"], rel=1e-6)


@pytest.mark.parametrize("devices", ["4", "8"])
def test_a_device_holds_the_rows_of_its_words(trained, devices):
    words = 2000 // int(devices)
    assert trained[devices]["True"]["held"] == {"embeddings": [words, 64], "bias": [words]}
    untied = {"embeddings": [words, 64], "reverse_embeddings": [64, words], "bias": [words]}
    assert trained[devices]["False"]["held"] == untied
    for tied in ("True", "False"):
        held = trained[devices][tied]
        assert held["averages"] == list(held["held"].values())


def test_a_device_computes_the_scores_of_its_words(trained):
    assert trained["8"]["True"]["temporaries"] < trained["1"]["True"]["temporaries"] / 6


def test_an_embedding_with_a_number_in_its_name_is_split(trained):
    assert trained["second"] == [5, 2]


@pytest.mark.parametrize("name", kt.zoo.list_models())
def test_every_model_of_the_zoo_is_split(trained, name):
    split = trained["zoo"][name]
    assert split
    for path, shape in split.items():
        assert 5 in shape, path
        assert 40 not in shape, path


def test_a_mesh_without_the_dimension_is_refused():
    mesh = keras.distribution.DeviceMesh((2,), ("batch",), ["cpu:0", "cpu:1"])
    with pytest.raises(ValueError, match=r"dimension of the mesh, \('batch',\). Received: 'model'"):
        kt.models.vocabulary_layout(mesh)
