"""The hyper-parameters of every model of the zoo, as published."""

from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_tying as kt
from keras_tying.training.task import LOSSES
from keras_tying.zoo import builders, recipes

SELF_EVIDENT = {"name", "dtype", "trainable", "return_sequences", "return_state", "recurrent_activation"}


def summary(config):
    """A configuration in short form: layers and initializers by class name, and only values that are set."""
    if isinstance(config, (list, tuple)):
        return [summary(each) for each in config]
    if not isinstance(config, dict):
        return config
    if "class_name" in config:
        kind, inner = config["class_name"], config["config"]
        if kind == "RandomUniform" and inner["minval"] == -inner["maxval"]:
            return f"uniform {inner['maxval']:g}"
        if kind == "Zeros":
            return "zeros"
        frozen = {"frozen": True} if inner.get("trainable") is False else {}
        return {"layer": kind, **summary(inner), **frozen}
    reduced = {name: summary(value) for name, value in config.items() if name not in SELF_EVIDENT}
    return {name: value for name, value in reduced.items() if value}


def embedding(words, width, initial, bias="zeros", **more):
    """A `TiedEmbedding` with both roles in one matrix and a bias."""
    return {
        "layer": "TiedEmbedding",
        "input_dim": words,
        "output_dim": width,
        "embeddings_initializer": initial,
        "tie_weights": True,
        "use_bias": True,
        "bias_initializer": bias,
        **more,
    }


def without(settings, *names):
    return {name: value for name, value in settings.items() if name not in names}


def lookup(words, width, initial):
    return {"layer": "Embedding", "input_dim": words, "output_dim": width, "embeddings_initializer": initial}


def lstm(units, initial, **more):
    """An LSTM layer without `unit_forget_bias`: all gates have the same initial bias."""
    return {
        "layer": "LSTM",
        "units": units,
        "activation": "tanh",
        "use_bias": True,
        "kernel_initializer": initial,
        "recurrent_initializer": initial,
        "bias_initializer": initial,
        **more,
    }


def dense(units, initial, activation, **more):
    return {
        "layer": "Dense",
        "units": units,
        "activation": activation,
        "use_bias": True,
        "kernel_initializer": initial,
        "bias_initializer": initial,
        **more,
    }


def dropout(rate, **more):
    return {"layer": "Dropout", "rate": rate, **more}


PER_WINDOW = {"noise_shape": [None, 1, None]}
PENALTY = {"layer": "ProjectionRegularizer", "scale": 1 / 6.5, "norm": "half_squared", "batch_size": 20}
PROJECTION = without(dense(200, "uniform 0.1", "linear", kernel_regularizer=PENALTY), "use_bias")
SHARED_MASKS = {"shared_dropout_masks": True, "drop_outputs": True}
GATE_MASKS = {"dropout": 0.5, "recurrent_dropout": 0.3}

LANGUAGE_MODELS = {
    "ptb_small": (
        {},
        embedding(10_000, 200, "uniform 0.1", "uniform 0.1"),
        [lstm(200, "uniform 0.1"), lstm(200, "uniform 0.1")],
    ),
    "ptb_small, untied, projection": (
        {"tied": False, "projection": True},
        without(embedding(10_000, 200, "uniform 0.1", "uniform 0.1"), "tie_weights"),
        [lstm(200, "uniform 0.1"), lstm(200, "uniform 0.1"), PROJECTION],
    ),
    "ptb_small, projection with a bias": (
        {"projection": True, "projection_bias": True},
        embedding(10_000, 200, "uniform 0.1", "uniform 0.1"),
        [lstm(200, "uniform 0.1"), lstm(200, "uniform 0.1"), {**PROJECTION, "use_bias": True}],
    ),
    "ptb_medium": (
        {},
        embedding(10_000, 650, "uniform 0.05", "uniform 0.05"),
        [dropout(0.5), lstm(650, "uniform 0.05"), dropout(0.5), lstm(650, "uniform 0.05"), dropout(0.5)],
    ),
    "ptb_large": (
        {},
        embedding(10_000, 1500, "uniform 0.04", "uniform 0.04"),
        [dropout(0.65), lstm(1500, "uniform 0.04"), dropout(0.65), lstm(1500, "uniform 0.04"), dropout(0.65)],
    ),
    "ptb_large, bayesian": (
        {"bayesian": True},
        embedding(10_000, 1500, "uniform 0.04", "uniform 0.04"),
        [
            {"layer": "WordDropout", "vocabulary_size": 10_000, "rate": 0.3},
            lstm(1500, "uniform 0.04", **GATE_MASKS),
            lstm(1500, "uniform 0.04", **GATE_MASKS),
            dropout(0.5, **PER_WINDOW),
        ],
    ),
    "vd_lstm_small": (
        {},
        without(embedding(10_000, 200, "uniform 0.1", "uniform 0.1"), "tie_weights"),
        [lstm(200, "uniform 0.1", recurrent_dropout=0.3, **SHARED_MASKS)] * 2,
    ),
    "vd_lstm_small, tied": (
        {"tied": True},
        without(embedding(10_000, 200, "uniform 0.1", "uniform 0.1"), "use_bias"),
        [lstm(200, "uniform 0.1", recurrent_dropout=0.3, **SHARED_MASKS)] * 2,
    ),
    "vd_lstm_medium": (
        {},
        without(embedding(10_000, 650, "uniform 0.05", "uniform 0.05"), "tie_weights"),
        [lstm(650, "uniform 0.05", recurrent_dropout=0.5, **SHARED_MASKS)] * 2,
    ),
    "vd_lstm_large": (
        {},
        without(embedding(10_000, 1500, "uniform 0.04", "uniform 0.04"), "tie_weights"),
        [lstm(1500, "uniform 0.04", recurrent_dropout=0.65, **SHARED_MASKS)] * 2,
    ),
    "rhn": (
        {},
        embedding(10_000, 830, "uniform 0.04", "uniform 0.04"),
        [
            {"layer": "WordDropout", "vocabulary_size": 10_000, "rate": 0.25},
            {
                "layer": "RecurrentHighway",
                "units": 830,
                "depth": 10,
                "dropout": 0.75,
                "recurrent_dropout": 0.25,
                "transform_bias": -2.0,
                "kernel_initializer": "uniform 0.04",
                "recurrent_initializer": "uniform 0.04",
                "bias_initializer": "uniform 0.04",
            },
            dropout(0.75, **PER_WINDOW),
        ],
    ),
}

