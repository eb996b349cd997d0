"""One set of checks for every public layer, every model class and every builder of the zoo."""

import inspect
from importlib import import_module

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.backend.tensorflow import replicated

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
    "AdaptiveEmbedding": (lambda: kt.layers.AdaptiveEmbedding(V, H, cutoffs=(4, 8), factor=2), IDS),
    "AdaptiveEmbedding, untied": (
        lambda: kt.layers.AdaptiveEmbedding(V, H, cutoffs=(4,), factor=2, tie_weights=False),
        IDS,
    ),
    "AnnotationAttention": (lambda: kt.layers.AnnotationAttention(4), STATE, SEQUENCE),
    "CarriedState": (lambda: kt.layers.CarriedState([H]), SEQUENCE),
    "ConditionalGRU": (lambda: Decoder(kt.layers.ConditionalGRU(H)), SEQUENCE, SEQUENCE, STATE),
    "Dropout": (lambda: kt.layers.Dropout(0.2), SEQUENCE),
    "OneBiasGRU": (lambda: kt.layers.OneBiasGRU(H), SEQUENCE),
    "LSTM": (lambda: kt.layers.LSTM(H, return_sequences=True), SEQUENCE),
    "LSTM, capped, weight drop": (
        lambda: kt.layers.LSTM(H, cap_input_gate=True, weight_drop=0.3, return_sequences=True),
        SEQUENCE,
    ),
    "LSTM, last output": (lambda: kt.layers.LSTM(H, dropout=0.1), SEQUENCE),
    "MogrifierLSTM": (lambda: kt.layers.MogrifierLSTM(H, rounds=3, rank=2, return_sequences=True), SEQUENCE),
    "RecurrentHighway": (
        lambda: kt.layers.RecurrentHighway(H, depth=2, recurrent_dropout=0.1, return_sequences=True),
        SEQUENCE,
    ),
    "SectionMeans": (lambda: kt.layers.SectionMeans(sections=2), FIXED_SEQUENCE, FIXED_IDS, LENGTHS),
    "TiedDense": (lambda: kt.layers.TiedDense(kt.layers.TiedEmbedding(V, H)), SEQUENCE),
    "TiedDense, scores in float32": (
        lambda: kt.layers.TiedDense(kt.layers.TiedEmbedding(V, H, reverse_dtype="float32")),
        SEQUENCE,
    ),
    "LSTM, states": (lambda: kt.layers.LSTM(H, return_state=True, return_sequences=True), SEQUENCE),
    "RecurrentHighway, state": (lambda: kt.layers.RecurrentHighway(H, depth=2, return_state=True), SEQUENCE),
    "TiedEmbedding": (lambda: kt.layers.TiedEmbedding(V, H), IDS),
    "TiedEmbedding, untied": (lambda: kt.layers.TiedEmbedding(V, H, tie_weights=False), IDS),
    "WordDropout": (lambda: kt.layers.WordDropout(V, 0.2), SEQUENCE, IDS),
}
"""By class name and variant: a function that makes the layer, then type and shape of each input."""

WITHOUT_WEIGHTS = {"CarriedState", "Dropout", "SectionMeans", "WordDropout"}

NO_CALL = "CarriedState has no call: a model reads and updates its variables, which are not saved"
CANNOT = {(check, "CarriedState"): NO_CALL for check in ("save", "export", "mixed precision", "specification")}
"""Checks that fail today, by check and case, with reasons. A test fails if such a check passes (strict xfail)."""

SIZES = {
    **{"vocabulary_size": V, "source_vocabulary_size": V, "target_vocabulary_size": V},
    **{"units": H, "embedding_size": H, "depth": 2, "window": 3, "sentence_length": T},
}
"""Small values of the builders' arguments."""

SIZES_IN_KWARGS = {
    **{name: {"embedding_size": H, "hidden_units": (4,)} for name in kt.zoo.list_models("nn*")},
    **{name: {"units": H} for pattern in ("ptb_*", "vd_lstm_*", "rhn") for name in kt.zoo.list_models(pattern)},
    "single_layer_lstm": {"embedding_size": H, "units": 4},
    "dl4mt_small": {"embedding_size": H, "units": H},
}
"""The same for builders that take them as `**kwargs`."""


def small_arguments(name):
    taken = inspect.signature(getattr(kt.zoo, name)).parameters
    return {**{key: size for key, size in SIZES.items() if key in taken}, **SIZES_IN_KWARGS.get(name, {})}


BUILDERS = {name: small_arguments(name) for name in kt.zoo.list_models()}
"""Every builder of the zoo, and arguments that make its model small."""

