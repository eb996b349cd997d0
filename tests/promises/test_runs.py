"""What becomes of a run's files when settings are wrong, texts change, files are lost and processes meet."""

import json
import os
import shutil
from argparse import Namespace

import harness
import keras
import numpy as np
import pytest

from keras_tying.zoo.recipes import recipe_folder

LM, NNJM = "train/lm.py", "train/nnjm.py"
RECIPE = harness.tiny_recipe(epochs=1)
SMALL = ["model.embedding_size=8", "model.hidden_units=[16]", "optimisation.batch_size=16"]


class Killed(BaseException):
    """What a kill is to code that is tried in one process."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def texts(folder):
    files = [harness.text_file(folder / "train.txt", 200)]
    return [*files, *(harness.text_file(folder / f"{split}.txt", 100, split=split) for split in ("valid", "test"))]


@pytest.fixture(scope="module")
def recipe(folder):
    path = folder / "tiny.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def bitexts(folder):
    """Source and target of each split: lines, and the same in capitals."""
    pairs = []
    for split, tokens in (("train", 300), ("valid", 50), ("test", 50)):
        source = harness.text_file(folder / f"{split}.source", tokens, split=split)
        target = folder / f"{split}.target"
        target.write_text(source.read_text().upper())
        pairs.append((source, target))
    return pairs


@pytest.fixture(scope="module")
def trained(folder, texts):
    return harness.train_lm(folder / "trained", RECIPE, harness.text_options(*texts))


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a trained run, with checkpoints of its first epoch only and two epochs to train."""
    shutil.copytree(trained.folder, tmp_path / "run")
    copy = harness.Run(tmp_path / "run")
    harness.change_config(copy, "recipe", "optimisation", "epochs", value=2)
    return copy


def refused(*command, message):
    """Runs a command that must be refused in one line."""
    finished = harness.command(*command)
    assert finished.returncode == 2, finished.stdout + finished.stderr
    (line,) = (line for line in finished.stderr.splitlines() if not line.startswith("WARNING"))
    assert line.startswith("error: ")
    assert message in line
    return finished


# Nothing is written before everything has been checked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "seed"),
        (["--seed", 2**32], "seed"),
        (["--set", "optimisation.epocks=1"], "epocks"),
        (["--set", "model.dropout=1"], "dropout"),
        (["--set", "model.vocabulary_size=5"], "model.vocabulary_size is that of the text. Received: 5"),
        (
            ["--set", "model.name=skip_gram", "model.arguments={{}}"],
            "train/lm.py trains models of the class LanguageModel. Received: model.name='skip_gram', which makes a "
            "SkipGram. Choose another model.name.",
        ),
        (["--set", "optimisation.sequence_length=999"], "a shorter sequence length"),
        (
            ["--set", "optimisation.optimizer=adam", "optimisation.decoupled_weight_decay=0.1"],
            "needs the optimizer sgd",
        ),
        (["--set", "loss.gamma=1"], "does not take its arguments"),
        (["--set", "data.tokenization=word"], "tokenization"),
        (["--valid-file", "{empty}"], "empty.txt is empty"),
        (["--valid-file", "{line}"], "The valid text needs at least 8 tokens for 4 rows"),
        (["--test-file", "{line}"], "The test text needs at least 2 tokens"),
        (["--test-file", "{binary}"], "expected UTF-8"),
        (["--train-file", "{binary}", "--test-file", "."], f"{os.getcwd()} is a folder. Name a file inside it"),
        (["--train-file", "{binary}", "--test-file", "{pipe}"], "pipe.txt is a pipe or a device"),
    ],
)
def test_wrong_settings_leave_nothing(tmp_path, texts, recipe, arguments, message):
    files = {name: tmp_path / f"{name}.txt" for name in ("empty", "line", "binary", "pipe")}
    for path, content in zip(files.values(), (b"", b"\n", b"\xff\xff\n"), strict=False):
        path.write_bytes(content)
    os.mkfifo(files["pipe"])
    arguments = [each.format(**files) if isinstance(each, str) else each for each in arguments]
    good = harness.text_options(*texts)
    others = [each for pair in zip(good[::2], good[1::2], strict=True) if pair[0] not in arguments for each in pair]
    new = tmp_path / "new" / "run"
    refused(LM, "--recipe", recipe, *others, "--run", new, *arguments, message=message)
    assert not new.parent.exists()


