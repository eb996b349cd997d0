import pytest

from keras_tying.commands.lm import COMMAND
from keras_tying.commands.options import parse
from keras_tying.commands.train import _new_settings
from keras_tying.data import SPLITS, Corpus, prepare_text
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


def own_text(tmp_path, lines, **data):
    """The task of a text of one's own, by the default recipe."""
    paths = {split: tmp_path / f"{split}.txt" for split in SPLITS}
    for path in paths.values():
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = [word for split, path in paths.items() for word in (f"--{split}-file", str(path))]
    arguments = parse(COMMAND, [*options, *(f"--{key}={value}" for key, value in data.items())], "lm")
    files = LanguageModelTask.given_files(arguments)
    return LanguageModelTask(_new_settings(LanguageModelTask, arguments, "ptb_small_tied", files))


def test_own_text_is_split_into_words_and_has_a_title_of_its_own(tmp_path, caplog):
    task = own_text(tmp_path, ["\ufeffThe man, the man. the man!", *["The man, the man. the man!"] * 41])
    assert task.settings.recipe.title == "Own text, with the settings of ptb_small_tied"
    assert "ptb_small_tied" in task.settings.recipe.description
    assert task.settings.recipe.published is task.settings.recipe.measured is None
    assert task.settings.recipe.data.tokenization == "words"
    task.vocabularies = task.learn_vocabularies()
    assert set(task.vocabulary.words) == {*["The", "man", ",", "the", ".", "!", "<unk>", "<eos>"]}
    task.load_text()
    assert task.vocabulary.decode(task.ids["train"][:10]) == [
        "The",
        "man",
        ",",
        "the",
        "man",
        ".",
        "the",
        "man",
        "!",
        "<eos>",
    ]
    assert not caplog.messages


def test_raw_text_as_tokenized_text_is_warned_of(tmp_path, caplog):
    task = own_text(tmp_path, ["The man, the man. the man!"], tokenization="spaces")
    assert "man!" in task.learn_vocabularies()["vocabulary.txt"]
    (message,) = caplog.messages
    assert "'man,'" in message


def test_another_tokenization_than_that_of_a_prepared_text_is_refused(tmp_path):
    prepare_text(tmp_path / "prepared", Corpus("files", {"train": ["The man, the man."]}))
    task = own_text(tmp_path, ["The man"], tokenization="plain")
    settings = task.settings.model_copy(update={"prepared": str(tmp_path / "prepared"), "files": None})
    with pytest.raises(ValueError, match=r"was prepared with tokenization 'words'. Received: 'plain'"):
        LanguageModelTask(settings).learn_vocabularies()
