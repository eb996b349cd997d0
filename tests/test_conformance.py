"""One set of checks for every public layer, every model class and every builder of the zoo."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt

V, H, T = 12, 6, 5

IDS, SEQUENCE, STATE = ("int32", (None,)), ("float32", (None, H)), ("float32", (H,))
FIXED_IDS, FIXED_SEQUENCE, LENGTHS = ("int32", (T,)), ("float32", (T, H)), ("int32", ())


@keras.saving.register_keras_serializable("tests")
class Decoder(keras.layers.Layer):
    """A `ConditionalGRU` with its memory as one call, so that a functional model can hold it."""

    def __init__(self, gru, **kwargs):
        super().__init__(**kwargs)
        self.gru = gru

    def build(self, words_shape, annotations_shape, state_shape):
        if not self.gru.built:
            self.gru.build(words_shape, annotations_shape)

    def call(self, words, annotations, state):
        mask = keras.ops.ones(keras.ops.shape(annotations)[:2], "bool")
        return self.gru(words, self.gru.memory(annotations, mask), state)[0]

    def get_config(self):
        return {**super().get_config(), "gru": keras.saving.serialize_keras_object(self.gru)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "gru": keras.saving.deserialize_keras_object(config["gru"])})


LAYERS = {
    "AdditiveAttention": (lambda: kt.layers.AdditiveAttention(4), STATE, SEQUENCE),
    "CarriedState": (lambda: kt.layers.CarriedState([H]), SEQUENCE),
    "ConditionalGRU": (lambda: Decoder(kt.layers.ConditionalGRU(H)), SEQUENCE, SEQUENCE, STATE),
    "Dropout": (lambda: kt.layers.Dropout(0.2), SEQUENCE),
    "GRU": (lambda: kt.layers.GRU(H), SEQUENCE),
    "LSTM": (lambda: kt.layers.LSTM(H, return_sequences=True), SEQUENCE),
    "LSTM, last output": (lambda: kt.layers.LSTM(H, dropout=0.1), SEQUENCE),
    "RecurrentHighway": (
        lambda: kt.layers.RecurrentHighway(H, 2, recurrent_dropout=0.1, return_sequences=True),
        SEQUENCE,
    ),
    "SectionMeans": (lambda: kt.layers.SectionMeans(2), FIXED_SEQUENCE, FIXED_IDS, LENGTHS),
    "TiedDense": (lambda: kt.layers.TiedDense(kt.layers.TiedEmbedding(V, H)), SEQUENCE),
    "TiedEmbedding": (lambda: kt.layers.TiedEmbedding(V, H), IDS),
    "TiedEmbedding, untied": (lambda: kt.layers.TiedEmbedding(V, H, tie_weights=False), IDS),
    "WordDropout": (lambda: kt.layers.WordDropout(V, 0.2), SEQUENCE, IDS),
}
"""By class name and variant: a function that makes the layer, then type and shape of each input."""

WITHOUT_WEIGHTS = {"CarriedState", "Dropout", "SectionMeans", "WordDropout"}

NO_CALL = "CarriedState has no call: a model reads and updates its variables, which are not saved"
CANNOT = {(check, "CarriedState"): NO_CALL for check in ("save", "export", "mixed precision")}
"""Checks that fail today, by check and case, with reasons. A test fails if such a check passes (strict xfail)."""

SIZES = {
    **{"vocabulary_size": V, "source_vocabulary_size": V, "target_vocabulary_size": V},
    **{"units": H, "embedding_size": H, "depth": 2, "window": 3, "sentence_length": T},
}
"""Small values of the builders' arguments."""

SIZES_IN_KWARGS = {
    **{name: {"embedding_size": H, "hidden_units": (4,)} for name in kt.zoo.list_models("nn*")},
    **{name: {"units": H} for pattern in ("ptb_*", "vd_lstm_*", "rhn") for name in kt.zoo.list_models(pattern)},
    "dl4mt_small": {"embedding_size": H, "units": H},
}
"""The same for builders that take them as `**kwargs`."""