JOINT = {
    "embedding": lookup(10_000, 96, "uniform 0.05"),
    "hidden_layers": [dense(128, "uniform 0.05", "tanh")],
    "order": 4,
    "sentence_length": 100,
    "output_embedding": embedding(10_000, 128, "uniform 0.05", "uniform 0.05"),
}
TIED_JOINT = {
    "embedding": embedding(10_000, 96, "uniform 0.05", "uniform 0.05"),
    "hidden_layers": [
        dense(128, "uniform 0.05", "tanh"),
        without(dense(96, "uniform 0.05", "linear"), "use_bias"),
    ],
}
WINDOW = {"source_embedding": lookup(10_000, 96, "uniform 0.05"), "window": 7}
MEANS = {"layer": "SectionMeans", "sections": 1, "split": "adaptive"}
FIXED_MEANS = {"layer": "SectionMeans", "sections": 2, "split": "fixed", "stop_words": 10}
GLOBAL = {"sections": 2, "split": "fixed", "stop_words": 10, "global_units": 192, "activation": "leaky_relu"}
LEAKY = {"layer": "LeakyReLU", "negative_slope": 0.01}

FAN_OUT, FAN_IN = (
    {"layer": "VarianceScaling", "scale": 1.0, "mode": mode, "distribution": "truncated_normal"}
    for mode in ("fan_out", "fan_in")
)
WEIGHT_DROP = {"weight_drop": 0.5}
CAPPED = {"cap_input_gate": True, "shared_dropout_masks": True, "unit_forget_bias": True, "bias_initializer": "zeros"}
MOGRIFIER = without(lstm(912, FAN_IN, **CAPPED, rounds=5, rank=84), "shared_dropout_masks") | {"layer": "MogrifierLSTM"}

