"""Changed copies of translators, joint models and word vectors beside those of language models, and of their files."""

import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.backend.keras_internals.layers import leaf_layers
from keras_tying.backend.keras_internals.optimizers import slots_of
from keras_tying.pretrained.weights import read_model, write_model

V, S, H = 9, 7, 4  # words of the model, source words, width
RNG = np.random.default_rng(0)


def ids(size, *shape):
    return RNG.integers(0, size, shape, np.int32)


def translator(tying, source=S, **arguments):
    size = V if tying == "three_way" else source
    return kt.zoo.dl4mt_small(size, V, tying, embedding_size=H, units=3, dropout=0.0, **arguments)


def joint(tied, **arguments):
    sizes = {"window": 3, "sentence_length": 5, "embedding_size": H, "hidden_units": (5,) if tied else (H,)}
    return kt.zoo.nnjm_global(V, S, tied, initializer_range=0.5, **sizes, **arguments)


MAKE = {
    "LanguageModel, tied": lambda: kt.zoo.recurrent_language_model(V, H, initializer_range=0.5),
    "LanguageModel, untied": lambda: kt.zoo.recurrent_language_model(V, H, initializer_range=0.5, tied=False),
    "Translator, three-way": lambda: translator("three_way"),
    "Translator, decoder": lambda: translator("decoder"),
    "Translator, untied": lambda: translator("none"),
    "Translator, untied, one vocabulary": lambda: translator("none", V),
    "Translator, decoder, one vocabulary": lambda: translator("decoder", V),
    "JointLanguageModel, tied": lambda: joint(True),
    "JointLanguageModel, untied": lambda: joint(False),
    "SkipGram, tied": lambda: kt.zoo.skip_gram(V, H, tied=True),
    "SkipGram, untied": lambda: kt.zoo.skip_gram(V, H),
}
BATCHES = {
    "LanguageModel": (ids(S, 2, 3), ids(S, 2, 3)),
    "Translator": ({"source": ids(S, 2, 4), "target": ids(S, 2, 3)}, ids(S, 2, 3)),
    "JointLanguageModel": ({"history": ids(S, 2, 3), "window": ids(S, 2, 3), "sentence": ids(S, 2, 5)}, ids(S, 2)),
    "SkipGram": (
        {
            "centres": ids(S, 2, 3),
            "contexts": ids(S, 2, 4),
            "negatives": ids(S, 2, 5),
            "pairs": np.ones((2, 3, 4), bool),
        },
        None,
    ),
}
TO_UNTIED = {
    "LanguageModel, tied": {},
    "Translator, three-way": {},
    "Translator, three-way to decoder": {"tying": "decoder"},
    "Translator, decoder": {},
    "JointLanguageModel, tied": {},
    "SkipGram, tied": {},
}
TO_TIED = {
    "LanguageModel, untied": {},
    "Translator, untied": {},
    "Translator, untied, one vocabulary": {"tying": "three_way"},
    "Translator, decoder, one vocabulary": {"tying": "three_way"},
    "JointLanguageModel, untied": {},
    "SkipGram, untied": {},
}
TO_PRECISION = ("LanguageModel, tied", "Translator, three-way", "JointLanguageModel, tied", "SkipGram, tied")


def train(model):
    return model.train_on_batch(*BATCHES[type(model).__name__], return_dict=True)["loss"]


def outputs(model):
    inputs, _ = BATCHES[type(model).__name__]
    return np.array(
        model({name: inputs[name] for name in model.input_signature} if isinstance(inputs, dict) else inputs)
    )


def make(name, optimizer=None):
    """A model of random weights after an update. Eager steps need no tracing."""
    model = MAKE[name.split(" to ")[0]]()
    for weight in model.trainable_weights:
        weight.assign(RNG.normal(0, 0.5, weight.shape))
    model.compile(optimizer or keras.optimizers.Adam(0.01), run_eagerly=True)
    train(model)
    return model


def matrices(model):
    return {role: np.array(matrix) for role, matrix in model.embedding_matrices().items()}


def moments(model):
    """First moments of the matrices of a model, by the path of the variable without the name of the model."""
    slots = slots_of(model.optimizer)["_momentums"]
    return {weight.path.partition("/")[2]: np.array(slot) for weight, slot in slots}