def small_arguments(name):
    taken = inspect.signature(getattr(kt.zoo, name)).parameters
    return {**{key: size for key, size in SIZES.items() if key in taken}, **SIZES_IN_KWARGS.get(name, {})}


BUILDERS = {name: small_arguments(name) for name in kt.zoo.list_models()}
"""Every builder of the zoo, and arguments that make its model small."""

FURTHER = {
    "untied": (("ptb_small", "ptb_medium", "ptb_large", "rhn"), {"tied": False}),
    "tied": (("nnjm_global", "skip_gram", "vd_lstm_small"), {"tied": True}),
    "projection": (("ptb_small", "ptb_medium", "ptb_large"), {"projection": True}),
    "untied, projection": (("ptb_small", "ptb_medium", "ptb_large"), {"tied": False, "projection": True}),
    "no tying": (("dl4mt",), {"tying": "none"}),
    "three-way": (("dl4mt",), {"tying": "three_way"}),
}
VARIANTS = {name: (name, {}) for name in BUILDERS} | {
    f"{name}, {variant}": (name, arguments) for variant, (names, arguments) in FURTHER.items() for name in names
}
"""Builders with their defaults, and with other arguments that decide what is tied."""

NOT_BUILT = {
    "Example": "a batch, not a model",
    "Losses": "the output of a model",
    "NextWordModel": "the base class of three models",
    "PairLosses": "the output of a model",
}
"""Names in `kt.models.__all__` without a case, with the reason."""


def sample(dtype, shape):
    """Random ids or normal numbers of one input; unknown sizes are `T`."""
    shape = (2, *(T if size is None else size for size in shape))
    rng = np.random.default_rng(0)
    return rng.integers(0, V, shape, np.int32) if dtype == "int32" else rng.normal(size=shape).astype("float32")


def ids(*shape):
    return sample("int32", shape)


def joint_batch(model):
    inputs = {"history": ids(model.order - 1)}
    inputs |= {"window": ids(model.window)} if model.window else {}
    inputs |= {"sentence": ids(model.sentence_length)} if model.global_context else {}
    return inputs, ids()


BATCHES = {
    "JointLanguageModel": joint_batch,
    "LanguageModel": lambda model: (ids(T), ids(T)),
    "SkipGram": lambda model: ({"centres": ids(3), "contexts": ids(4)}, None),
    "Translator": lambda model: ({"source": ids(T), "target": ids(T)}, ids(T)),
}
"""By model class: inputs and targets of a batch."""


def batch_of(model):
    return BATCHES[type(model).__name__](model)


def training_batch_of(model):
    inputs, targets = batch_of(model)
    if isinstance(model, kt.models.SkipGram):
        inputs |= {"negatives": ids(model.negatives), "pairs": np.ones((2, 3, 4), bool)}
    return inputs, targets


def build(name, **arguments):
    return kt.zoo.create_model(name, **{**BUILDERS[name], **arguments})


def layer_model(name):
    """A functional model of one layer, and its inputs."""
    make, *specs = LAYERS[name]
    inputs = [keras.Input(shape, dtype=dtype) for dtype, shape in specs]
    outputs = keras.tree.flatten(make()(*inputs))
    return keras.Model(inputs, outputs[0]), [sample(*spec) for spec in specs]


def cases(check, names):
    """Parameters of a test: the names; where `CANNOT` has a reason, the test is expected to fail."""
    known = {name: CANNOT[check, name] for name in names if (check, name) in CANNOT}
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=known[name], strict=True)) if name in known else name
        for name in names
    ]


def check_config_round_trip(layer):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config()


