import signal
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html

import keras_tying as kt
from keras_tying.inference import TrainedTranslator, translator
from keras_tying.inference.translator import pair_perplexity
from keras_tying.tasks import TranslationTask
from keras_tying.tasks.markdown import markdown_table
from keras_tying.tasks.translation import untied_parameters
from keras_tying.training import (
    CheckpointStore,
    Progress,
    Run,
    RunSettings,
    TrainingInterrupted,
    engine,
    environment,
    fit,
)
from keras_tying.training.environments import training_record
from keras_tying.training.optimisation import make_optimizer
from keras_tying.training.saving import SaveCheckpoints
from keras_tying.zoo.recipes import Model, TokenBatchOptimisation, TranslationRecipe

WORDS = ["dog", "cat", "snow", "house"]


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    return [(" ".join(words), "x".join(words)) for words in (rng.choice(WORDS, rng.integers(1, 6)) for _ in range(80))]


@pytest.fixture(scope="module")
def subwords(pairs):
    return kt.data.Subwords.learn(kt.data.sentences_of(pairs), 30)


@pytest.mark.parametrize("tying", ["none", "decoder", "three_way"])
def test_the_untied_parameters_are_those_of_an_untied_model(tying):
    model, untied = (kt.zoo.dl4mt_small(9, 9, each, embedding_size=4, units=4) for each in (tying, "none"))
    assert untied_parameters(model) == untied.count_params()


def task_of(pairs, subwords, **optimisation):
    recipe = TranslationRecipe(
        model=Model(name="dl4mt_small", arguments={"tying": "three_way", "units": 8, "embedding_size": 8}),
        optimisation=TokenBatchOptimisation(**optimisation, batch_tokens=200, learning_rate=0.01),
    )
    task = TranslationTask(RunSettings(recipe_name="test", seed=1, command="", recipe=recipe))
    task.vocabularies = {"subwords.model": subwords}
    task.text = {"valid": pairs[:10]}
    task.pairs = {
        split: kt.data.SentencePairs.encode(text, subwords, subwords)
        for split, text in {"train": pairs, **task.text}.items()
    }
    return task


@pytest.fixture(scope="module")
def trained(pairs, subwords, tmp_path_factory):
    task = task_of(pairs, subwords, epochs=3)
    model, run = task.build_model(), Run(tmp_path_factory.mktemp("run"))
    return model, run, fit(task, model, run)


def test_each_epoch_has_perplexity_and_bleu_of_the_validation_text(trained):
    history = trained[2].history
    assert len(history) == 3
    assert history[-1]["val_perplexity"] < history[0]["val_perplexity"]
    assert all(0 <= logs["val_bleu"] <= 100 for logs in history)


def test_training_ends_after_a_number_of_updates_and_so_does_a_run_that_was_stopped(
    pairs, subwords, tmp_path, monkeypatch
):
    per_epoch = len(kt.data.PairBatches(task_of(pairs, subwords).pairs["train"], 200, seed=1))
    updates = per_epoch + 3
    assert per_epoch > 3

    def train(name):
        keras.utils.set_random_seed(1)
        task = task_of(pairs, subwords, epochs=9, updates=updates)
        model = task.build_model()
        progress = fit(task, model, Run(tmp_path / name))
        return progress.epoch, CheckpointStore(Run(tmp_path / name).checkpoints).newest().values

    def stop_in_the_last_epoch(self, batch, logs=None):
        if self.progress.epoch == 1:
            self._stop_signal = signal.SIGTERM
        saved(self, batch, logs)

    monkeypatch.setattr(engine, "STEPS_PER_EXECUTION", 1)
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    epochs, whole = train("whole")
    (iterations,) = (int(value) for name, value in whole.items() if name.endswith("iteration"))
    assert (epochs, iterations) == (2, updates)
    saved = SaveCheckpoints.on_train_batch_end
    with monkeypatch.context() as patch:
        patch.setattr(SaveCheckpoints, "on_train_batch_end", stop_in_the_last_epoch)
        with pytest.raises(TrainingInterrupted):
            train("stopped")
    assert CheckpointStore(Run(tmp_path / "stopped").checkpoints).newest().progress["batch"] == per_epoch - 3 + 1
    _, resumed = train("stopped")
    assert set(resumed) == set(whole)
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value)


def test_the_speed_of_a_training_leaves_out_what_its_last_epoch_left_out():
    progress = Progress(epoch=2, seconds=10.0, batches=8, history=[{}, {}], environments=[environment()])
    recipe = TranslationRecipe(model=Model(name="dl4mt_small"), optimisation={"epochs": 9, "updates": 10})
    settings = RunSettings(recipe_name="", seed=1, command="", recipe=recipe)
    assert training_record(settings, progress, "words", size=800)["words_per_second"] == 100  # not 160