def test_a_recipe_for_own_text_needs_one(tmp_path, recipe):
    message = "The recipe is for your own text. Missing: --train-file, --valid-file, --test-file, or --prepared"
    refused(LM, "--recipe", recipe, "--run", tmp_path / "run", message=message)
    assert not (tmp_path / "run").exists()


def new_task(recipe, *texts):
    """The task of a new run on a training, a validation and a test text."""
    from keras_tying.tasks import LanguageModelTask
    from keras_tying.training import RunSettings
    from keras_tying.zoo.recipes import load_recipe

    files = {split: [[str(path)]] for split, path in zip(("train", "valid", "test"), texts, strict=True)}
    settings = RunSettings(recipe_name="tiny", seed=1, command="", files=files, recipe=load_recipe(recipe))
    return LanguageModelTask(settings)


def test_settings_are_not_chosen_on_the_test_text(texts, recipe):
    train, text, _ = texts
    task = new_task(recipe, train, text, text)
    task.vocabularies = task.learn_vocabularies()
    task.open_text()
    with pytest.raises(ValueError, match=r"settings of --cache, --dynamic are chosen .* Received: one text for both"):
        next(task.evaluate(None, Namespace(given={"cache": True, "dynamic": True})))


def test_a_batch_that_replicas_cannot_divide_leaves_nothing(texts, tmp_path, recipe):
    from keras_tying.training.engine import create_runs

    with pytest.raises(ValueError, match=r"evenly among 3 replicas"):
        create_runs({tmp_path / "run": new_task(recipe, *texts)}, replicas=3)
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_no_run_leave_nothing(bitexts, tmp_path):
    options = harness.linked_options(*map(harness.linked, bitexts))
    for start in ("--bootstrap", "--source-vectors"):
        refused(NNJM, *options, "--run", tmp_path / "run", start, tmp_path / "nowhere", message="nowhere")
    assert list(tmp_path.iterdir()) == []


def test_runs_of_a_folder_that_are_finished_are_named(aligned):
    runs, _, _ = aligned
    finished = [f"{runs / name} is finished" for name in ("nnjm", "nnlm")]
    assert sorted(harness.succeed(NNJM, "--resume", runs).splitlines()) == finished


def test_missing_vectors_are_noticed_before_text_is_aligned(aligned, tmp_path):
    _, options, calls = aligned
    before = len(calls)
    refused(NNJM, *options, "--run", tmp_path / "run", "--source-vectors", tmp_path / "nowhere", message="nowhere")
    assert len(calls) == before


def test_a_wrong_setting_of_one_of_several_runs_leaves_none(bitexts, tmp_path):
    """The history of one word is no history to the first alone."""
    options = harness.linked_options(*map(harness.linked, bitexts))
    refused(NNJM, *options, "--run", tmp_path / "runs", "--set", *SMALL, "model.window=3", message="window")
    assert list(tmp_path.iterdir()) == []


def test_recipes_of_one_name_are_refused(tmp_path, texts, recipe):
    other = tmp_path / "tiny.toml"
    other.write_text(RECIPE)
    refused(LM, "--recipe", recipe, other, *harness.text_options(*texts), message="need different names")


# Names are confined to the folder, and what a link points to stays


def test_an_index_of_checkpoints_that_names_a_file_elsewhere_removes_nothing(run, tmp_path):
    (tmp_path / "victim.txt").write_text("mine")
    index = run.folder / "checkpoints" / "index.json"
    (entry,) = json.loads(index.read_text())
    index.write_text(json.dumps([{**entry, "file": "../../victim.txt"}] * 3))
    refused(LM, "--resume", run.folder, message="is not an index of checkpoints")
    assert (tmp_path / "victim.txt").read_text() == "mine"