OTHERS = {
    "awd_lstm": (
        {},
        {
            "embedding": embedding(10_000, 400, "uniform 0.1"),
            "hidden_layers": [
                {"layer": "WordDropout", "vocabulary_size": 10_000, "rate": 0.1},
                dropout(0.4, **PER_WINDOW),
                lstm(1150, f"uniform {1150**-0.5:g}", **WEIGHT_DROP),
                dropout(0.25, **PER_WINDOW),
                lstm(1150, f"uniform {1150**-0.5:g}", **WEIGHT_DROP),
                dropout(0.25, **PER_WINDOW),
                lstm(400, "uniform 0.05", **WEIGHT_DROP),
                {
                    "layer": "Activation",
                    "activation": "linear",
                    "activity_regularizer": {"layer": "TemporalActivationRegularizer", "scale": 1.0},
                },
                dropout(0.4, **PER_WINDOW, activity_regularizer={"layer": "ActivationRegularizer", "scale": 2.0}),
            ],
        },
    ),
    "single_layer_lstm": (
        {},
        {
            "embedding": embedding(10_000, 272, FAN_OUT),
            "hidden_layers": [
                dropout(0.51551),
                lstm(1186, FAN_IN, recurrent_dropout=0.18417, **CAPPED),
                dropout(0.33801),
                without(
                    dense(272, {"layer": "Orthogonal", "gain": 1.0}, "linear", bias_initializer="zeros"), "use_bias"
                ),
                dropout(0.33801),
            ],
            "state_reset_rate": 0.01,
        },
    ),
    "mogrifier_lstm": (
        {},
        {
            "embedding": embedding(10_000, 912, FAN_OUT),
            "hidden_layers": [
                dropout(0.72908),
                {**MOGRIFIER, "recurrent_dropout": 0.38729},
                dropout(0.29098),
                {**MOGRIFIER, "recurrent_dropout": 0.38729},
                dropout(0.71567),
            ],
            "state_reset_rate": 0.01,
        },
    ),
    "nnlm": ({}, JOINT),
    "nnlm, tied": ({"tied": True}, {**without(JOINT, "output_embedding"), **TIED_JOINT}),
    "nnjm": ({}, {**JOINT, **WINDOW}),
    "nnjm, frozen": (
        {"trainable_embeddings": False},
        {
            **JOINT,
            "embedding": {**lookup(10_000, 96, "uniform 0.05"), "frozen": True},
            "source_embedding": {**lookup(10_000, 96, "uniform 0.05"), "frozen": True},
            "window": 7,
        },
    ),
    "nnjm_global": ({}, {**JOINT, **WINDOW, "global_context": [MEANS]}),
    "nnjm_global, sections": (
        GLOBAL,
        {
            **JOINT,
            **WINDOW,
            "hidden_layers": [dense(128, "uniform 0.05", "linear"), LEAKY],
            "global_context": [FIXED_MEANS, dense(192, "uniform 0.05", "linear"), LEAKY],
        },
    ),
    "dl4mt": (
        {},
        {
            "embedding": embedding(90_000, 500, "uniform 0.1"),
            "source_embedding": without(embedding(90_000, 500, "uniform 0.1"), "use_bias"),
            "units": 1000,
        },
    ),
    "dl4mt_small": (
        {},
        {
            "embedding": embedding(8_000, 256, "uniform 0.1"),
            "source_embedding": without(embedding(8_000, 256, "uniform 0.1"), "use_bias"),
            "units": 256,
            "dropout": 0.3,
        },
    ),
    "dl4mt_small, none": (
        {"tying": "none"},
        {
            "embedding": without(embedding(8_000, 256, "uniform 0.1"), "tie_weights"),
            "source_embedding": without(embedding(8_000, 256, "uniform 0.1"), "use_bias"),
            "units": 256,
            "dropout": 0.3,
        },
    ),
    "dl4mt_small, three-way": (
        {"tying": "three_way"},
        {"embedding": embedding(8_000, 256, "uniform 0.1"), "units": 256, "dropout": 0.3},
    ),
    "skip_gram": (
        {},
        {
            "embedding": without(embedding(10_000, 100, "uniform 0.005"), "use_bias"),
            "context_embedding": without(embedding(10_000, 100, "zeros"), "use_bias"),
            "negatives": 5,
        },
    ),
    "skip_gram, tied": (
        {"tied": True},
        {"embedding": without(embedding(10_000, 100, "uniform 0.005"), "use_bias"), "negatives": 5},
    ),
}
EXPECTED = OTHERS | {
    label: (arguments, {"embedding": embedding, "hidden_layers": hidden_layers})
    for label, (arguments, embedding, hidden_layers) in LANGUAGE_MODELS.items()
}


@pytest.mark.parametrize("label", EXPECTED)
def test_builder_has_the_published_hyper_parameters(label):
    arguments, expected = EXPECTED[label]
    model = kt.zoo.create_model(label.split(",")[0], **arguments)
    assert summary(model.get_config()) == expected


def test_every_builder_has_expected_hyper_parameters():
    assert {label.split(",")[0] for label in EXPECTED} == set(kt.zoo.list_models())


def test_layers_start_from_numbers_of_their_own_also_with_a_seed():
    own = {"class_name": "GlorotUniform", "config": {"seed": 1}}
    model = kt.zoo.recurrent_language_model(10, 4, kernel_initializer=own)
    first, second = (layer.cell.kernel for layer in model.recurrent_layers)
    assert first.shape == second.shape
    assert not np.array_equal(first, second)


