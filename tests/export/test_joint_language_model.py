import json

import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.data import Bitext, Vocabulary
from keras_tying.export import export_joint_language_model
from keras_tying.inference import TrainedJointLanguageModel

SOURCE = ["a b c d", "d b", "", "a q c a a a a a"]
TARGET = ["x y z x", "z", "x", "x y"]
LINKS = ["0-0 3-0 2-2 1-2 0-3", "", "", "1-1 7-1 4-1"]

CLIENT = """
import json, sys
import tensorflow as tf
folder, queries, *names = sys.argv[1:]
inputs = {name: tf.constant(texts, tf.string) for name, texts in json.loads(queries).items()}
found = {}
for name in names:
    served = tf.saved_model.load(f"{folder}/{name}").signatures
    best = served["next_word"](**inputs, k=tf.constant(2))
    found[name] = {
        "all": served["serving_default"](**inputs)["log_probabilities"].numpy().tolist(),
        "words": best["words"].numpy().astype(str).tolist(),
        "log_probabilities": best["log_probabilities"].numpy().tolist(),
    }
assert not any(name.startswith("keras_tying") for name in sys.modules)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def words():
    return Vocabulary(["a", "b", "c", "d", "<unk>", "<eos>"]), Vocabulary(["x", "y", "z", "<eos>", "<unk>"])


def make(words, name, **arguments):
    source, target = words
    sizes = {} if name == "nnlm" else {"source_vocabulary_size": len(source)}
    return zoo.create_model(
        name, target_vocabulary_size=len(target), **sizes, embedding_size=4, initializer_range=0.5, **arguments
    )


MODELS = {
    "nnlm": {"tied": True},
    "nnjm": {"window": 3},
    "nnjm_global": {"window": 5, "sections": 2, "sentence_length": 6, "split": "fixed"},
}


@pytest.fixture(scope="module")
def models(words):
    return {name: make(words, name, **arguments) for name, arguments in MODELS.items()}


@pytest.fixture(scope="module")
def queries():
    """What is asked about each target word of the text."""
    # The position of the target end is known in training, but not in the exported graph: it is linked here.
    queries = {"source": [], "alignment": [], "history": []}
    for source, target, links in zip(SOURCE, TARGET, LINKS, strict=True):
        length = len(target.split())
        for position in range(length + 1):
            queries["source"].append("\ufeff" + source.replace(" ", "\u3000"))
            queries["history"].append(" ".join(target.split()[:position]))
            queries["alignment"].append(f"{links} {len(source.split())}-{length}".strip().replace(" ", "\u00a0"))
    return queries


@pytest.fixture(scope="module")
def answers(tmp_path_factory, run_python, words, models, queries):
    """What a process with only TensorFlow gets from each model."""
    folder = tmp_path_factory.mktemp("exported")
    for name, model in models.items():
        export_joint_language_model(model, *words, folder / name)
    return json.loads(run_python("-c", CLIENT, folder, json.dumps(queries), *models).stdout)


@pytest.mark.parametrize("name", MODELS)
def test_exported_graph_equals_the_model_in_a_process_with_only_tensorflow(tmp_path, words, models, answers, name):
    model, served = models[name], answers[name]
    for end, lines in (("src", SOURCE), ("tgt", TARGET), ("align", LINKS)):
        (tmp_path / f"text.{end}").write_text("".join(f"{line}\n" for line in lines))
    samples = Bitext(*(tmp_path / f"text.{end}" for end in ("src", "tgt", "align"))).encode(*words)
    sentence = model.sentence_length if model.global_context else 0
    inputs = samples.inputs(np.arange(len(samples)), model.order - 1, model.window, sentence)
    logits = model.predict(inputs, verbose=0)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    np.testing.assert_allclose(served["all"], expected, atol=1e-5)
    best = np.argsort(-expected)[:, :2]
    assert served["words"] == [words[1].decode(row) for row in best]
    np.testing.assert_allclose(served["log_probabilities"], np.take_along_axis(expected, best, 1), atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_trained_model_gives_in_python_what_the_signatures_give(words, models, answers, queries, name):
    trained, served = TrainedJointLanguageModel(models[name], *words, tokenization="spaces"), answers[name]
    for i, query in enumerate(zip(*(queries[name] for name in ("source", "alignment", "history")), strict=True)):
        found, probabilities = zip(*trained.next_words(*query, k=2), strict=True)
        assert list(found) == served["words"][i]
        np.testing.assert_allclose(np.log(probabilities), served["log_probabilities"][i], atol=1e-5)


def test_a_word_without_links_is_affiliated_like_its_nearest_neighbour():
    import tensorflow as tf

    from keras_tying.export.joint_language_model import affiliated, parsed_links

    links = parsed_links(tf.constant(["0-0 2-1", "0-0 2-4", "0-0 2-2 2-2 3-2", "", "2-999999999"]))
    lengths = tf.fill([5], tf.constant(5, tf.int64))
    assert affiliated(links, lengths, tf.constant([3, 2, 2, 0, 0], tf.int64)).numpy().tolist() == [2, 2, 2, 4, 2]


def log_probabilities(words, model):
    """The traced function of the signature of this name."""
    from keras_tying.export.joint_language_model import ServedJointLanguageModel
    from keras_tying.export.text import TextInGraph

    texts = [TextInGraph(vocabulary, "spaces") for vocabulary in words]
    return ServedJointLanguageModel(model, *texts).endpoints()["log_probabilities"]


WRONG_LINKS = ["a-b", "5", "0-", "-", "0-0,1-1", "1-2-3", "0-0-7", "0-99999999999", "0-0 x"]


@pytest.mark.parametrize("name", MODELS)
def test_links_that_python_refuses_are_refused(words, models, name):
    import tensorflow as tf

    endpoint = log_probabilities(words, models[name])
    trained = TrainedJointLanguageModel(models[name], *words, tokenization="spaces")
    for links in WRONG_LINKS:
        with pytest.raises(ValueError, match="`alignment` must be links such as '0-0 1-2'"):
            trained.next_words("a b", links, "x")
        with pytest.raises(tf.errors.InvalidArgumentError, match="alignment must be links such as 0-0 1-2"):
            endpoint(tf.constant(["a b", "a"]), tf.constant(["\ufeff0-0 1-0", links]), tf.constant(["x", ""]))


@pytest.mark.parametrize("short", ["source", "alignment", "history"])
@pytest.mark.parametrize("name", MODELS)
def test_inputs_of_different_numbers_of_rows_are_refused(words, models, name, short):
    import tensorflow as tf

    inputs = {"source": ["a b", "a"], "alignment": ["0-0", ""], "history": ["x", ""]}
    inputs[short] = inputs[short][:1]
    endpoint = log_probabilities(words, models[name])
    with pytest.raises(tf.errors.InvalidArgumentError, match="source, alignment and history must have a text for each"):
        endpoint(*map(tf.constant, inputs.values()))


def test_a_vocabulary_of_another_size_is_refused(tmp_path, words):
    with pytest.raises(ValueError, match=r"has 6 source words. Received: a vocabulary of 5"):
        export_joint_language_model(make(words, "nnjm"), words[1], words[1], tmp_path / "1")
