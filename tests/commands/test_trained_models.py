"""Commands that use trained models: those of the zoo by name, and runs by folder."""

import io
import json

import keras
import numpy as np
import pytest
import safetensors.numpy
from keras.ops import convert_to_numpy

import keras_tying as kt
from keras_tying.commands import main
from keras_tying.files import sha256_of
from keras_tying.training import Run
from keras_tying.zoo.presets import preset_folder, read_preset


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs a command in a new folder; returns its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, text=""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return main([str(argument) for argument in arguments]), *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def lm():
    return kt.load("embedded_small_tied")


def test_a_text_is_continued_from_the_shell_as_in_python(command, lm):
    code, printed, _ = command("lm", "--generate", "embedded_small_tied", "the value of", "--length", 6, "--seed", 4)
    assert code == 0
    assert printed == f"the value of {lm.generate('the value of', 6, seed=4)}\n"


def test_each_line_is_continued(command):
    code, printed, _ = command(
        "lm", "--generate", "embedded_small_tied", "--length", 2, "--temperature", 0, text="the value\na list\n"
    )
    assert code == 0
    assert [line.split()[:2] for line in printed.splitlines()] == [["the", "value"], ["a", "list"]]


def test_a_byte_order_mark_of_standard_input_is_not_repeated(command):
    text = "\ufeffthe value\n"
    code, printed, _ = command("lm", "--generate", "embedded_small_tied", "--length", 0, text=text)
    assert (code, printed) == (0, "the value\n")


@pytest.mark.parametrize(
    ("plot", "message"),
    [("none/a.png", "There is no folder none for the plot a.png"), ("a.png", "Received: none for a.png")],
)
def test_attention_that_cannot_be_plotted_is_an_error(command, monkeypatch, plot, message):
    monkeypatch.setattr("keras_tying.commands.inference.load_for", lambda *_: None)
    code, _, error = command("nmt", "--translate", "multi30k_en_fr_three_way", "--attention", plot)
    assert code == 2
    assert message in error


def test_each_line_is_scored(command, lm):
    code, printed, _ = command("lm", "--score", "embedded_small_tied", text="the value is a list\n\n")
    head, *rows = (line.split("\t") for line in printed.splitlines())
    assert (code, head) == (0, ["tokens", "log_probability", "perplexity"])
    for row, score in zip(rows, lm.score(["the value is a list", ""]), strict=True):
        assert int(row[0]) == score.tokens
        assert [float(value) for value in row[1:]] == pytest.approx(score[1:], abs=1e-3)


def test_a_trained_model_is_measured_on_its_own_text(command):
    code, printed, _ = command("lm", "--evaluate", "embedded_small_tied")
    measured = read_preset(preset_folder() / "embedded_small_tied").measured
    assert code == 0
    assert f"test  perplexity {measured['test_perplexity']:8.2f} over" in printed


def test_what_cannot_be_stored_is_measured_and_shown(command, monkeypatch, caplog):
    def full(run, results):
        raise OSError("No space left")

    monkeypatch.setattr(Run, "read_results", lambda run: {"history": []})
    monkeypatch.setattr(Run, "write_results", full)
    code, printed, _ = command("lm", "--evaluate", "embedded_small_tied", "--temperature", "--cache")
    assert code == 0
    assert "temperature" in printed
    assert "cache" in printed
    assert caplog.messages == ["What is measured here is not stored: No space left"]


def test_similar_words_are_shown(command):
    code, printed, _ = command("word2vec", "--similar", "word2vec", "king", "music", "--number", 3)
    assert code == 0
    assert [line.split(":")[0] for line in printed.splitlines()] == ["king", "music"]
    assert all(line.count(",") == 2 for line in printed.splitlines())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word2vec --similar word2vec", "error: --similar needs a model and words. Received: only 'word2vec'"),
        ("word2vec --similar word2vec kingg", "no word 'kingg'"),
        (
            "word2vec --similar embedded_small_tied the",
            "is a model of `keras-tying lm`. Received: `keras-tying word2vec`",
        ),
        ("lm --score embeded_small_tied", "Names like it: embedded_small_tied"),
        ("nmt --translate runs/none", "There is no folder runs/none"),
        ("list nothing_like_it", "No name in the zoo matches 'nothing_like_it'"),
        ("lm --evaluate embedded_small_tied --data-dir runs", "The corpus 'embedded' has no files of its own"),
        ("lm --evaluate word2vec", "is a model of `keras-tying word2vec`"),
        ("publish runs/none a_name", "runs/none is not a run"),
    ],
)
def test_a_wrong_model_is_one_line(command, line, message):
    code, _, errors = command(*line.split())
    assert (code, len(errors.splitlines())) == (2, 1)
    assert message in errors