def test_micro_steps_of_highway_layers_start_from_numbers_of_their_own_also_with_a_seed():
    own = {"class_name": "GlorotUniform", "config": {"seed": 1}}
    model = kt.zoo.recurrent_language_model(
        10,
        4,
        recurrent_layer=partial(kt.layers.RecurrentHighway, depth=3),
        kernel_initializer=own,
        recurrent_initializer=own,
    )
    matrices = [
        matrix
        for layer in model.recurrent_layers
        for matrix in (np.array(layer.kernel), *np.array(layer.recurrent_kernel))
    ]
    assert len(matrices) == 8
    assert len({matrix.tobytes() for matrix in matrices}) == 8


@pytest.mark.parametrize("tied", [True, False])
def test_parts_of_a_language_model_have_initializers_of_their_own(tied):
    model = kt.zoo.vd_lstm_small(
        tied,
        vocabulary_size=1000,
        units=50,
        initializer_range=0.05,
        kernel_initializer="glorot_uniform",
        recurrent_initializer={"class_name": "Orthogonal", "config": {"gain": 2.0}},
        recurrent_bias_initializer="zeros",
        unit_forget_bias=True,
        output_bias=True,
        output_bias_initializer="zeros",
    )
    read = keras.ops.convert_to_numpy

    def is_uniform(matrix, limit):
        assert 0.9 * limit < np.abs(read(matrix)).max() <= limit

    is_uniform(model.embedding.embeddings, 0.05)
    if not tied:
        is_uniform(model.embedding.reverse_embeddings, np.sqrt(6 / 1050))
    np.testing.assert_array_equal(read(model.embedding.bias), 0)
    first, second = (layer for layer in model.hidden_layers if layer.name.startswith("recurrent"))
    for layer in (first, second):
        is_uniform(layer.cell.kernel, np.sqrt(6 / 250))
        recurrent = read(layer.cell.recurrent_kernel)
        np.testing.assert_allclose(recurrent @ recurrent.T, 4 * np.eye(50), atol=1e-4)
        bias = read(layer.cell.bias)
        np.testing.assert_array_equal(bias, np.repeat([0.0, 1.0, 0.0, 0.0], 50))
    kernels = [read(layer.cell.kernel) for layer in (first, second)]
    assert not np.array_equal(*kernels)


def test_the_augmented_loss_has_the_published_temperature():
    assert summary(kt.losses.AugmentedLoss().get_config()) == {
        "reduction": "sum_over_steps",
        "gamma": 0.65,
        "tau": 20.0,
        "cross_entropy_weight": 1.0,
    }


@pytest.mark.parametrize("name", [name for name in recipes.list_recipes() if "augmented" in name])
def test_recipes_of_the_augmented_loss_name_it_and_tied_ones_train_its_target(name):
    loss = recipes.load_recipe(name).loss
    assert loss.name == "augmented"
    assert loss.arguments == {
        "gamma": 1.25 if "wikitext2" in name else 0.65,
        "tau": 20.0,
        "target_gradient": "_tied" in name,
    }
    assert LOSSES[loss.name](**loss.arguments).get_config()["gamma"] == loss.arguments["gamma"]


def test_other_recipes_train_with_cross_entropy():
    others = [name for name in recipes.list_recipes() if "augmented" not in name]
    assert {recipes.load_recipe(name).loss.name for name in others} == {"cross_entropy"}


@pytest.mark.parametrize("name", ["ptb_small", "vd_lstm_small", "nnlm", "dl4mt_small", "skip_gram"])
def test_precision_reaches_every_layer(name):
    sizes = {"dl4mt_small": {"source_vocabulary_size": 20, "target_vocabulary_size": 20}}
    model = kt.zoo.create_model(name, **sizes.get(name, {}), dtype="mixed_bfloat16")
    layers = [model.embedding, *getattr(model, "hidden_layers", [])]
    assert {layer.compute_dtype for layer in (model, *layers)} == {"bfloat16"}


@pytest.mark.parametrize(
    ("name", "argument"),
    [("ptb_small", "tied"), ("ptb_small", "projection"), ("nnjm", "tied"), ("skip_gram", "tied"), ("awd_lstm", "tied")],
)
def test_a_text_is_no_switch(name, argument):
    with pytest.raises(ValueError, match=rf"`{argument}` must be true or false. Received: {argument}='no'"):
        getattr(kt.zoo, name)(**{argument: "no"})


def test_no_module_of_the_zoo_has_the_name_of_a_builder():
    modules = {path.stem for path in Path(builders.__file__).parent.glob("*.py")}
    assert not modules & set(builders.__all__)


def test_the_penalty_of_a_projection_can_be_another_one():
    penalty = kt.regularizers.ProjectionRegularizer(batch_size=40)
    model = kt.zoo.ptb_small(vocabulary_size=30, projection=True, projection_regularizer=penalty)
    assert model.hidden_layers[-1].kernel_regularizer is penalty
