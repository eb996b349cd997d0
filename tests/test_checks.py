"""Arguments out of range raise ValueError, in one line that says what was expected and what was received."""

import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.checks import check_integer, check_number, check_rate
from keras_tying.data.skip_gram import keep_probabilities
from keras_tying.extras import require
from keras_tying.inference.language_model import mc_perplexity, stream_perplexity

NAN, INF = float("nan"), float("inf")
WRAPS = 2**32 + 5
"""An id that would be 5 as `int32`."""

V = 9
ONE = np.zeros((2, 1), int)
NONE = np.zeros((2, 0), int)
SPECIALS = ["<unk>", "<eos>"]


@pytest.fixture(scope="module")
def language_model():
    return kt.zoo.ptb_small(vocabulary_size=V, units=4)


@pytest.fixture(scope="module")
def translator():
    return kt.zoo.dl4mt(V, V, embedding_size=4, units=4)


@pytest.fixture(scope="module")
def joint_model():
    return kt.zoo.nnjm_global(V, V, embedding_size=4, hidden_units=(4,), window=3, sentence_length=5)


def raises(received):
    """The error of one line in which `received` is after "Received:"."""
    return pytest.raises(ValueError, match=rf"(?s)\A[^\n]*Received: [^\n]*{received}[^\n]*\Z")


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, True, "3", None, NAN])
def test_integer_must_be_an_integer_of_at_least_one(value):
    with raises("size="):
        check_integer("size", value)


@pytest.mark.parametrize("value", [np.int64(3), 1, 10**12])
def test_integers_pass(value):
    check_integer("size", value)


@pytest.mark.parametrize("value", [NAN, INF, -INF, -0.5, "1", None, True])
def test_number_must_be_finite_and_in_its_range(value):
    with raises("x="):
        check_number("x", value, least=0)
    with raises("x=0"):
        check_number("x", 0, above=0)


@pytest.mark.parametrize("value", [1, 1.0, -0.1, NAN, "0.5", None])
def test_rate_must_be_in_its_range(value):
    with raises("rate="):
        check_rate("rate", value)


@pytest.mark.parametrize("rate", [1, 18.4, -0.1, NAN, True])
@pytest.mark.parametrize("name", ["input_dropout", "layer_dropout", "state_dropout", "output_dropout", "weight_drop"])
def test_rates_of_a_mogrifier_are_rates(name, rate):
    with raises(f"={rate}"):
        kt.zoo.mogrifier_lstm(
            vocabulary_size=V, embedding_size=2, units=2, num_layers=1, rounds=1, rank=1, **{name: rate}
        )


@pytest.mark.parametrize("name", ["dropout", "recurrent_dropout"])
def test_rates_of_an_lstm_are_not_replaced(name):
    with raises(f"{name}=18.4"):
        kt.layers.LSTM(4, **{name: 18.4})


@pytest.mark.parametrize("argument", [{"units": 0}, {"hidden_dropout": 1.0}, {"input_dropout": True}])
def test_arguments_of_an_awd_lstm_are_checked_where_one_layer_does_not_use_them(argument):
    with raises("="):
        kt.zoo.awd_lstm(vocabulary_size=V, embedding_size=2, num_layers=1, **argument)


@pytest.mark.parametrize("value", ["no", "false", NAN, 0, None])
def test_whether_a_target_has_a_gradient_is_true_or_false(value):
    with raises("target_gradient="):
        kt.losses.AugmentedLoss(target_gradient=value)


def test_an_infinite_loss_has_an_infinite_perplexity():
    metric = kt.metrics.Perplexity()
    metric.update_state(np.zeros((1, 2), int), np.array([[[-INF, 0.0], [0.0, 0.0]]], "float32"))
    assert float(metric.result()) == INF
    metric.update_state(np.zeros((1, 2), int), np.zeros((1, 2, 2), "float32"))
    assert float(metric.result()) == INF


def test_layers_draw_and_measure_in_float32_where_the_default_is_narrower(monkeypatch):
    dtypes, uniform = [], keras.random.uniform
    monkeypatch.setattr(keras.random, "uniform", lambda *a, **b: dtypes.append(b.get("dtype")) or uniform(*a, **b))
    layer = kt.layers.WordDropout(V, 0.5, seed=0)
    layer(np.zeros((1, 2, 3), "float32"), np.zeros((1, 2), int), training=True)
    model = kt.zoo.mogrifier_lstm(
        vocabulary_size=V, embedding_size=2, units=2, num_layers=1, rounds=0, state_reset_rate=0.5
    )
    model.carry_state(1)
    model.carried.start(training=True)
    assert dtypes[0] == dtypes[-1] == "float32"
    default = keras.config.floatx()
    keras.config.set_floatx("bfloat16")
    try:
        assert kt.metrics.Perplexity().dtype == "float32"
    finally:
        keras.config.set_floatx(default)