def check_files(model, tmp_path):
    """That a model has a round trip through its configuration and all kinds of files."""
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert again.get_config() == model.get_config()
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(keras.saving.load_model(tmp_path / "model.keras")), outputs(model))
    write_model(model, tmp_path)
    np.testing.assert_allclose(outputs(read_model(tmp_path)), outputs(model), atol=0.02)


@pytest.mark.parametrize("name", [name for name in MAKE if "LanguageModel, " not in name[:15]])
def test_a_copy_of_all_rows_trains_on_as_the_model(name):
    model = make(name)
    copy = model.with_rows(range(V))
    for _ in range(2):
        assert train(copy) == train(model)
    for ours, its in zip(copy.variables, model.variables, strict=True):
        if "seed" not in its.path:
            np.testing.assert_array_equal(ours, its)
    for ours, its in zip(copy.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize("name", TO_UNTIED)
def test_an_untied_copy_computes_the_same_and_returns(name, tmp_path):
    model = make(name)
    copy = model.untied_copy(**TO_UNTIED[name])
    np.testing.assert_array_equal(outputs(copy), outputs(model))
    assert len(matrices(copy)) > len(matrices(model))
    old = moments(model)["embedding/embeddings"]
    added = {path: each for path, each in moments(copy).items() if path not in moments(model)}
    assert added
    for path, each in added.items():
        np.testing.assert_array_equal(each.T if "reverse" in path else each, old, err_msg=path)
    check_files(copy, tmp_path)
    back = {"tying": "three_way"} if "three-way" in name else {}
    again = copy.tied_copy("mean", **back)
    np.testing.assert_allclose(outputs(again), outputs(model), atol=1e-6)
    for ours, its in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-6)
    assert np.isfinite(train(copy))
    assert len({matrix.tobytes() for matrix in matrices(copy).values()}) == len(matrices(copy))


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        (name, matrix)
        for name, arguments in TO_TIED.items()
        for matrix in (*(["source"] if arguments else []), "input", "output", "mean")
    ],
)
def test_a_tied_copy_has_the_matrix_that_was_asked_for(name, matrix, tmp_path):
    model, arguments = make(name), TO_TIED[name]
    old = {role: each for role, each in matrices(model).items() if role != "source" or arguments}
    picked = {"input": old.get("decoder"), "output": old.get("decoder"), **old, "mean": sum(old.values()) / len(old)}
    copy = model.tied_copy(matrix, **arguments)
    now = matrices(copy)["decoder" if name == "Translator, untied" else "tied"]
    np.testing.assert_allclose(now, picked[matrix], rtol=1e-6)
    if isinstance(model, kt.models.NextWordModel):
        np.testing.assert_array_equal(copy.output_projection.bias, model.output_projection.bias)
    if matrix == "output":  # and the moments are those of that matrix
        paths = ("embedding/reverse_embeddings", "output_embedding/embeddings", "context_embedding/embeddings")
        before = next(moments(model)[path] for path in (*paths, "embedding/embeddings") if path in moments(model))
        np.testing.assert_array_equal(
            moments(copy)["embedding/embeddings"], before.T if before.shape[0] == H else before
        )
    assert copy.count_params() < model.count_params()
    assert np.isfinite(train(copy))
    if matrix == "mean":
        check_files(copy, tmp_path)


SIZES = {  # by name: arguments of `resized` that add words, roles that they are added to
    "Translator, untied, target": ((V + 2,), {}, {"input", "output"}),
    "Translator, untied, source": ((), {"source_vocabulary_size": S + 3}, {"source"}),
    "Translator, decoder, both": ((V + 2,), {"source_vocabulary_size": S + 3}, {"source", "decoder"}),
    "Translator, three-way, joint": ((V + 2,), {}, {"tied"}),
    "JointLanguageModel, tied, target": ((V + 2,), {}, {"tied"}),
    "JointLanguageModel, untied, both": ((V + 2,), {"source_vocabulary_size": S + 3}, {"source", "input", "output"}),
    "SkipGram, tied, one": ((V + 2,), {}, {"tied"}),
    "SkipGram, untied, one": ((V + 2,), {}, {"input", "output"}),
}


