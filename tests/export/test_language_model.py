import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying import zoo
from keras_tying.data import Vocabulary, tokenize
from keras_tying.export import export_language_model
from keras_tying.export.language_model import ServedLanguageModel
from keras_tying.export.rows import option
from keras_tying.export.saving import trace
from keras_tying.export.text import TextInGraph
from keras_tying.inference import TrainedLanguageModel
from keras_tying.layers import LSTM, TiedEmbedding
from keras_tying.models import LanguageModel

SENTENCES = ["\ufeffThe\u00a0yield\u3000statement\u2028is\x85used", "", "an object’s qwertyuiop, the!", "Ünïcode"]

CLIENT = """
import json, sys
import tensorflow as tf
def options(length, temperature, seed):
    return dict(length=tf.constant(length), temperature=tf.constant(temperature), top_k=tf.constant(0),
                top_p=tf.constant(1.0), seed=tf.constant(seed))
def answer(served, text):
    text = tf.constant(text, tf.string)
    score, default = served["score"](sentences=text), served["serving_default"](sentences=text)
    words = served["next_word"](prefix=text, k=tf.constant(3))
    many = served["next_word"](prefix=text, k=tf.constant(10**6))
    return {
        "tokens": score["tokens"].numpy().tolist(),
        "log_probability": score["log_probability"].numpy().tolist(),
        "default": default["log_probability"].numpy().tolist(),
        "perplexity": score["perplexity"].numpy().tolist(),
        "words": words["words"].numpy().astype(str).tolist(),
        "probabilities": words["probabilities"].numpy().tolist(),
        "all": many["words"].shape[1],
        "greedy": served["generate"](prefix=text, **options(4, 0.0, 0))["text"].numpy().astype(str).tolist(),
        "drawn": [served["generate"](prefix=text, **options(9, 1.0, s))["text"].numpy().astype(str).tolist()
                  for s in (1, 1, 2)],
        "nothing": served["generate"](prefix=text, **options(0, 1.0, 0))["text"].numpy().astype(str).tolist(),
    }
texts, *folders = map(json.loads, sys.argv[1:])
found = {}
for folder in folders:
    served = tf.saved_model.load(folder).signatures
    found[folder] = [answer(served, text) for text in texts]
assert not any(name.startswith("keras_tying") for name in sys.modules)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def models(vocabulary):
    keras.utils.set_random_seed(7)
    embedding = TiedEmbedding(len(vocabulary), 16, embeddings_initializer="random_normal")
    return {
        "recurrent": zoo.ptb_small(vocabulary_size=len(vocabulary), projection=True, units=32),
        "convolution": LanguageModel(embedding, [keras.layers.Conv1D(16, 3, padding="causal", activation="tanh")]),
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory, models, vocabulary):
    paths = {name: tmp_path_factory.mktemp(name) / "1" for name in models}
    for name, model in models.items():
        export_language_model(model, vocabulary, paths[name])
    return paths


@pytest.fixture(scope="module")
def answers(folders, run_python):
    """What a process with only TensorFlow gets from each model for some sentences, and for none."""
    words = map(json.dumps, [[SENTENCES, []], *map(str, folders.values())])
    found = json.loads(run_python("-c", CLIENT, *words).stdout)
    return {name: found[str(folder)] for name, folder in folders.items()}


@pytest.fixture(params=["recurrent", "convolution"])
def name(request):
    return request.param


def test_exported_graph_equals_the_model_in_a_process_with_only_tensorflow(answers, models, vocabulary, name):
    (served, _), model = answers[name], models[name]
    end = vocabulary.end_id
    for i, sentence in enumerate(SENTENCES):
        ids = vocabulary.encode(tokenize(sentence, "words")).tolist()
        log_probability = model.score(np.array([[end, *ids]]), np.array([[*ids, end]])).sum()
        assert served["tokens"][i] == len(ids) + 1
        np.testing.assert_allclose(served["log_probability"][i], log_probability, rtol=1e-5)
        np.testing.assert_allclose(served["perplexity"][i], np.exp(-log_probability / (len(ids) + 1)), rtol=1e-5)
        logits = model.predict(np.array([[end, *ids]]), verbose=0)[0, -1]
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        best = np.argsort(-probabilities)[:3]
        assert served["words"][i] == vocabulary.decode(best)
        np.testing.assert_allclose(served["probabilities"][i], probabilities[best], rtol=1e-4)
        greedy = model.generate([[end, *ids]], 4, temperature=0)[0]
        assert served["greedy"][i].split() == vocabulary.decode(greedy)
    assert served["default"] == served["log_probability"]
    assert served["all"] == len(vocabulary)
    assert served["drawn"][0] == served["drawn"][1] != served["drawn"][2]
    assert served["nothing"] == [""] * len(SENTENCES)


def test_the_trained_model_gives_in_python_what_the_signatures_give(answers, models, vocabulary, name):
    (served, _), trained = answers[name], TrainedLanguageModel(models[name], vocabulary)
    scores = trained.score(SENTENCES)
    assert [score.tokens for score in scores] == served["tokens"]
    for metric in ("log_probability", "perplexity"):
        np.testing.assert_allclose([getattr(score, metric) for score in scores], served[metric], rtol=1e-5)
    for i, sentence in enumerate(SENTENCES):
        assert trained.generate(sentence, 4, temperature=0) == served["greedy"][i]
        words, probabilities = zip(*trained.next_words(sentence, 3), strict=True)
        assert list(words) == served["words"][i]
        np.testing.assert_allclose(probabilities, served["probabilities"][i], rtol=1e-4)


def test_words_are_scored_in_the_type_that_the_embedding_gives(vocabulary):
    keras.utils.set_random_seed(0)
    in_bfloat16 = {"dtype": "mixed_bfloat16"}
    wide = keras.initializers.RandomNormal(stddev=3.0)
    embedding = TiedEmbedding(len(vocabulary), 16, embeddings_initializer=wide, reverse_dtype="float32", **in_bfloat16)
    layer = LSTM(16, return_sequences=True, return_state=True, **in_bfloat16)
    model = LanguageModel(embedding, [layer], **in_bfloat16)
    served = ServedLanguageModel(model, TextInGraph(vocabulary, "words")).score(tf.constant(SENTENCES))
    expected = [score.log_probability for score in TrainedLanguageModel(model, vocabulary).score(SENTENCES)]
    np.testing.assert_allclose(served["log_probability"], expected, rtol=1e-5)


def test_next_words_are_scored_once_after_the_last_word_of_the_prefix(models, vocabulary, monkeypatch):
    model, graphs = models["recurrent"], []
    scores = model.scores
    monkeypatch.setattr(
        model, "scores", lambda hidden: graphs.append(tf.compat.v1.get_default_graph().name) or scores(hidden)
    )
    served = ServedLanguageModel(model, TextInGraph(vocabulary, "words"))
    trace({"next_word": (served.next_word, (tf.TensorSpec([None], tf.string), option(tf.int32)))})
    assert graphs == ["next_word"]  # not in the body of the loop


def test_the_tied_matrix_is_exported_once(folders, models, name):
    variables, model = tf.train.list_variables(str(folders[name] / "variables" / "variables")), models[name]
    assert [shape for _, shape in variables].count([model.vocabulary_size, model.hidden_size]) == 1


def test_an_empty_batch_gives_empty_outputs(answers, name):
    _, served = answers[name]
    assert all(served[key] == [] for key in ("tokens", "log_probability", "words", "greedy", "nothing"))


@pytest.fixture(scope="module", params=["recurrent", "convolution"])
def generate(request, folders):
    return tf.saved_model.load(folders[request.param]).signatures["generate"]


def test_a_vocabulary_of_another_size_is_refused(tmp_path, vocabulary):
    model = zoo.ptb_small(vocabulary_size=len(vocabulary) + 1)
    with pytest.raises(ValueError, match=r"has 301 words. Received: a vocabulary of 300"):
        export_language_model(model, vocabulary, tmp_path / "1")


def test_a_word_that_is_padding_in_the_model_is_refused_as_in_python(tmp_path):
    vocabulary = Vocabulary(["the", "cat", "<unk>", "<eos>"])
    layers = [LSTM(6, return_sequences=True, return_state=True)]
    model = LanguageModel(TiedEmbedding(4, 6, mask_zero=True), layers)
    trained = TrainedLanguageModel(model, vocabulary)
    export_language_model(model, vocabulary, tmp_path / "1")
    exported = tf.saved_model.load(tmp_path / "1").signatures
    (expected,) = trained.score(["cat cat"])
    received = exported["score"](sentences=tf.constant(["cat cat"]))["log_probability"]
    np.testing.assert_allclose(received, [expected.log_probability], rtol=1e-5)
    with pytest.raises(ValueError, match="must not contain id 0"):
        trained.score(["cat the"])
    for name, inputs in (("score", {"sentences": ["cat the"]}), ("next_word", {"prefix": ["cat the"], "k": 1})):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must not contain the word with id 0"):
            exported[name](**{key: tf.constant(value) for key, value in inputs.items()})


def test_padding_is_never_the_next_word(tmp_path):
    vocabulary = Vocabulary(["the", "cat", "<unk>", "<eos>"])
    model = LanguageModel(TiedEmbedding(4, 6, mask_zero=True), [LSTM(6, return_sequences=True, return_state=True)])
    model.embedding.bias.assign([9.0, 0.0, 0.0, 0.0])
    trained = TrainedLanguageModel(model, vocabulary)
    export_language_model(model, vocabulary, tmp_path / "1")
    exported = tf.saved_model.load(tmp_path / "1").signatures
    found = exported["next_word"](prefix=tf.constant(["cat"]), k=tf.constant(3))
    words, probabilities = zip(*trained.next_words("cat", 3), strict=True)
    assert {*words} == {"cat", "<unk>", "<eos>"}
    assert found["words"].numpy()[0].tolist() == [word.encode() for word in words]
    np.testing.assert_allclose(found["probabilities"][0], probabilities, rtol=1e-5)
    options = {"length": 30, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    text = exported["generate"](prefix=tf.constant([""]), **{key: tf.constant(value) for key, value in options.items()})
    assert b"the" not in text["text"].numpy()[0]


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("length", [-1]),
        ("temperature", [-1.0, float("nan"), float("inf")]),
        ("top_k", [-1]),
        ("top_p", [0.0, -0.5, 1.5, float("nan")]),
    ],
)
def test_exported_generate_refuses_what_generate_refuses(generate, option, values):
    options = {"length": 1, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    for value in values:
        given = {key: tf.constant(each) for key, each in {**options, option: value}.items()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{option} must be"):
            generate(prefix=tf.constant(["the"]), **given)