@pytest.mark.parametrize("target", [V, 2**31, 2**32 + 3, -(2**32)])
def test_the_loss_of_a_target_that_is_no_word_is_nan(target):
    loss = kt.losses.SequenceCrossEntropy()
    targets = keras.ops.convert_to_tensor(np.array([[target]]), "int64")
    assert np.isnan(float(loss(targets, np.zeros((1, 1, V), "float32"))))


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "3"])
def test_state_is_carried_for_a_whole_number_of_rows(language_model, batch_size):
    with raises("batch_size="):
        language_model.carry_state(batch_size)
    assert language_model.carried.batch_size is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": NAN},
        {"temperature": INF},
        {"temperature": -1.0},
        {"length": -1},
        {"length": 1.5},
        {"top_k": 0},
        {"top_k": 1.5},
        {"top_p": NAN},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"seed": -1},
        {"seed": 0.5},
    ],
    ids=str,
)
def test_generate_names_the_argument_out_of_range(language_model, arguments):
    ((name, _),) = arguments.items()
    with raises(f"{name}="):
        language_model.generate(ONE, **{"length": 2, **arguments})


@pytest.mark.parametrize("number", [0, 3, 9])
def test_states_are_counted(language_model, number):
    with raises(f"{number} states"):
        language_model.score(ONE, ONE, states=[np.zeros((2, 4), "float32")] * number)


@pytest.mark.parametrize("ids", [WRAPS, -1, V, 0.5])
def test_ids_are_checked_before_they_are_converted(language_model, translator, joint_model, ids):
    wrong = np.array([[ids]])
    inputs = {"history": np.zeros((1, 3), int), "window": np.zeros((1, 3), int), "sentence": np.zeros((1, 5), int)}
    asks = [
        lambda: language_model.generate(wrong, 1),
        lambda: language_model.score(wrong, ONE[:1]),
        lambda: language_model.score(ONE[:1], wrong),
        lambda: joint_model.score({**inputs, "history": wrong.repeat(3, 1)}, np.zeros(1, int)),
        lambda: joint_model.score(inputs, wrong[0]),
        lambda: kt.data.windows(wrong[0].repeat(9), 1, 2, vocabulary_size=V),
        lambda: kt.metrics.nearest_neighbours(np.eye(V), wrong[0], 1),
    ]
    if ids != -1:  # the id of padding
        pairs = {"source": wrong, "target": wrong}
        asks += [
            lambda: translator.translate(wrong, end_id=1),
            lambda: translator.sample(wrong, end_id=1),
            lambda: translator.score(pairs, ONE[:1]),
            lambda: translator.attend(pairs),
            lambda: joint_model.score({**inputs, "sentence": wrong.repeat(5, 1)}, np.zeros(1, int)),
        ]
    for ask in asks:
        with raises(str(ids)):
            ask()


def test_ids_below_padding_raise(translator):
    with raises("-2"):
        translator.translate(np.array([[3, -2]]), end_id=1)


def test_texts_without_words_raise(language_model, translator):
    for ask in (
        lambda: language_model.generate(NONE, 1),
        lambda: language_model.score(NONE, NONE),
        lambda: language_model.score(ONE, NONE),
        lambda: translator.translate(NONE, end_id=1),
        lambda: translator.attend({"source": NONE, "target": ONE}),
        lambda: translator.score({"source": ONE, "target": NONE}, NONE),
    ):
        with raises(r"\(2, 0\)"):
            ask()


def test_sources_and_targets_are_pairs(translator):
    with raises("{'source': 1, 'target': 2}"):
        translator.score({"source": ONE[:1], "target": ONE}, ONE)
    with raises(r"\['source'\]"):
        translator.attend({"source": ONE})


@pytest.mark.parametrize("layer", [kt.layers.LSTM(4), kt.layers.RecurrentHighway(4, depth=2), kt.layers.OneBiasGRU(4)])
def test_recurrent_layers_need_a_step(layer):
    with pytest.raises(ValueError, match=r"at least one step. Received: shape=\(2, 0, 4\)"):
        layer(np.zeros((2, 0, 4), "float32"))


@pytest.mark.parametrize(
    "arguments",
    [
        {"beam_size": 0},
        {"beam_size": 1.5},
        {"n_best": 0},
        {"n_best": 9},
        {"length_penalty": NAN},
        {"maximum_length": -1},
        {"maximum_length": 0},
        {"end_id": -1},
    ],
    ids=str,
)
def test_translate_names_the_argument_out_of_range(translator, arguments):
    ((name, _),) = arguments.items()
    with raises(f"{name}="):
        translator.translate(ONE, **{"end_id": 1, **arguments})