@pytest.mark.parametrize("name", SIZES)
def test_new_words_start_at_the_mean_of_all(name, tmp_path):
    model, (size, source, roles) = make(name.rpartition(",")[0]), SIZES[name]
    larger = model.resized(*size, **source)
    before, after = matrices(model), matrices(larger)
    for role, old in before.items():
        np.testing.assert_array_equal(after[role][: len(old)], old)
        assert len(after[role]) == len(old) + (role in roles) * (3 if role == "source" else 2)
        for row in after[role][len(old) :]:
            np.testing.assert_allclose(row, old.mean(0), rtol=1e-5)
    for path, old in moments(model).items():
        new = moments(larger)[path]
        np.testing.assert_array_equal(new[tuple(map(slice, old.shape))], old)
        assert np.count_nonzero(new) == np.count_nonzero(old)
    np.testing.assert_allclose(outputs(larger)[..., : outputs(model).shape[-1]], outputs(model), atol=1e-6)
    if isinstance(model, kt.models.SkipGram):
        np.testing.assert_array_equal(larger.output_updates, [*np.array(model.output_updates), 0, 0])
    assert np.isfinite(train(larger))
    check_files(larger, tmp_path)
    back = larger.resized(*(V for _ in size), **dict.fromkeys(source, S))
    assert back.get_config() == model.get_config()


@pytest.mark.parametrize("name", ["Translator, none", "JointLanguageModel"])
def test_source_and_target_rows_are_taken(name):
    model = translator("none") if "none" in name else joint(False)
    copy = model.with_rows([3, 0, 3], source_rows=[5, 1])
    before, after = matrices(model), matrices(copy)
    for role, rows in {"input": [3, 0, 3], "output": [3, 0, 3], "source": [5, 1]}.items():
        np.testing.assert_array_equal(after[role], before[role][rows])
    np.testing.assert_allclose(
        copy.output_projection.bias, np.array(model.output_projection.bias)[[3, 0, 3]] - np.log([2, 1, 2]), rtol=1e-6
    )


def test_counts_of_words_follow_their_words():
    model = make("SkipGram, untied")
    copy = model.with_rows([2, 5, 2])
    counts = np.array(model.input_updates)
    np.testing.assert_array_equal(copy.input_updates, [counts[2], counts[5], 0])
    assert counts[5]


@pytest.mark.parametrize("name", [name for name in MAKE if "one vocabulary" not in name])
def test_lora_in_every_direction_is_merged(name, tmp_path):
    model = MAKE[name]()
    layers = {each for each in vars(model).values() if isinstance(each, keras.layers.Embedding)}
    for layer in layers:
        layer.enable_lora(2)
    model.compile(kt.optimizers.ClippedAdam(0.1, average_momentum=0.5), run_eagerly=True)
    for _ in range(2):
        train(model)
    before = outputs(model)
    assert any(np.any(np.array(layer.lora_embeddings_b)) for layer in layers)
    copy = model.without_lora()
    np.testing.assert_allclose(outputs(copy), before, atol=1e-5)
    assert len(matrices(copy)) == len(matrices(model))
    assert not [path for path in (each.path for each in copy.weights) if "lora" in path]
    path = copy.embedding.embeddings.path
    place = [each.path for each in copy.trainable_variables].index(path)
    average = np.array(copy.optimizer.averages[place])  # of the base, which was not trained, and the delta
    assert 0 < np.abs(average - np.array(copy.embedding.embeddings)).max() < 0.5 * np.abs(average).max() + 0.1
    check_files(copy, tmp_path)
    assert np.isfinite(train(copy))


@pytest.fixture(params=["h5", "keras", "safetensors"])
def files(request, tmp_path):
    """Functions that write a model to a file, and read the file of a model as one of the given tying, by kind of file.

    With the tolerance of its precision.
    """
    kind, file = request.param, tmp_path / ("model.weights.h5" if request.param == "h5" else "model.keras")

    def loaded(name):
        model = MAKE[name]()
        model.load_weights(file)
        return model

    return {
        "h5": (lambda model: model.save_weights(file), loaded, 0),
        "keras": (lambda model: model.save(file), lambda _: keras.saving.load_model(file), 0),
        "safetensors": (lambda model: write_model(model, tmp_path), lambda _: read_model(tmp_path), 0.02),
    }[kind]


