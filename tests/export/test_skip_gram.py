import json

import numpy as np
import pytest
import tensorflow as tf

from keras_tying import zoo
from keras_tying.data import Vocabulary
from keras_tying.export import export_skip_gram
from keras_tying.inference import TrainedWordVectors
from keras_tying.metrics import nearest_neighbours

CLIENT = """
import json, sys
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures
assert not any(name.startswith("keras_tying") for name in sys.modules)
def answer(words):
    words = tf.constant(words, tf.string)
    vector = served["vector"](words=words)
    similar = served["similar_words"](words=words, k=tf.constant(4))
    many = served["similar_words"](words=words, k=tf.constant(10**6))
    return {
        "vector": vector["vector"].numpy().tolist(),
        "known": vector["known"].numpy().tolist(),
        "similar": similar["similar"].numpy().astype(str).tolist(),
        "similarity": similar["similarity"].numpy().tolist(),
        "all": many["similar"].shape[1],
    }
print(json.dumps([answer(words) for words in json.loads(sys.argv[2])]))
"""


@pytest.fixture(scope="module")
def model(vocabulary):
    model = zoo.skip_gram(len(vocabulary), 8)
    rng = np.random.default_rng(0)
    model.embedding.embeddings.assign(rng.normal(size=(300, 8)))
    return model


@pytest.fixture(scope="module")
def exported(tmp_path_factory, model, vocabulary):
    path = tmp_path_factory.mktemp("served") / "1"
    export_skip_gram(model, vocabulary, path)
    return path


@pytest.fixture(scope="module")
def answers(exported, run_python):
    """What a process with only TensorFlow is told of some words, and of none."""
    output = run_python("-c", CLIENT, exported, json.dumps([["the", "qwertyuiop", "is"], []])).stdout
    return json.loads(output.splitlines()[-1])


def test_exported_graph_returns_vectors_and_neighbours(answers, model, vocabulary):
    served, _ = answers
    matrix = np.array(model.embedding.embeddings)
    assert served["known"] == [True, False, True]
    assert served["vector"][1] == [0.0] * 8
    assert served["similar"][1] == [""] * 4
    assert served["all"] == 297  # without the word itself, <unk> and <eos>
    for row, word in ((0, "the"), (2, "is")):
        (i,) = vocabulary.encode([word])
        np.testing.assert_allclose(served["vector"][row], matrix[i], rtol=1e-6)
        nearest, cosines = nearest_neighbours(matrix, np.array([i]), 6)
        expected = [w for w in vocabulary.decode(nearest[0]) if w not in ("<unk>", "<eos>")][:4]
        assert served["similar"][row] == expected
        assert served["similarity"][row][0] <= cosines[0, 0] + 1e-5
        trained = TrainedWordVectors(model, vocabulary)
        np.testing.assert_allclose(trained.vector([word])[0], served["vector"][row], rtol=1e-6)
        found, similarity = zip(*trained.similar_words(word, 4), strict=True)
        assert list(found) == expected
        np.testing.assert_allclose(similarity, served["similarity"][row], rtol=1e-5)


def test_an_empty_batch_gives_empty_outputs(answers):
    _, served = answers
    assert served["vector"] == served["known"] == served["similar"] == []


def test_the_matrix_is_exported_once(exported, model):
    shapes = [shape for _, shape in tf.train.list_variables(str(exported / "variables" / "variables"))]
    assert shapes.count([298, 8]) == 1


def test_a_vocabulary_of_another_size_is_refused(tmp_path, vocabulary):
    with pytest.raises(ValueError, match=r"has 301 words. Received: a vocabulary of 300"):
        export_skip_gram(zoo.skip_gram(301, 4), vocabulary, tmp_path / "1")


def test_only_a_saved_model_is_replaced(tmp_path):
    words = Vocabulary(["king", "queen", "<unk>", "<eos>"])
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"only a folder with saved_model.pb is replaced"):
        export_skip_gram(zoo.skip_gram(4, units=1), words, tmp_path)
    (tmp_path / "1").mkdir()
    export_skip_gram(zoo.skip_gram(4, units=1), words, tmp_path / "1")
    written = sorted(path for path in (tmp_path / "1").rglob("*"))
    own = tmp_path / "1" / "assets.extra" / "warm_up_of_mine"
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine")
    (tmp_path / "1" / "variables" / "stale").touch()
    export_skip_gram(zoo.skip_gram(4, units=1), words, tmp_path / "1")
    assert own.read_text() == "mine"
    assert {*(tmp_path / "1").rglob("*")} == {*written, own.parent, own}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "notes.txt"]


def test_what_a_killed_export_left_is_cleared_up(tmp_path):
    model, words = zoo.skip_gram(4, units=1), Vocabulary(["king", "queen", "<unk>", "<eos>"])
    export_skip_gram(model, words, tmp_path / "1")
    (tmp_path / "1" / "mine").touch()
    (tmp_path / ".1.abc.unfinished" / "1").mkdir(parents=True)
    (tmp_path / "1").rename(tmp_path / ".1.abc.unfinished" / "old.1")  # killed before the new one was moved here
    export_skip_gram(model, words, tmp_path / "1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1"]
    assert (tmp_path / "1" / "mine").exists()
