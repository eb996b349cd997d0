"""What every layer and every model of the zoo must do: one set of checks for all of them."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt

V, H = 12, 6


def tied_dense():
    embedding = kt.layers.TiedEmbedding(V, H)
    return kt.layers.TiedDense(embedding)


IDS, SEQUENCE, STATE = ("int32", (None,)), ("float32", (None, H)), ("float32", (H,))
LAYERS = {
    "TiedEmbedding": (lambda: kt.layers.TiedEmbedding(V, H), IDS),
    "untied TiedEmbedding": (lambda: kt.layers.TiedEmbedding(V, H, tie_weights=False), IDS),
    "TiedDense": (tied_dense, SEQUENCE),
    "LSTM": (lambda: kt.layers.LSTM(H, return_sequences=True), SEQUENCE),
    "LSTM, last output": (lambda: kt.layers.LSTM(H, dropout=0.1), SEQUENCE),
    "GRU": (lambda: kt.layers.GRU(H), SEQUENCE),
    "RecurrentHighway": (
        lambda: kt.layers.RecurrentHighway(H, 2, recurrent_dropout=0.1, return_sequences=True),
        SEQUENCE,
    ),
    "AdditiveAttention": (lambda: kt.layers.AdditiveAttention(4), STATE, SEQUENCE),
    "Dropout": (lambda: kt.layers.Dropout(0.2), SEQUENCE),
    "WordDropout": (lambda: kt.layers.WordDropout(V, 0.2), SEQUENCE, IDS),
}
MODELS = {
    f"{name}, {'tied' if tied else 'untied'}{', projection' if projection else ''}": (
        name,
        {"tied": tied, "projection": projection, "num_layers": 1},
    )
    for name in kt.zoo.list_models("ptb_*")
    for tied in (True, False)
    for projection in (True, False)
}


def sample(dtype, shape):
    shape = (2, *(5 if size is None else size for size in shape))
    rng = np.random.default_rng(0)
    return rng.integers(0, V, shape) if dtype == "int32" else rng.normal(size=shape).astype("float32")


@pytest.fixture(params=LAYERS)
def layer_model(request):
    make, *taken = LAYERS[request.param]
    inputs = [keras.Input(shape, dtype=dtype) for dtype, shape in taken]
    outputs = keras.tree.flatten(make()(*inputs))
    return keras.Model(inputs, outputs[0]), [sample(*each) for each in taken]


BAYESIAN = {
    "vd_lstm_small": {},
    "rhn": {"depth": 2, "dropout": {"words": 0.2, "inputs": 0.2, "hidden": 0.2, "outputs": 0.2}},
}
MODELS |= {
    f"{name}, {'tied' if tied else 'untied'}": (name, {"tied": tied, **arguments})
    for name, arguments in BAYESIAN.items()
    for tied in (True, False)
}


@pytest.fixture(params=MODELS)
def make_model(request):
    """Builds a model of the zoo, with further arguments."""
    name, arguments = MODELS[request.param]
    return partial(kt.zoo.create_model, name, vocabulary_size=V, **arguments)


@pytest.fixture
def zoo_model(make_model):
    return make_model(), sample("int32", (None,))


def check_config_round_trip(layer):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config()


def check_saved_model_answers_alike(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert len(again.variables) == len(model.variables)


def check_export_answers_alike(model, inputs, tmp_path):
    signature = keras.tree.map_structure(lambda x: keras.InputSpec(shape=(None, *x.shape[1:]), dtype=x.dtype), inputs)
    model.export(tmp_path / "exported", input_signature=[signature], verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(inputs), model.predict(inputs, verbose=0), atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_config_round_trip(name):
    check_config_round_trip(LAYERS[name][0]())


def test_layer_saves_and_loads(layer_model, tmp_path):
    check_saved_model_answers_alike(*layer_model, tmp_path)


def test_layer_exports(layer_model, tmp_path):
    check_export_answers_alike(*layer_model, tmp_path)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_layer_computes_in_mixed_precision(name, policy):
    make, *taken = LAYERS[name]
    keras.config.set_dtype_policy(policy)
    try:
        layer = make()
        inputs = [sample(*each) for each in taken]
        with tf.GradientTape() as tape:
            outputs = keras.tree.flatten(layer(*inputs, training=True) if "LSTM" in name else layer(*inputs))[0]
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    assert all(v.dtype == "float32" for v in layer.trainable_variables)
    assert any(g is not None for g in gradients) == ("Dropout" not in name)  # which have nothing to train


def test_model_config_round_trip(zoo_model):
    check_config_round_trip(zoo_model[0])


def test_model_saves_and_loads(zoo_model, tmp_path):
    check_saved_model_answers_alike(*zoo_model, tmp_path)


def test_model_exports(zoo_model, tmp_path):
    check_export_answers_alike(*zoo_model, tmp_path)


def test_model_trains_in_mixed_precision(make_model):
    half, inputs = make_model(dtype="mixed_bfloat16"), sample("int32", (None,))
    half.compile(kt.optimizers.ClippedSGD(0.1))
    losses = [half.train_on_batch(inputs, inputs) for _ in range(2)]
    assert np.all(np.isfinite(losses))
    assert all(v.dtype == "float32" for v in half.trainable_variables)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_model_trains_under_a_mirrored_strategy(precision):
    devices = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    with strategy.scope():
        model = kt.zoo.ptb_small(vocabulary_size=V, dtype=precision)
        model.compile(kt.optimizers.ClippedSGD(0.1))
    assert hasattr(model.optimizer, "inner_optimizer") == (precision == "mixed_float16")  # which scales losses
    tokens = sample("int32", (None,))
    assert np.isfinite(model.fit(tokens, tokens, verbose=0).history["loss"][0])


def test_a_loaded_model_goes_on_training(tmp_path):
    model, tokens = kt.zoo.ptb_small(vocabulary_size=V), sample("int32", (None,))
    model.compile(keras.optimizers.Adam(0.01))
    model.train_on_batch(tokens, tokens)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(tokens, tokens, verbose=0) == model.evaluate(tokens, tokens, verbose=0)
    for each in (again, model):
        each.train_on_batch(tokens, tokens)
    for received, expected in zip(again.trainable_variables, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(received, expected)