PAIRS = [
    ("LanguageModel, tied", "LanguageModel, untied"),
    ("Translator, three-way", "Translator, untied, one vocabulary"),
    ("JointLanguageModel, tied", "JointLanguageModel, untied"),
    ("SkipGram, tied", "SkipGram, untied"),
]


@pytest.mark.parametrize(("tied", "untied"), PAIRS)
def test_weights_of_one_file_come_into_tied_and_untied_models(tied, untied, files):
    write, read, tolerance = files
    model = make(tied)
    write(model)
    np.testing.assert_allclose(outputs(read(tied).untied_copy()), outputs(model), atol=tolerance)
    model = make(untied)
    write(model)
    three_way = {"tying": "three_way"} if "three-way" in tied else {}
    received = matrices(read(untied).tied_copy("output", **three_way))["tied"]
    np.testing.assert_allclose(received, matrices(model)["output"], atol=tolerance)


@pytest.mark.parametrize(
    ("file", "model"), [*PAIRS, *(pair[::-1] for pair in PAIRS), ("Translator, decoder", "Translator, three-way")]
)
def test_weights_of_another_tying_are_not_loaded_in_part(file, model, tmp_path):
    MAKE[file]().save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="of a model with the same sizes, tying and quantization"):
        MAKE[model]().load_weights(tmp_path / "model.weights.h5")


def test_dropout_of_words_knows_the_new_words():
    dropout = kt.zoo.VariationalDropout(words=0.5)
    model = kt.zoo.recurrent_language_model(V, H, dropout=dropout).resized(V + 3)
    words = np.arange(V + 3)[None]
    assert np.all(np.isfinite(model(words, targets=words, training=True).token_losses))


def test_frozen_embeddings_have_no_moments_to_move():
    model = joint(False, trainable_embeddings=False)
    model.compile("adam", run_eagerly=True)
    train(model)
    copy = model.tied_copy("input")
    np.testing.assert_array_equal(matrices(copy)["tied"], matrices(model)["input"])
    assert not np.any(moments(copy)["embedding/embeddings"])
    assert np.any(moments(copy)["embedding/bias"])


def test_a_joint_model_with_a_layer_of_two_matrices_is_untied(tmp_path):
    model = joint(True).untied_copy()
    assert not model.tied
    assert set(matrices(model)) == {"source", "input", "output"}
    assert model.source_vocabulary_size == S
    check_files(model, tmp_path)


def test_policy_and_names_are_those_of_the_model():
    model = translator("three_way", dtype="mixed_bfloat16")
    copy = model.untied_copy()
    assert copy.source_embedding.dtype_policy.name == copy.dtype_policy.name == "mixed_bfloat16"
    assert (copy.source_embedding.name, copy.name) == ("source_embedding", model.name)
    assert copy.source_embedding.bias is None
    assert MAKE["SkipGram, tied"]().untied_copy().context_embedding.name == "context_embedding"