def test_blank_files_are_named(pairs, subwords, tmp_path):
    task = task_of(pairs, subwords)
    for name, content in {"en": "dog\n", "de": "xx\n", "blank": "\n"}.items():
        (tmp_path / name).write_text(content)
    files = {"train": [["en", "de"]], "valid": [["en", "blank"]]}
    given = {split: [[str(tmp_path / name) for name in pair] for pair in each] for split, each in files.items()}
    task.settings = task.settings.model_copy(update={"files": given})
    with pytest.raises(ValueError, match=r"The valid text \S*/en and \S*/blank: Expected at least"):
        task.load_text()


def test_prepared_pairs_of_a_corpus_are_measured_on_text_in_its_folder(pairs, subwords):
    task = task_of(pairs, subwords)
    task.settings = task.settings.model_copy(update={"prepared": "pairs"})
    assert task.reads_corpus
    task.settings = task.settings.model_copy(update={"files": {"valid": [["a", "b"]], "test": [["c", "d"]]}})
    assert not task.reads_corpus


def test_the_epoch_of_the_best_bleu_is_kept(trained):
    _, run, progress = trained
    best = CheckpointStore(run.best).newest()
    figures = [logs["val_bleu"] for logs in progress.history]
    assert best.progress["val_bleu"] == max(figures)
    assert best.progress["epoch"] == figures.index(max(figures))


def test_tensorboard_shows_bleu_translations_and_attention(trained, pairs):
    folder = trained[1].tensorboard
    validation = EventAccumulator(str(folder / "validation")).Reload()
    assert [event.step for event in validation.Tensors("BLEU")] == [1, 2, 3]
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    (table,) = events.Tensors("translations")[-1].tensor_proto.string_val
    assert table.decode().startswith(f"| source | reference | translation |\n| --- | --- | --- |\n| {pairs[0][0]} | ")
    _, _, png = events.Tensors("attention")[-1].tensor_proto.string_val
    assert png.startswith(b"\x89PNG")


def test_the_projector_counts_subwords_of_both_languages_of_a_three_way_tied_model(trained, pairs, subwords):
    _, *lines = (trained[1].tensorboard / "tied_words.tsv").read_text().splitlines()
    ids = np.concatenate([subwords.encode(text) for text in kt.data.sentences_of(pairs)])
    counts = np.bincount(ids, minlength=len(subwords)).tolist()
    assert lines == [f"{word}\t{count}" for word, count in zip(subwords.words, counts, strict=True)]


def test_a_cell_of_a_table_shows_its_text_as_it_is():
    table = markdown_table(["source"], [["1 | 2 *or*\t<unk> `a`"]])
    assert table.splitlines()[2] == r"| 1 \| 2 \*or\* &lt;unk&gt; \`a\` |"
    assert "<td>1 | 2 *or* &lt;unk&gt; `a`</td>" in markdown_to_safe_html(table)


def test_perplexity_is_that_of_all_target_subwords(trained, pairs, subwords):
    model = trained[0]
    encoded = kt.data.SentencePairs.encode(pairs[:7], subwords, subwords)
    total = 0.0
    for i in range(7):
        inputs, words, _ = encoded.batch(np.array([i]))
        total -= model.score(inputs, words).sum()
    np.testing.assert_allclose(pair_perplexity(model, encoded), np.exp(total / encoded.target_tokens), rtol=1e-5)


class CopyingTranslator:
    """Translates each sentence into itself."""

    def __init__(self, size):
        self.source_vocabulary_size = self.target_vocabulary_size = size

    def translate(self, source, end_id, beam_size, length_penalty):
        assert source.shape[0] * source.shape[1] * beam_size <= 40
        return SimpleNamespace(words=source[:, None])


def test_translations_come_in_the_order_of_their_sentences(subwords, monkeypatch):
    monkeypatch.setattr(translator, "POSITIONS_PER_CALL", 40)
    sentences = ["dog", "cat snow house dog", "", *["snow snow", "house"] * 9]
    trained = TrainedTranslator(CopyingTranslator(len(subwords)), subwords)
    assert trained.translate(sentences, beam=2) == sentences


def test_the_learning_rate_falls_linearly():
    adam = make_optimizer(TokenBatchOptimisation(learning_rate=0.5, final_learning_rate=0.1), updates_per_epoch=2)
    rates = []
    for step in (0, 10, 20):
        adam.iterations.assign(step)
        rates.append(float(adam.learning_rate))
    assert rates == pytest.approx([0.5, 0.3, 0.1])


def test_adadelta_is_the_published_one():
    adadelta = make_optimizer(TokenBatchOptimisation(optimizer="adadelta", learning_rate=1.0), updates_per_epoch=1)
    assert (adadelta.rho, adadelta.epsilon, adadelta.global_clipnorm) == (0.95, 1e-6, 1.0)