def test_end_of_a_translation_is_a_target_word(translator):
    with raises(str(V)):
        translator.translate(ONE, end_id=V)


@pytest.mark.parametrize("arguments", [{"number": 0}, {"temperature": NAN}, {"top_p": NAN}, {"seed": -1}], ids=str)
def test_sample_names_the_argument_out_of_range(translator, arguments):
    ((name, _),) = arguments.items()
    with raises(f"{name}="):
        translator.sample(ONE, end_id=1, **arguments)


@pytest.mark.parametrize("sizes", [(0, 2), (-1, 2), (2, 0), (2.0, 2), (2, NAN)])
def test_windows_have_whole_sizes(sizes):
    with raises("(batch_size|sequence_length)="):
        kt.data.windows(np.arange(20), *sizes)


@pytest.mark.parametrize("ids", [np.arange(20.0), np.array([WRAPS] * 20), -np.arange(20), np.zeros((4, 5), int)])
def test_windows_take_one_row_of_ids(ids):
    with raises(""):
        kt.data.windows(ids, 2, 2)


@pytest.mark.parametrize("word", ["", "a\nb", "a\r", "\n", "\ud800", 3])
def test_vocabulary_holds_words_that_a_line_can_hold(word):
    with raises("as word 2"):
        kt.data.Vocabulary([*SPECIALS, word])


def test_vocabulary_raises_for_a_word_twice():
    with pytest.raises(ValueError, match="Received twice: 'a'"):
        kt.data.Vocabulary([*SPECIALS, "a", "a"])


@pytest.mark.parametrize(
    "arguments", [{"size": 2}, {"size": 3.5}, {"minimum_count": 0}, {"minimum_count": NAN}], ids=str
)
def test_vocabulary_of_a_text_names_the_argument_out_of_range(arguments):
    ((name, _),) = arguments.items()
    with raises(f"{name}="):
        kt.data.Vocabulary.from_tokens(["a", "b"], **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"window": 0}, {"span": 0}, {"spans": 0}, {"negatives": 0}, {"subsample": NAN}, {"subsample": -1.0}, {"seed": -1}],
    ids=str,
)
def test_batches_of_skip_gram_name_the_argument_out_of_range(arguments):
    ((name, _),) = arguments.items()
    with raises(f"{name}="):
        kt.data.SkipGramBatches(np.arange(4), np.ones(4, int), end_id=3, **arguments)


def test_subsampling_threshold_is_a_number():
    with raises("subsample=nan"):
        keep_probabilities(np.ones(3), NAN)


SIZES = [0, -1, 2.5, None]
BUILDERS = {
    "ptb_small": {"vocabulary_size": SIZES, "units": SIZES, "num_layers": SIZES, "initializer_range": [NAN, -1, "a"]},
    "ptb_medium": {"dropout": [1.0, NAN, -0.1, "a"], "logit_soft_cap": [0, NAN]},
    "vd_lstm_small": {"dropout": [1.0, NAN], "units": [0]},
    "rhn": {"depth": SIZES, "dropout": [1.0, NAN]},
    "skip_gram": {"vocabulary_size": SIZES, "units": SIZES, "negatives": SIZES},
    "dl4mt": {
        "source_vocabulary_size": SIZES,
        "target_vocabulary_size": SIZES,
        "embedding_size": SIZES,
        "units": SIZES,
    },
    "dl4mt_small": {"embedding_size": SIZES, "dropout": [1.0, NAN], "initializer_range": [NAN]},
    "nnlm": {
        "target_vocabulary_size": SIZES,
        "embedding_size": SIZES,
        "order": [1, 2.5],
        "hidden_units": [(), 4, (0,)],
    },
    "nnjm": {"source_vocabulary_size": SIZES, "window": [-1, 2, 1.5, NAN]},
    "nnjm_global": {"sections": SIZES, "stop_words": [-1, NAN], "sentence_length": SIZES, "global_units": [0, NAN]},
}


@pytest.mark.parametrize(
    ("builder", "name", "value"),
    [
        (builder, name, value)
        for builder, names in BUILDERS.items()
        for name, values in names.items()
        for value in values
    ],
)
def test_builders_name_the_argument_out_of_range(builder, name, value):
    with raises("" if name == "dropout" else f"{name}="):
        kt.zoo.create_model(builder, **{name: value})