def test_the_list_has_recipes_with_figures_and_trained_models(command):
    _, printed, _ = command("list")
    rows = {line.split()[0]: line for line in printed.splitlines()}
    assert "trained" in rows["embedded_small_tied"]
    assert "trained" not in rows["ptb_large_tied"]
    assert "test perplexity" in rows["ptb_small_tied"]
    _, printed, _ = command("list", "--pretrained")
    assert [line.split()[0] for line in printed.splitlines()] == kt.zoo.list_models(pretrained=True)


def test_training_goes_on_from_a_trained_model_with_new_words(command, tmp_path, lm):
    text = tmp_path / "text.txt"
    text.write_text("the zyzzyva is a quokka .\n" * 60)
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}-file", text)]
    changes = ["--epochs", 1, "--set", "optimisation.batch_size=4", "model.dropout=0.25"]
    assert command("lm", "--from", "embedded_small_tied", "--add-words", *files, *changes)[0] == 0
    run = Run(tmp_path / "runs" / "embedded_small_tied_continued")
    settings = run.settings()
    assert (settings.start, settings.add_words) == (["embedded_small_tied"], True)
    assert settings.recipe.data.tokenization == lm.tokenization
    assert settings.recipe.title == "Continued from embedded_small_tied"
    assert {layer.rate for layer in run.load_model().layers if isinstance(layer, keras.layers.Dropout)} == {0.25}
    assert settings.fingerprints["initial_weights.safetensors"] == sha256_of(run.folder / "initial_weights.safetensors")
    trained = kt.load(run.folder)
    assert trained.vocabulary.words == [*lm.vocabulary.words, "quokka", "zyzzyva"]
    start = safetensors.numpy.load_file(run.folder / "initial_weights.safetensors")["000"]
    known = len(lm.vocabulary)
    assert (start[:known] == convert_to_numpy(lm.model.embedding.embeddings)).all()
    assert (start[known:] == start[lm.vocabulary.unknown_id]).all()
    before = lm.perplexity(["the zyzzyva is a quokka ."] * 20)
    results = json.loads(run.results.read_text())
    assert results["test_perplexity"] < before / 2
    assert command("lm", "--evaluate", run.folder)[0] == 0


def test_training_goes_on_from_the_mean_of_several_models(command, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the value is a name .\n" * 60)
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}-file", text)]
    changes = ["--epochs", 1, "--set", "optimisation.batch_size=4"]
    assert command("lm", "--from", "embedded_small_tied", "--run", "one", *files, *changes, "model.dropout=0.3")[0] == 0
    assert command("lm", "--from", "embedded_small_tied", "one", "--run", "mean", *files, *changes)[0] == 0
    run = Run(tmp_path / "mean")
    assert run.settings().start == ["embedded_small_tied", str(tmp_path / "one")]
    assert run.settings().recipe.title == "Continued from embedded_small_tied and one"
    start = safetensors.numpy.load_file(run.folder / "initial_weights.safetensors")
    both = (kt.load(each).model.get_weights() for each in ("embedded_small_tied", tmp_path / "one"))
    for mean, weights in zip((start[name] for name in sorted(start)), zip(*both, strict=True), strict=True):
        np.testing.assert_array_equal(mean, np.mean(weights, axis=0, dtype="float32"))
    assert command("lm", "--from", "mean", "one", "--run", "untrained", *files, "--epochs", 0)[0] == 0
    both = (kt.load(tmp_path / each).model.get_weights() for each in ("mean", "one"))
    for mean, *weights in zip(Run(tmp_path / "untrained").load_model().get_weights(), *both, strict=True):
        np.testing.assert_array_equal(mean, np.mean(weights, axis=0, dtype="float32"))
    results = Run(tmp_path / "untrained").read_results()
    assert (results["epochs"], results["history"]) == (0, [])
    _, printed, _ = command("lm", "--evaluate", "untrained")
    assert f"test  perplexity {results['test_perplexity']:8.2f} over" in printed
    assert (tmp_path / "untrained" / "tensorboard" / "tied_words.tsv").is_file()
    assert command("lm", "--resume", "untrained")[0] == 0
    assert Run(tmp_path / "untrained").read_results()["test_perplexity"] == results["test_perplexity"]
    assert command("lm", "--resume", "untrained", "--epochs", 1)[0] == 0
    assert Run(tmp_path / "untrained").read_results()["test_perplexity"] < results["test_perplexity"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--from embedded_small_tied ptb_small_tied", "the same words and layers"),
        ("--from word2vec", "is a model of `keras-tying word2vec`"),
        ("--from embedded_small_tied --set model.units=3", "--from keeps the model of embedded_small_tied"),
        ("--from embedded_small_tied --set data.tokenization=words", "--from keeps the tokenization of embedded_small"),
        ("--from nothing", "no trained model 'nothing'"),
    ],
)
def test_a_wrong_start_leaves_no_run(command, tmp_path, line, message):
    (tmp_path / "text.txt").write_text("a b c .\n" * 60)
    files = [f"--{split}-file=text.txt" for split in ("train", "valid", "test")]
    code, _, errors = command("lm", *line.split(), *files)
    assert code == 2
    assert message in errors
    assert not (tmp_path / "runs").exists()