WRONG = {
    "tied twice": (lambda: translator("decoder").tied_copy("input"), "must be untied. Received: one that is tied"),
    "tied three ways twice": (lambda: translator("three_way").tied_copy("input", tying="three_way"), "must be untied"),
    "less tied": (lambda: translator("three_way").tied_copy("input"), r"call untied_copy\(tying='decoder'\)"),
    "untied twice": (lambda: MAKE["SkipGram, untied"]().untied_copy(), "must be tied. Received: one that is untied"),
    "untied to the decoder twice": (lambda: translator("decoder").untied_copy(tying="decoder"), "must be tied"),
    "two vocabularies": (
        lambda: translator("none").tied_copy("input", tying="three_way"),
        r"one size \[V, H\]. Received: \{'source': \(7, 4\), 'input': \(9, 4\)",
    ),
    "two widths": (
        lambda: kt.zoo.nnjm(V, S, embedding_size=H, hidden_units=(5,)).tied_copy("input"),
        r"one size \[V, H\]. Received: \{'input': \(9, 4\), 'output': \(9, 5\)",
    ),
    "the source without three ways": (
        lambda: translator("none").tied_copy("source"),
        r"one of \['input', 'output', 'mean'\]. Received: matrix='source'",
    ),
    "no such tying": (lambda: translator("none").tied_copy("mean", tying="all"), r"one of \['decoder', 'three_way'\]"),
    "no such untying": (lambda: translator("decoder").untied_copy(tying="all"), r"one of \['none', 'decoder'\]"),
    "no size": (lambda: MAKE["SkipGram, tied"]().resized(), "Give `vocabulary_size`, or `source_vocabulary_size`"),
    "no rows": (lambda: translator("none").with_rows([]), r"`rows` must be word ids \[V\] with at least one"),
    "rows of no source word": (lambda: translator("none").with_rows(source_rows=[S]), r"in \[0, 7\). Received: 7"),
    "no words of the source": (
        lambda: translator("none").resized(source_vocabulary_size=0),
        "`source_vocabulary_size` must be at least 1",
    ),
    "other stop words": (
        lambda: kt.zoo.nnjm_global(8, 8, stop_words=2).with_rows(source_rows=[0, 2, 1, *range(3, 8)]),
        r"The first 2 source words, [^\n]* must stay the first\. Received: source_rows that begin with \[0, 2\]",
    ),
    "one vocabulary": (
        lambda: translator("three_way").resized(source_vocabulary_size=4),
        "by `vocabulary_size`. Received: source_vocabulary_size=4",
    ),
    "no LoRA": (lambda: translator("none").without_lora(), "must have LoRA"),
    "optimizer": (
        lambda: make("SkipGram, tied", keras.optimizers.Adafactor(0.01)).resized(5),
        "Compile the model with such an optimizer first. Received: Adafactor",
    ),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["Translator, three-way", "SkipGram, tied", "JointLanguageModel, tied"])
def test_lora_is_merged_and_quantization_waits(name):
    model = MAKE[name]()
    model.embedding.enable_lora(2)
    with pytest.raises(ValueError, match=r"Call without_lora\(\) first"):
        model.untied_copy()
    model = MAKE[name]()
    model.quantize("int8")
    with pytest.raises(ValueError, match="must not be quantized"):
        model.resized(V + 1)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", TO_PRECISION)
def test_a_copy_in_another_precision_computes_nearly_the_same_and_returns(name, precision):
    model = make(name)
    copy = model.with_precision(precision)
    computing = [copy, *(layer for layer in leaf_layers(copy) if layer.trainable_variables)]
    assert {layer.compute_dtype for layer in computing} == {precision.removeprefix("mixed_")}
    assert {variable.dtype for variable in copy.trainable_variables} == {"float32"}
    assert not np.array_equal(outputs(copy), outputs(model))
    np.testing.assert_allclose(outputs(copy), outputs(model), atol=0.1)
    scales = isinstance(copy.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scales == (precision == "mixed_float16")
    back = copy.with_precision("float32")
    np.testing.assert_array_equal(outputs(back), outputs(model))
    assert train(back) == train(model)
    np.testing.assert_array_equal(outputs(back), outputs(model))


def test_layers_with_a_policy_of_their_own_keep_it():
    hidden = [keras.layers.Dense(H, dtype="mixed_bfloat16"), keras.layers.Dense(H)]
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H), hidden)
    copy = model.with_precision("mixed_float16")
    assert [layer.compute_dtype for layer in copy.hidden_layers] == ["bfloat16", "float16"]


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_with_an_adaptive_embedding_has_a_copy_in_another_precision(tied):
    model = kt.zoo.recurrent_language_model(V, H, tied=tied, adaptive_cutoffs=[4])
    copy = model.with_precision("mixed_bfloat16")
    np.testing.assert_array_equal(outputs(copy.with_precision("float32")), outputs(model))
    assert copy.hidden_layers[-1].compute_dtype == "bfloat16"


def test_a_model_with_a_map_of_policies_has_no_copy_in_another_precision():
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H), [keras.layers.Dense(H)], dtype=policies)
    with pytest.raises(ValueError, match="must have one dtype policy"):
        model.with_precision("mixed_bfloat16")


@pytest.mark.parametrize("precision", ["bfloat16", "float64", "int8_from_float32", "int8", "bf16", 16, None])
def test_precisions_that_change_variables_are_refused(precision):
    with pytest.raises(ValueError, match=f"variables in float32.*Received: precision={precision!r}"):
        MAKE["LanguageModel, tied"]().with_precision(precision)