def check_loaded_model_predicts_the_same(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert len(again.variables) == len(model.variables)


def check_exported_model_predicts_the_same(model, inputs, tmp_path):
    signature = keras.tree.map_structure(lambda x: keras.InputSpec(shape=(None, *x.shape[1:]), dtype=x.dtype), inputs)
    model.export(tmp_path / "exported", input_signature=[signature], verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(inputs), model.predict(inputs, verbose=0), atol=1e-5)


@pytest.mark.parametrize("name", kt.layers.__all__)
def test_every_layer_has_a_case(name):
    assert name in {case.split(",")[0] for case in LAYERS}


@pytest.mark.parametrize("name", kt.models.__all__)
def test_every_model_class_has_a_batch_or_a_reason(name):
    assert (name in BATCHES) != (name in NOT_BUILT)


def test_every_model_class_has_a_builder():
    assert {type(build(name)).__name__ for name in BUILDERS} == set(BATCHES)


def test_every_exception_has_a_case():
    assert {name for _, name in CANNOT} <= {*LAYERS, *VARIANTS}


@pytest.mark.parametrize("name", cases("config", LAYERS))
def test_layer_config_round_trip(name):
    check_config_round_trip(LAYERS[name][0]())


@pytest.mark.parametrize("name", cases("save", LAYERS))
def test_layer_saves_and_loads(name, tmp_path):
    check_loaded_model_predicts_the_same(*layer_model(name), tmp_path)


@pytest.mark.parametrize("name", cases("export", LAYERS))
def test_layer_exports(name, tmp_path):
    check_exported_model_predicts_the_same(*layer_model(name), tmp_path)


@pytest.mark.parametrize("name", cases("mixed precision", LAYERS))
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_layer_computes_in_mixed_precision(name, policy):
    make, *specs = LAYERS[name]
    keras.config.set_dtype_policy(policy)
    try:
        layer, inputs = make(), [sample(*spec) for spec in specs]
        with tf.GradientTape() as tape:
            outputs = keras.tree.flatten(layer(*inputs, training=True))[0]
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    assert all(v.dtype == "float32" for v in layer.trainable_variables)
    assert any(g is not None for g in gradients) == (name not in WITHOUT_WEIGHTS)


@pytest.mark.parametrize("name", cases("config", BUILDERS))
def test_model_config_round_trip(name):
    check_config_round_trip(build(name))


@pytest.mark.parametrize("name", cases("save", BUILDERS))
def test_model_saves_and_loads(name, tmp_path):
    model = build(name)
    check_loaded_model_predicts_the_same(model, batch_of(model)[0], tmp_path)


@pytest.mark.parametrize("name", cases("export", BUILDERS))
def test_model_exports(name, tmp_path):
    model = build(name)
    check_exported_model_predicts_the_same(model, batch_of(model)[0], tmp_path)


@pytest.mark.parametrize("name", cases("mixed precision", VARIANTS))
def test_model_trains_in_mixed_precision(name):
    builder, arguments = VARIANTS[name]
    model = build(builder, **arguments, dtype="mixed_bfloat16")
    model.compile(kt.optimizers.ClippedSGD(0.1))
    losses = [model.train_on_batch(*training_batch_of(model)) for _ in range(2)]
    assert np.all(np.isfinite(losses))
    assert all(v.dtype == "float32" for v in model.trainable_variables)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_model_trains_under_a_mirrored_strategy(precision):
    devices = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    with strategy.scope():
        model = build("ptb_small", dtype=precision)
        model.compile(kt.optimizers.ClippedSGD(0.1))
    scales_loss = hasattr(model.optimizer, "inner_optimizer")
    assert scales_loss == (precision == "mixed_float16")
    assert np.isfinite(model.fit(*batch_of(model), verbose=0).history["loss"][0])


def test_loaded_model_continues_training(tmp_path):
    model = build("ptb_small")
    batch = batch_of(model)
    model.compile(keras.optimizers.Adam(0.01))
    model.train_on_batch(*batch)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(*batch, verbose=0) == model.evaluate(*batch, verbose=0)
    for each in (again, model):
        each.train_on_batch(*batch)
    for received, expected in zip(again.trainable_variables, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(received, expected)
