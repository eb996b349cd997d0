"""Small models of each kind, served."""

import json

import numpy as np
import pytest

import keras_tying as kt
from keras_tying.serving.limits import Limits
from keras_tying.serving.model import ServedModel

LIMITS = Limits(request_bytes=2000, sentences=6, characters=200, words=12)


@pytest.fixture(scope="session")
def trained(vocabulary):
    """Models by name, with weights large enough that their answers differ."""
    words = [kt.data.Vocabulary([*names, "<unk>", "<eos>"]) for names in ("abc", "xyz")]
    named = kt.data.Vocabulary(["king", "queen", "tulip", "rose", "<unk>", "<eos>"])
    subwords = kt.data.Subwords.learn(["a rose is a rose", "eine Rose", "two dogs", "zwei Hunde"] * 20, 30)
    models = {
        "lm": kt.zoo.recurrent_language_model(len(vocabulary), units=16),
        "nmt": kt.zoo.dl4mt_small(len(subwords), len(subwords), "three_way", embedding_size=6, units=8),
        "nnjm": kt.zoo.nnjm(len(words[0]), len(words[1]), embedding_size=4),
        "words": kt.zoo.skip_gram(len(named), units=8),
    }
    rng = np.random.default_rng(0)
    for model in models.values():
        model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    return {
        "lm": kt.inference.TrainedLanguageModel(models["lm"], vocabulary),
        "nmt": kt.inference.TrainedTranslator(models["nmt"], subwords),
        "nnjm": kt.inference.TrainedJointLanguageModel(models["nnjm"], *words),
        "words": kt.inference.TrainedWordVectors(models["words"], named),
    }


@pytest.fixture(scope="session")
def served(trained):
    return {name: ServedModel(model, name, LIMITS) for name, model in trained.items() if name != "nmt"}


@pytest.fixture
def translator(trained):
    """The served translator. Setting a seed, as before each test, removes the tokenizer of one that is older."""
    return ServedModel(trained["nmt"], "nmt", LIMITS)


@pytest.fixture
def ask(served):
    """Asks a model several requests at once: contents of JSON, or bytes. Gives the status and the content of each."""

    def ask(model, *requests):
        model = served[model] if isinstance(model, str) else model
        bodies = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in requests]
        return [(status, json.loads(body)) for status, body in model.answer(bodies)]

    return ask
