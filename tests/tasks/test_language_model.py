import dataclasses
import gzip
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_tying import zoo
from keras_tying.commands.lm import COMMAND
from keras_tying.commands.new_settings import new_settings
from keras_tying.commands.options import parse
from keras_tying.data import SPLITS, Corpus, Vocabulary, load_corpus, prepare_text, windows
from keras_tying.inference.language_model import stream_perplexity
from keras_tying.tasks import LanguageModelTask
from keras_tying.tasks.language_model import WindowBatches, untied_parameters
from keras_tying.training import Progress, RunSettings
from keras_tying.zoo.recipes import LanguageModelRecipe, Loss, Model, TextData


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


@pytest.mark.parametrize("arguments", [{"tied": True}, {"tied": False}, {"tied": True, "adaptive_cutoffs": (5, 12)}])
def test_the_untied_parameters_are_those_of_an_untied_model(arguments):
    model, untied = (zoo.recurrent_language_model(30, 32, **each) for each in (arguments, {**arguments, "tied": False}))
    assert untied_parameters(model) == untied.count_params()


def test_the_perplexity_of_the_training_text_is_the_one_that_the_recipe_names(rng):
    history = [{"perplexity": train, "val_perplexity": valid} for train, valid in ((9.0, 8.0), (7.0, 6.0), (5.0, 7.0))]
    model, ids = zoo.recurrent_language_model(30, 8), rng.integers(0, 30, 200, np.int32)
    expected = {"last_epoch": 5.0, "best_epoch": 7.0, "trained_model": stream_perplexity(model, ids, batch_size=20)}
    for choice, perplexity in expected.items():
        recipe = LanguageModelRecipe(model=Model(name="ptb_small"), train_perplexity=choice)
        task = LanguageModelTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))
        task.ids = dict.fromkeys(SPLITS, ids)
        results = {**task.last_metrics(Progress(epoch=3, history=history)), **task.measure(model)}
        assert results["train_perplexity"] == perplexity
        sampled = recipe.model_copy(update={"loss": Loss(name="sampled")})
        task = LanguageModelTask(RunSettings(recipe_name="test", seed=1, command="", recipe=sampled))
        assert task.last_metrics(Progress(epoch=3, history=history)) == {}


def own_text(tmp_path, lines, **data):
    """The task of a text of one's own, by the default recipe."""
    paths = {split: tmp_path / f"{split}.txt" for split in SPLITS}
    for path in paths.values():
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = [word for split, path in paths.items() for word in (f"--{split}-file", str(path))]
    arguments = parse(COMMAND, [*options, *(f"--{key}={value}" for key, value in data.items())], "lm")
    files = LanguageModelTask.given_files(arguments)
    return LanguageModelTask(new_settings(LanguageModelTask, arguments, "ptb_small_tied", files))


def settings_of(*options):
    """The settings of a new run by the recipe `embedded_small_tied`, changed by options of the command."""
    arguments = parse(COMMAND, [*map(str, options)], "lm")
    return new_settings(LanguageModelTask, arguments, "embedded_small_tied", None).recipe


@pytest.mark.parametrize(("random_starts", "printed"), [(False, "3 per epoch"), (True, "2 per epoch")])
def test_the_tokens_that_are_not_used_fit_the_number_of_batches(random_starts, printed):
    optimisation = {"batch_size": 2, "sequence_length": 5, "random_starts": random_starts}
    recipe = LanguageModelRecipe(model=Model(name="ptb_small"), optimisation=optimisation)
    task = LanguageModelTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))
    task.vocabularies = {"vocabulary.txt": Vocabulary(["a", "<unk>", "<eos>"])}
    task.ids = {"train": np.zeros(40, np.int32)}
    unused = 40 - 2 * (int(printed[0]) * 5 + 1)
    line = task.describe(task.build_model()).splitlines()[-1]
    assert line == (
        f"batches     {printed}, 2 rows x 5 words; {unused} training tokens at the ends of rows are not used"
    )


def test_a_run_on_prepared_text_has_its_tokenization_and_vocabulary(tmp_path):
    changed, prepared = tmp_path / "spaces", tmp_path / "plain"
    prepare_text(changed, dataclasses.replace(load_corpus("embedded"), tokenization="spaces"), minimum_count=20)
    data = settings_of("--prepared", changed).data
    assert (data.corpus, data.tokenization) == ("embedded", "spaces")
    assert (data.vocabulary_size, data.minimum_count) == (None, 20)
    words = len(prepare_text(prepared, load_corpus("embedded"), size=100_000).vocabulary())
    assert settings_of("--prepared", prepared).data.vocabulary_size == words