FURTHER = {
    "untied": (("ptb_small", "ptb_medium", "ptb_large", "rhn", "awd_lstm", "single_layer_lstm"), {"tied": False}),
    "tied": (("nnjm_global", "skip_gram", "vd_lstm_small"), {"tied": True}),
    "projection": (("ptb_small", "ptb_medium", "ptb_large"), {"projection": True}),
    "untied, projection": (("ptb_small", "ptb_medium", "ptb_large"), {"tied": False, "projection": True}),
    "adaptive": (("ptb_small",), {"adaptive_cutoffs": (4, 8), "adaptive_factor": 2}),
    "no tying": (("dl4mt",), {"tying": "none"}),
    "three-way": (("dl4mt",), {"tying": "three_way"}),
}
VARIANTS = {name: (name, {}) for name in BUILDERS} | {
    f"{name}, {variant}": (name, arguments) for variant, (names, arguments) in FURTHER.items() for name in names
}
"""Builders with their defaults, and with other arguments that decide what is tied."""

NOT_BUILT = {
    "BackboneModel": "takes any model; tests/models/test_backbone_model.py",
    "Example": "a batch, not a model",
    "Losses": "the output of a model",
    "NextWordModel": "the base class of four models",
    "PairLosses": "the output of a model",
    "vocabulary_layout": "a function; tests/models/test_layouts.py",
    "without_logits": "a function; tests/models/test_backbone_model.py",
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


ONE_OF_EACH_CLASS = ("dl4mt", "nnjm_global", "ptb_small", "skip_gram")


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
    np.testing.assert_array_equal(again(inputs), model(inputs))
    assert len(again.variables) == len(model.variables)


def check_exported_model_predicts_the_same(model, inputs, tmp_path, *more_inputs):
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    for each in (inputs, *more_inputs):
        np.testing.assert_allclose(exported.serve(each), model(each), atol=1e-5)


PLACES = (
    *("layers", "losses", "metrics", "models", "optimizers", "regularizers"),
    *("training.callbacks", "training.saving"),
)
EXTENDING = {
    f"{place}.{name}": kind
    for place in PLACES
    for name, kind in vars(import_module(f"keras_tying.{place}")).items()
    if inspect.isclass(kind)
    and kind.__module__.startswith("keras_tying.")
    and any(base.__module__.startswith("keras.") for base in kind.__mro__)
}
"""The public classes that extend a class of Keras."""

ABSTRACT = (
    *(keras.layers.Layer, keras.Model, keras.losses.Loss, keras.metrics.Metric, keras.callbacks.Callback),
    keras.regularizers.Regularizer,
)


@pytest.mark.parametrize("name", EXTENDING)
def test_arguments_beyond_those_of_keras_are_keyword_only(name):
    """A concrete class takes its parent's arguments in their order, others what they need; the rest by keyword."""
    parent = next(base for base in EXTENDING[name].__mro__ if base.__module__.startswith("keras."))
    ours, theirs = (inspect.signature(kind).parameters.values() for kind in (EXTENDING[name], parent))
    positional = [each for each in ours if each.kind is each.POSITIONAL_OR_KEYWORD]
    if parent in ABSTRACT:
        assert all(each.default is each.empty for each in positional)
    else:
        names = [each.name for each in theirs if each.kind is each.POSITIONAL_OR_KEYWORD]
        assert [each.name for each in positional] == names[: len(positional)]


@pytest.mark.parametrize("name", EXTENDING)
def test_a_name_of_keras_is_a_class_that_extends_it(name):
    place, _, simple = name.partition(".")
    theirs = getattr(getattr(keras, place, None), simple, None)
    assert theirs is None or issubclass(EXTENDING[name], theirs)


@pytest.mark.parametrize("name", kt.layers.__all__)
def test_every_layer_has_a_case(name):
    assert name in {case.split(",")[0] for case in LAYERS}


@pytest.mark.parametrize("name", kt.models.__all__)
def test_every_model_class_has_a_batch_or_a_reason(name):
    assert (name in BATCHES) != (name in NOT_BUILT)


def test_every_model_class_has_a_builder():
    for names in (BUILDERS, ONE_OF_EACH_CLASS):
        assert {type(build(name)).__name__ for name in names} == set(BATCHES)


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
    half = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(outputs.dtype) == ("float32" if "float32" in name else half)
    assert all(v.dtype == "float32" for v in layer.trainable_variables)
    assert any(g is not None for g in gradients) == (name not in WITHOUT_WEIGHTS)


@pytest.mark.parametrize("name", cases("specification", LAYERS))
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_layer_knows_the_shape_and_dtype_of_its_output(name, policy):
    make, *specs = LAYERS[name]
    keras.config.set_dtype_policy(policy)
    try:
        layer, inputs = make(), [sample(*spec) for spec in specs]
        outputs = [keras.KerasTensor(each.shape, each.dtype) for each in keras.tree.flatten(layer(*inputs))]
        symbols = [keras.KerasTensor(each.shape, each.dtype.name) for each in inputs]
        specification = keras.tree.flatten(layer.compute_output_spec(*symbols))
    finally:
        keras.config.set_dtype_policy("float32")
    assert [(each.shape, each.dtype) for each in specification] == [(each.shape, each.dtype) for each in outputs]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("reverse_dtype", [None, "float32"])
def test_scores_of_an_embedding_have_the_shape_and_dtype_it_says(policy, reverse_dtype):
    embedding = kt.layers.TiedEmbedding(V, H, reverse_dtype=reverse_dtype, dtype=policy)
    scores = embedding(sample(*SEQUENCE), reverse=True)
    specification = embedding.compute_output_spec(keras.KerasTensor((2, T, H)), reverse=True)
    assert (specification.shape, specification.dtype) == (tuple(scores.shape), scores.dtype.name)


@pytest.mark.parametrize("name", BUILDERS)
def test_summary_of_a_model_shows_all_shapes(name):
    lines = []
    build(name).summary(print_fn=lines.append, line_length=200)
    assert "?" not in "".join(lines)


@pytest.mark.parametrize("name", cases("config", BUILDERS))
def test_model_config_round_trip(name):
    check_config_round_trip(build(name))


@pytest.mark.parametrize("name", cases("save", BUILDERS))
def test_model_saves_and_loads(name, tmp_path):
    model = build(name)
    check_loaded_model_predicts_the_same(model, batch_of(model)[0], tmp_path)


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "int8") for name in BUILDERS), *((name, "int4") for name in ONE_OF_EACH_CLASS)]
)
def test_quantized_model_saves_and_loads(name, mode, tmp_path):
    model = build(name)
    inputs, _ = batch_of(model)
    plain = np.asarray(model(inputs))
    model.quantize(mode)
    quantized = np.asarray(model(inputs))
    assert model.embedding.quantization_mode == mode
    assert np.abs(quantized - plain).max() <= (0.02 if mode == "int8" else 0.2) * np.abs(plain).max()
    model.save(tmp_path / "model.keras")
    for again in (keras.saving.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        again.set_weights(model.get_weights())
        assert [v.dtype for v in again.variables] == [v.dtype for v in model.variables]
        np.testing.assert_array_equal(again(inputs), quantized)


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_quantized_model_answers_and_exports_as_before_it_was_saved(name, tmp_path):
    model = build(name, **({"tying": "three_way"} if name == "dl4mt" else {"tied": True}))
    model.quantize("int8")
    inputs, targets = batch_of(model)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    check_exported_model_predicts_the_same(again, inputs, tmp_path)
    asks = {
        "score": lambda model: model.score(inputs, targets),
        "generate": lambda model: model.generate(inputs, 3, temperature=0),
        "translate": lambda model: model.translate(inputs["source"], end_id=1, maximum_length=4).scores,
        "embedding_matrices": lambda model: np.concatenate([*map(np.asarray, model.embedding_matrices().values())]),
    }
    for method in asks.keys() & set(dir(model)):
        np.testing.assert_array_equal(asks[method](again), asks[method](model))


@pytest.mark.parametrize("name", cases("export", BUILDERS))
def test_model_exports_before_it_was_called(name, tmp_path):
    model = build(name)
    inputs, _ = batch_of(model)
    longer = keras.tree.map_structure(lambda x: np.repeat(x, 2, axis=0), inputs)
    if not isinstance(model, kt.models.JointLanguageModel):  # whose inputs have fixed lengths
        longer = keras.tree.map_structure(lambda x: np.repeat(x, 2, axis=1), longer)
    check_exported_model_predicts_the_same(model, inputs, tmp_path, longer)


@pytest.mark.parametrize("mode", ["float8", "int2", None])
def test_other_modes_of_quantization_are_refused_before_anything_changes(mode):
    model = build("dl4mt")
    with pytest.raises(ValueError, match="mode"):
        model.quantize(mode)
    assert all(v.dtype == "float32" for v in model.trainable_variables)


@pytest.mark.parametrize("name", cases("mixed precision", VARIANTS))
def test_model_trains_in_mixed_precision(name):
    builder, arguments = VARIANTS[name]
    model = build(builder, **arguments, dtype="mixed_bfloat16")
    model.compile(kt.optimizers.ClippedSGD(0.1))
    before = [np.array(each) for each in model.trainable_variables]
    losses = [model.train_on_batch(*training_batch_of(model)) for _ in range(2)]
    assert np.all(np.isfinite(losses))
    assert not any(map(np.array_equal, before, model.trainable_variables))
    assert all(v.dtype == "float32" for v in model.trainable_variables)


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_the_first_step_is_traced_once(name):
    model, traced = build(name), []
    step = model.train_step
    model.train_step = lambda data: traced.append(data) or step(data)
    model.compile(kt.optimizers.ClippedSGD(0.1))
    model.train_on_batch(*training_batch_of(model))
    assert len(traced) == 1


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
    assert model.resized(model.vocabulary_size + 2).distribute_strategy is strategy


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_optimizer_is_built_once(replicas, monkeypatch):
    monkeypatch.setattr(replicated, "replicas_of", lambda model: replicas)
    model = build("ptb_small", dtype="mixed_float16")
    model.compile(kt.optimizers.ClippedSGD(0.1))
    model.fit(*batch_of(model), verbose=0)
    variables = model.optimizer.variables
    model.fit(*batch_of(model), verbose=0)
    assert [*map(id, model.optimizer.variables)] == [*map(id, variables)]


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