def test_links_in_a_run_are_replaced_and_their_targets_stay(run, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    names = ["model.keras", "results.json", *(f"tensorboard/tied_{name}" for name in ("words.tsv", "embedding.bytes"))]
    for place, name in enumerate(names):
        (kept / str(place)).write_text("mine")
        (run.folder / name).unlink()
        (run.folder / name).symlink_to(kept / str(place))
    harness.resume(LM, run)
    assert [path.read_text() for path in kept.iterdir()] == ["mine"] * len(names)
    assert not any((run.folder / name).is_symlink() for name in names)
    assert run.results["epochs"] == 2
    run.model()


def test_a_run_killed_while_its_model_is_saved_keeps_the_old_one_and_goes_on(run, monkeypatch):
    before = (run.folder / "model.keras").read_bytes()

    def half(self, path):
        path.write_bytes(before[: len(before) // 2])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "save", half)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # a kill clears nothing up
        with pytest.raises(Killed):
            harness.command(LM, "--resume", run.folder)
    assert (run.folder / "model.keras").read_bytes() == before
    assert any(name.endswith(".unfinished") for name in os.listdir(run.folder))
    harness.resume(LM, run)
    assert run.results["epochs"] == 2
    assert not any(name.startswith(".") for name in os.listdir(run.folder))


# A run goes on from a checkpoint, or says that it cannot


@pytest.mark.parametrize("lost", ["deleted", "damaged", "index deleted"])
def test_a_run_whose_checkpoints_are_lost_is_refused_unless_told(trained, run, lost):
    checkpoints = run.folder / "checkpoints"
    for name in ("model.keras", "results.json"):
        (run.folder / name).unlink()  # as if it were in the middle
    if lost == "deleted":
        shutil.rmtree(checkpoints)
    elif lost == "damaged":
        for path in checkpoints.glob("*.safetensors"):
            path.write_bytes(path.read_bytes()[:-1])
    else:
        (checkpoints / "index.json").unlink()
    refused(LM, "--resume", run.folder, message="no intact checkpoint is left")
    if lost == "deleted":
        harness.change_config(run, "recipe", "optimisation", "epochs", value=1)
        harness.resume(LM, run, "--from-scratch")
        for expected, received in zip(trained.weights, run.weights, strict=True):
            np.testing.assert_array_equal(received, expected)
        refused(LM, "--resume", run.folder, "--from-scratch", message="whose checkpoints are lost. Received: ")


def test_a_finished_run_whose_checkpoints_are_lost_keeps_its_results(run):
    before = (run.folder / "results.json").read_bytes()
    shutil.rmtree(run.folder / "checkpoints")
    (run.folder / "training.lock").unlink()
    refused(LM, "--resume", run.folder, message="--from-scratch")
    assert (run.folder / "results.json").read_bytes() == before


def test_a_run_without_a_first_checkpoint_begins_and_a_second_process_is_refused(
    tmp_path, texts, recipe, trained, monkeypatch
):
    from keras_tying.training import saving

    options = ["--recipe", recipe, *harness.text_options(*texts), "--run", tmp_path / "run"]
    run = harness.Run(tmp_path / "run")

    def killed(*_):
        refused(LM, "--resume", run.folder, message="is being trained by another process")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(saving, "read_variables", killed)
        with pytest.raises(Killed):
            harness.command(LM, *options)
    assert not (run.folder / "results.json").exists()
    harness.resume(LM, run)
    for expected, received in zip(trained.weights, run.weights, strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("changed", range(3))
def test_a_text_that_has_changed_is_named(run, texts, tmp_path, changed):
    files = [tmp_path / path.name for path in texts]
    for path, copy in zip(texts, files, strict=True):
        shutil.copy(path, copy)
    for split, copy in zip(("train", "valid", "test"), files, strict=True):
        harness.change_config(run, "files", split, value=[[str(copy)]])
    text = files[changed].read_text()
    files[changed].write_text(" ".join(text.split(" ")[::-1]))
    for mode in ("--resume", "--evaluate"):
        refused(LM, mode, run.folder, message=f"{files[changed]} is not the text this run was made with")
    files[changed].write_text(text)
    harness.succeed(LM, "--evaluate", run.folder)


def test_a_prepared_text_that_has_changed_is_named(texts, recipe, tmp_path):
    prepared, options = tmp_path / "prepared", harness.text_options(*texts)
    more = ["--vocabulary-size", "150", "--processes", "1"]
    harness.succeed("train/prepare.py", "text", prepared, *options, *more)
    run = tmp_path / "run"
    harness.succeed(LM, "--recipe", recipe, "--prepared", prepared, "--run", run)
    shutil.rmtree(prepared / "test")
    harness.succeed("train/prepare.py", "text", prepared, "--test-file", texts[1], "--processes", "1")
    changed = prepared / "test" / "index.jsonl"
    refused(LM, "--evaluate", run, message=f"{changed} is not the text this run was made with")


def test_a_text_that_is_too_short_for_an_evaluation_is_refused_before_anything_is_measured(recipe, texts, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("the end\n")
    files = ["--train-file", texts[0], "--valid-file", texts[1], "--test-file", short]
    harness.succeed(LM, "--recipe", recipe, *files, "--run", tmp_path / "run")
    for options, message in (
        (["--temperature", "--mc-passes", 2], "With --mc-passes the test text needs at least"),
        (["--temperature", "--dynamic"], "Dynamic evaluation needs a training text of at least 2,100 words"),
    ):
        assert not refused(LM, "--evaluate", tmp_path / "run", *options, message=message).stdout


# Several runs of one command


@pytest.fixture(scope="module")
def aligned(folder, bitexts):
    """NNLM and NNJM on text without links, which another aligner aligns otherwise each time."""
    from keras_tying.tasks import joint_language_model

    calls = []

    def align(texts, place):
        """Links every word to one source word, the first or the last."""
        calls.append(place)
        return [text.aligned(_links(text, place / f"{i}.align", len(calls))) for i, text in enumerate(texts)]

    patch = pytest.MonkeyPatch()
    patch.setattr(joint_language_model, "align", align)
    options = ["--recipe", "nnlm", "nnjm", "--run", folder / "joint", "--epochs", 1, "--set", *SMALL]
    options += [f"--{split}" if part == 0 else path
                for split, pair in zip(("train", "valid", "test"), bitexts, strict=True)
                for part, path in ((0, None), *((1, path) for path in pair))]  # fmt: skip
    harness.succeed(NNJM, *options)
    yield folder / "joint", options, calls
    patch.undo()


def _links(text, path, call):
    lines = []
    for source, target in text.pairs():
        place = 0 if call % 2 else len(source) - 1
        lines.append(" ".join(f"{place}-{i}" for i in range(len(target))) if source else "")
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_links_that_were_made_are_in_each_run(aligned):
    runs, _, _ = aligned
    assert sorted(os.listdir(runs.parent / "joint")) == ["nnjm", "nnlm"]
    assert not (runs.parent / "joint.alignment").exists()
    for split in ("train", "valid", "test"):
        assert (runs / "nnjm" / f"{split}.align").read_bytes() == (runs / "nnlm" / f"{split}.align").read_bytes()
    harness.succeed(NNJM, "--evaluate", runs)


def test_a_missing_run_of_a_command_is_noticed_and_made_with_the_links_of_the_others(aligned, tmp_path):
    runs, options, calls = aligned
    shutil.copytree(runs, tmp_path / "joint")
    copy = tmp_path / "joint"
    before = (copy / "nnlm" / "train.align").read_bytes()
    expected = harness.Run(copy / "nnjm").weights
    shutil.rmtree(copy / "nnjm")
    refused(NNJM, "--resume", copy, message=f"The run {copy / 'nnjm'} is missing")
    harness.succeed(NNJM, *options, "--run", copy, "--restartable")
    assert len(calls) == 1
    assert (copy / "nnlm" / "train.align").read_bytes() == before
    assert (copy / "nnjm" / "train.align").read_bytes() == before
    for weights, received in zip(expected, harness.Run(copy / "nnjm").weights, strict=True):
        np.testing.assert_array_equal(received, weights)


def test_links_of_a_text_that_has_changed_are_made_again(aligned, tmp_path):
    runs, options, calls = aligned
    shutil.copytree(runs, tmp_path / "joint")
    shutil.rmtree(tmp_path / "joint" / "nnjm")
    source, before = options[options.index("--train") + 1], len(calls)
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        source.write_text("".join([*lines[1:], lines[0]]), encoding="utf-8")
        harness.succeed(NNJM, *options, "--run", tmp_path / "joint", "--restartable")
    finally:
        source.write_text("".join(lines), encoding="utf-8")
    assert len(calls) == before + 1


def test_a_run_whose_best_epoch_is_lost_is_refused(aligned, tmp_path):
    runs, _, _ = aligned
    shutil.copytree(runs / "nnlm", tmp_path / "nnlm")
    shutil.rmtree(tmp_path / "nnlm" / "best")
    refused(NNJM, "--resume", tmp_path / "nnlm", message="lacks the best epoch so far, 1")


def test_a_run_whose_best_epoch_is_damaged_is_refused_before_it_goes_on(aligned, tmp_path):
    runs, _, _ = aligned
    run = tmp_path / "nnlm"
    shutil.copytree(runs / "nnlm", run)
    harness.succeed(NNJM, "--resume", run, "--epochs", 2)
    _, best = sorted((run / "best").glob("*.safetensors"))
    best.write_bytes(b"")
    refused(NNJM, "--resume", run, "--epochs", 3, message="lacks the best epoch so far, 2")


def test_results_that_cannot_be_recorded_are_refused_before_a_run_goes_on(texts, tmp_path):
    options = ["--run", tmp_path / "run", "--restartable", "--set", "model.units=3", "optimisation.epochs=1"]
    harness.succeed(LM, *options)
    results = (tmp_path / "run" / "results.json").read_bytes()
    refused(LM, *options, "--record", message="differ from the recipe")
    recipe = tmp_path / "recipe.toml"
    own = (recipe_folder() / "embedded_small_tied.toml").read_text()
    recipe.write_text('train_perplexity = "trained_model"\n' + own)
    refused(LM, "--recipe", recipe, *options, message="train_perplexity is 'last_epoch', received 'trained_model'")
    assert (tmp_path / "run" / "results.json").read_bytes() == results


def test_links_that_have_changed_are_named(aligned, tmp_path):
    runs, _, _ = aligned
    shutil.copytree(runs / "nnjm", tmp_path / "nnjm")
    links = tmp_path / "nnjm" / "valid.align"
    links.write_text(links.read_text().replace("0", "1", 1))
    refused(NNJM, "--evaluate", tmp_path / "nnjm", message=f"{links} is not the alignment this run was made with")


def test_a_run_keeps_the_word_vectors_that_it_starts_from(aligned, tmp_path):
    runs, options, _ = aligned
    start, run = tmp_path / "start", harness.Run(tmp_path / "run")
    shutil.copytree(runs / "nnjm", start)
    options = ["--recipe", "nnlm", *options[3:], "--run", run.folder, "--bootstrap", start]
    harness.succeed(NNJM, *options)
    expected = run.weights
    shutil.rmtree(start)
    for name in ("checkpoints", "best"):
        shutil.rmtree(run.folder / name)
    harness.resume(NNJM, run, "--from-scratch")
    for weights, received in zip(expected, run.weights, strict=True):
        np.testing.assert_array_equal(received, weights)
