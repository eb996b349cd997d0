import pytest

from keras_tying.tasks import LanguageModelTask
from keras_tying.training import RunSettings
from keras_tying.zoo.recipes import LanguageModelRecipe, Model, TextData


def make_task(vocabulary_size):
    data = TextData(corpus="embedded", vocabulary_size=vocabulary_size)
    recipe = LanguageModelRecipe(model=Model(name="ptb_small"), data=data)
    return LanguageModelTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))


def test_a_corpus_with_fewer_words_than_the_recipe_is_refused():
    assert len(make_task(300).learn_vocabularies()["vocabulary.txt"]) == 300
    with pytest.raises(
        ValueError, match=r"made for 999,999 words of the corpus 'embedded'. Received: a corpus of \d+,"
    ):
        make_task(999_999).learn_vocabularies()