def test_another_named_text_has_a_vocabulary_of_its_own():
    def size(*options):
        arguments = parse(COMMAND, ["--corpus", "embedded", *options], "lm")
        return new_settings(LanguageModelTask, arguments, "ptb_small_tied", None).recipe.data.vocabulary_size

    assert size() is None
    assert size("--set", "data.vocabulary_size=500") == 500


def test_true_and_false_are_written_as_in_toml():
    assert settings_of("--set", "model.tied=false").model.arguments["tied"] is False
    with pytest.raises(ValueError, match=r"values as in TOML: model.tied=false. Received: 'model.tied=False'"):
        settings_of("--set", "model.tied=False")


def test_a_link_to_a_file_keeps_its_name(tmp_path):
    (tmp_path / "store").write_bytes(gzip.compress(b"a rose is a rose\n"))
    link = tmp_path / "train.txt.gz"
    link.symlink_to(tmp_path / "store")
    files = [word for split in SPLITS for word in (f"--{split}-file", str(link))]
    arguments = parse(COMMAND, files, "lm")
    settings = new_settings(
        LanguageModelTask, arguments, "embedded_small_tied", LanguageModelTask.given_files(arguments)
    )
    assert "rose" in LanguageModelTask(settings).learn_vocabularies()["vocabulary.txt"]


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


def test_a_text_of_words_that_the_vocabulary_lacks_is_warned_of(tmp_path, caplog):
    task = own_text(tmp_path, ["the man and the man"] * 200)
    task.vocabularies = task.learn_vocabularies()
    (tmp_path / "test.txt").write_text("l'homme et la femme\n" * 42, encoding="utf-8")
    task.load_text()
    (message,) = caplog.messages
    assert "of the start of the test text are words that the vocabulary lacks" in message


def test_another_tokenization_than_that_of_a_prepared_text_is_refused(tmp_path):
    prepare_text(tmp_path / "prepared", Corpus("files", {"train": ["The man, the man."]}))
    task = own_text(tmp_path, ["The man"], tokenization="plain")
    settings = task.settings.model_copy(update={"prepared": str(tmp_path / "prepared"), "files": None})
    with pytest.raises(ValueError, match=r"was prepared with tokenization 'words'. Received: 'plain'"):
        LanguageModelTask(settings).learn_vocabularies()


def test_a_worker_reads_the_rows_of_its_only_replica_untuned(monkeypatch):
    """The end of an epoch waits for the thread that tunes; `DistributedDataset` is what Keras does not wrap."""
    text = windows(np.arange(4 * 7), batch_size=4, sequence_length=2)
    feeding = sys.modules["keras_tying.backend.tensorflow.batches"]
    for name, value in {"replicas_of": 2, "own_replica": 1, "part_of": 2}.items():
        monkeypatch.setattr(feeding, name, lambda *_, value=value: value)
    dataset = WindowBatches(text).feed(None)["x"]
    assert isinstance(dataset, tf.distribute.DistributedDataset)
    assert not dataset.options().autotune.enabled
    for (inputs, targets), (all_inputs, all_targets) in zip(dataset, batches_of(text), strict=True):
        np.testing.assert_array_equal(inputs, all_inputs[2:])
        np.testing.assert_array_equal(targets, all_targets[2:])


def batches_of(text):
    return zip(text.inputs.reshape(-1, 4, 2), text.targets.reshape(-1, 4, 2), strict=True)


@pytest.mark.parametrize(
    ("corpus", "remedy"),
    [
        ("embedded", "It depends on the version of Python (of Babel for translators): use that of the run."),
        ("bbc", "It depends on the version of keras-tying: use that of the run, or train anew."),
    ],
)
def test_another_text_of_a_corpus_is_refused_with_what_it_depends_on(monkeypatch, corpus, remedy):
    task = make_task(300)
    task.recipe = task.recipe.model_copy(update={"data": TextData(corpus=corpus)})
    task.settings = task.settings.model_copy(update={"text": {"train": ["a" * 64]}})
    monkeypatch.setattr(task, "text_parts", lambda: {"train": [["one line"]]})
    with pytest.raises(ValueError, match=f"^The train text of '{corpus}' is not the text .*{re.escape(remedy)}"):
        task.open_text()
