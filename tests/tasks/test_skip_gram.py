import numpy as np
import pytest

from keras_tying import zoo
from keras_tying.data import Vocabulary
from keras_tying.tasks import SkipGramTask
from keras_tying.training import RunSettings
from keras_tying.zoo.recipes import load_recipe


@pytest.fixture
def task():
    task = SkipGramTask(RunSettings(recipe_name="test", seed=1, command="", recipe=load_recipe("word2vec")))
    task.vocabularies = {"vocabulary.txt": Vocabulary(["<eos>", "<unk>", "a_b", "R&D"])}
    return task


def test_nearest_words_are_trained_words_and_escaped_for_tensorboard_only(task):
    model = zoo.skip_gram(4, units=2)
    model.embedding.embeddings.assign(np.ones((4, 2)))
    (_, evaluated) = (line for line, _ in task.evaluate(model, None))
    assert evaluated == "- a_b: R&D"
    assert task.sample(model) == ("nearest words", "- a\\_b: R&amp;D")