@pytest.mark.parametrize(
    ("builder", "arguments"),
    [
        ("ptb_small", {"projection_bias": True}),
        ("ptb_small", {"adaptive_factor": -3}),
        ("ptb_large", {"dropout": 0.2, "bayesian": True}),
        ("rhn", {"unit_forget_bias": True}),
        ("nnjm", {"global_units": 3}),
        ("nnlm", {"sentence_length": 7}),
    ],
    ids=str,
)
def test_builders_refuse_arguments_without_effect(builder, arguments):
    name, value = next(iter(arguments.items()))
    with raises(f"{name}={value}"):
        kt.zoo.create_model(builder, **arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda size: kt.layers.CarriedState([4, size]),
        lambda size: kt.losses.SampledCrossEntropy(samples=size),
        lambda size: kt.losses.SequenceCrossEntropy(ignore_id=str(size)),
        lambda size: kt.regularizers.ProjectionRegularizer(batch_size=size),
        lambda size: kt.layers.OneBiasGRU(size),
        lambda size: kt.layers.ConditionalGRU(size),
        lambda size: kt.layers.ConditionalGRU(4, attention_units=size or 0),
        lambda size: kt.layers.AnnotationAttention(size),
        lambda size: kt.layers.RecurrentHighway(size),
        lambda size: kt.layers.RecurrentHighway(4, depth=size),
        lambda size: kt.layers.SectionMeans(sections=size),
        lambda size: kt.layers.WordDropout(size, 0.5),
        lambda size: kt.layers.TiedEmbedding(size, 4),
        lambda size: kt.layers.TiedEmbedding(4, size),
        lambda size: kt.metrics.nearest_neighbours(np.eye(3), np.array([0]), size),
        lambda size: kt.data.Subwords.learn(["a b"], size),
        lambda size: kt.data.pad_sentences([np.array([1])], size),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_whole_and_positive(make, size):
    with raises(""):
        make(size)


@pytest.mark.parametrize("size", SIZES)
def test_texts_are_measured_with_whole_sizes(language_model, size):
    with raises("passes="):
        mc_perplexity(language_model, np.arange(V), size)
    for name in ("batch_size", "sequence_length"):
        with raises(f"{name}="):
            stream_perplexity(language_model, np.arange(V), **{name: size})


def test_integers_of_numpy_are_integers():
    assert kt.regularizers.ProjectionRegularizer(batch_size=np.int64(5)).batch_size == 5


def test_metrics_of_nothing():
    assert float(kt.metrics.Perplexity().result()) == 1.0
    for ask in (
        lambda: kt.metrics.translation_scores([], []),
        lambda: kt.metrics.subspace_distance(np.zeros((3, 0)), np.zeros((3, 0))),
        lambda: kt.metrics.pair_correlations({}),
        lambda: kt.metrics.unit_rows(np.zeros(0)),
        lambda: kt.metrics.word_similarity(np.eye(2), {}, [("a", "b")], []),
    ):
        with raises(""):
            ask()
    assert kt.metrics.word_similarity(np.eye(2), {}, [], []).spearman is None


def test_empty_batches_have_empty_results(language_model):
    empty = np.zeros((0, 2), int)
    assert language_model.score(empty, empty).shape == (0, 2)
    assert language_model.generate(empty, 3).shape == (0, 3)
    assert kt.data.pad_sentences([]).shape == (0, 0)


def test_the_embedding_of_source_words_scores_no_target_words():
    embedding, shared = keras.layers.Embedding(V, 4), kt.layers.TiedEmbedding(V, 4)
    layers = [keras.layers.Dense(4)]
    with raises("the embedding of source words"):
        kt.models.JointLanguageModel(embedding, layers, source_embedding=shared, window=3, output_embedding=shared)
    kt.models.JointLanguageModel(shared, layers, source_embedding=shared, window=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda embedding: kt.models.Translator(embedding, units=4),
        lambda embedding: kt.models.Translator(kt.layers.TiedEmbedding(V, 4), units=4, source_embedding=embedding),
        lambda embedding: kt.models.JointLanguageModel(embedding, [keras.layers.Dense(4)]),
        lambda embedding: kt.models.JointLanguageModel(
            kt.layers.TiedEmbedding(V, 4), [keras.layers.Dense(4)], source_embedding=embedding, window=3
        ),
    ],
)
def test_models_that_pad_with_minus_one_refuse_another_padding(make):
    make(kt.layers.TiedEmbedding(V, 4))
    with raises("mask_zero=True"):
        make(kt.layers.TiedEmbedding(V, 4, mask_zero=True))
    with raises("Dense"):
        make(keras.layers.Dense(4))


def test_bootstrap_refuses_a_quantized_embedding(joint_model):
    model = keras.models.clone_model(joint_model)
    model.quantize("int8")
    with raises("quantization_mode='int8'"):
        model.bootstrap(target=np.zeros((V, 4)))


def test_a_package_that_lacks_one_of_its_own_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        require("broken_package", "studies")
    with pytest.raises(ModuleNotFoundError, match=r'no_such_package is not installed.*".\[studies\]"'):
        require("no_such_package.part", "studies")
