"""What the options of a continued run change, and what is refused by name."""

import json
import shutil

import harness
import pytest

from keras_tying import commands
from keras_tying.commands.changed_runs import change_epochs
from keras_tying.distribution import Distribution
from keras_tying.training import Run as TrainingRun

RECIPE = harness.tiny_recipe(epochs=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory, files):
    return harness.train_lm(tmp_path_factory.mktemp("runs") / "run", RECIPE, files)


@pytest.fixture(scope="module")
def kept_best(tmp_path_factory, files):
    return harness.train_lm(tmp_path_factory.mktemp("runs") / "run", f"{RECIPE}keep_best = true\n", files)


@pytest.fixture
def again(run, files):
    """Gives the command that made the run again, with other options."""

    def give(*options):
        recipe = run.folder.with_suffix(".toml")
        given = ["--recipe", recipe, *files, "--run", run.folder, "--restartable", *options]
        return harness.command("train/lm.py", *given)

    return give


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--seed", 2], "seed is 1, received 2"),
        (["--epochs", 3], "optimisation.epochs is 1, received 3"),
        (["--precision", "mixed_bfloat16"], "precision is 'float32', received 'mixed_bfloat16'"),
        (["--set", "model.num_layers=2"], "model.arguments.num_layers is 1, received 2"),
        (["--tokenization", "plain"], "data.tokenization is"),
    ],
)
def test_a_finished_run_is_not_restarted_with_other_settings(run, again, options, named):
    before = run.results
    finished = again(*options)
    assert finished.returncode == 2
    assert named in finished.stderr
    assert run.results == before


def test_results_kept_of_fewer_epochs_are_never_lost(run, tmp_path):
    copy = harness.Run(shutil.copytree(run.folder, tmp_path / "run"))
    change_epochs([TrainingRun(copy.folder)], 20, record=False)
    first = (copy.folder / "results_after_1_epochs.json").read_bytes()
    change_epochs([TrainingRun(copy.folder)], 1, record=False)
    (copy.folder / "results.json").write_text('{"epochs": 1}')
    change_epochs([TrainingRun(copy.folder)], 20, record=False)
    kept = [copy.folder / "superseded" / "results_after_1_epochs_1.json", copy.folder / "results_after_1_epochs.json"]
    assert [path.read_bytes() for path in kept] == [first, b'{"epochs": 1}']


def test_a_model_of_fewer_epochs_is_measured_with_a_warning(run, tmp_path, caplog):
    copy = harness.Run(shutil.copytree(run.folder, tmp_path / "run"))
    change_epochs([TrainingRun(copy.folder)], 20, record=False)
    harness.succeed("train/lm.py", "--evaluate", copy.folder)
    assert f"{copy.folder} has no results, as while it trains for more epochs" in caplog.text
    assert not (copy.folder / "results.json").exists()


def test_a_resumed_run_goes_on_to_more_epochs_as_one_that_had_them_from_the_start(run, again, files, tmp_path):
    whole = harness.train_lm(tmp_path / "whole", RECIPE, files, "--epochs", 3)
    assert again().returncode == 0
    resumed = harness.resume("train/lm.py", run, "--epochs", 3)
    assert resumed.results["epochs"] == 3
    assert json.loads((run.folder / "results_after_1_epochs.json").read_text())["epochs"] == 1
    assert resumed.logged("perplexity") == whole.logged("perplexity")
    assert all((a == b).all() for a, b in zip(resumed.weights, whole.weights, strict=True))
    assert "--seed 1 --epochs 3 --train-file" in resumed.results["command"]
    for epochs in (2, 0):
        fewer = harness.command("train/lm.py", "--resume", run.folder, "--epochs", epochs)
        assert fewer.returncode == 2
        assert f"has trained 3 epochs already. Received: --epochs {epochs}" in fewer.stderr


def test_runs_interrupted_on_their_way_to_more_epochs_are_not_finished(run, tmp_path):
    runs = [harness.Run(shutil.copytree(run.folder, tmp_path / "runs" / name)) for name in "ab"]
    folder = tmp_path / "runs"
    finished = harness.interrupted("train/lm.py", "--resume", folder, "--epochs", 4)
    assert finished.returncode == 75
    assert f"Continue with: python train/lm.py --resume {folder}\n" in finished.stdout
    harness.succeed("train/lm.py", "--resume", folder)
    assert [each.results["epochs"] for each in runs] == [4, 4]


def test_several_new_runs_and_the_options_of_one_are_named_by_what_continues_them(files, tmp_path):
    recipes = [tmp_path / f"{name}.toml" for name in "ab"]
    for recipe in recipes:
        recipe.write_text(RECIPE)
    several = harness.interrupted("train/lm.py", "--recipe", *recipes, *files, "--run", tmp_path / "runs")
    assert several.stdout.endswith("Continue with the same command and --restartable.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands.train, "open_distribution", lambda *_: Distribution())
        given = ["--strategy", "mirrored", "--replicas", 2]
        one = harness.interrupted("train/lm.py", "--recipe", recipes[0], *files, "--run", tmp_path / "run", *given)
    continued = f"python train/lm.py --resume {tmp_path / 'run'} --strategy mirrored --replicas 2\n"
    assert one.stdout.endswith(f"Continue with: {continued}")


def test_more_epochs_of_another_text_change_nothing(tmp_path):
    train, other = harness.text_file(tmp_path / "train.txt", 200), harness.text_file(tmp_path / "other.txt", 100)
    run = harness.train_lm(tmp_path / "run", RECIPE, harness.text_options(train, other, other))
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    other.write_text("another text\n")
    finished = harness.command("train/lm.py", "--resume", run.folder, "--epochs", 2)
    assert finished.returncode == 2
    assert "is not the text this run was made with" in finished.stderr
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("lost", "options", "message"),
    [
        ("checkpoints", [], "no intact checkpoint is left"),
        ("best", [], "lacks the best epoch so far, 1"),
        (None, ["--from-scratch"], "which has one from the end of epoch 1. Leave the option out"),
    ],
)
def test_more_epochs_of_a_run_that_cannot_go_on_change_nothing(kept_best, tmp_path, lost, options, message):
    copy = harness.Run(shutil.copytree(kept_best.folder, tmp_path / "run"))
    if lost:
        shutil.rmtree(copy.folder / lost)
    before = {path: path.read_bytes() for path in copy.folder.rglob("*") if path.is_file()}
    finished = harness.command("train/lm.py", "--resume", copy.folder, "--epochs", 2, *options)
    assert finished.returncode == 2
    assert message in finished.stderr
    assert {path: path.read_bytes() for path in copy.folder.rglob("*") if path.is_file()} == before


def test_of_several_runs_that_cannot_all_start_again_none_does(kept_best, tmp_path):
    for name in "ab":
        shutil.copytree(kept_best.folder, tmp_path / "runs" / name)
        (tmp_path / "runs" / name / "results.json").unlink()
    for name in ("checkpoints", "best"):
        shutil.rmtree(tmp_path / "runs" / "a" / name)
    finished = harness.command("train/lm.py", "--resume", tmp_path / "runs", "--from-scratch")
    assert finished.returncode == 2
    assert f"Received: {tmp_path / 'runs' / 'b'}, which has one" in finished.stderr
    assert not (tmp_path / "runs" / "a" / "checkpoints").exists()


def test_runs_that_are_not_finished_are_left_out_when_a_folder_is_measured(kept_best, tmp_path, caplog):
    for name in "ab":
        shutil.copytree(kept_best.folder, tmp_path / name)
    (tmp_path / "a" / "model.keras").unlink()
    lines = harness.succeed("train/lm.py", "--evaluate", tmp_path).splitlines()
    assert [line.split()[:2] for line in lines] == [["b", "valid"], ["b", "test"]]
    assert f"{tmp_path / 'a'} is left out: it has no trained model yet" in caplog.text
    (tmp_path / "b" / "model.keras").unlink()
    finished = harness.command("train/lm.py", "--evaluate", tmp_path)
    assert finished.returncode == 2
    assert f"{tmp_path / 'a'} has no trained model yet" in finished.stderr


@pytest.mark.parametrize("folder", ["checkpoints", "best"])
def test_a_run_with_a_damaged_index_starts_again_after_what_the_error_says(kept_best, tmp_path, folder):
    copy = harness.Run(shutil.copytree(kept_best.folder, tmp_path / "run"))
    (copy.folder / folder / "index.json").write_text("[")
    refused = harness.command("train/lm.py", "--resume", copy.folder)
    assert "after its folders checkpoints and, if there is one, best are moved away" in refused.stderr
    for name in ("checkpoints", "best"):
        (copy.folder / name).rename(tmp_path / name)
    harness.resume("train/lm.py", copy, "--from-scratch")
    assert copy.logged("perplexity") == kept_best.logged("perplexity")


def test_epochs_that_decide_the_learning_rate_do_not_change(tmp_path, files):
    recipe = RECIPE + "final_learning_rate = 0.1\nfull_rate_epochs = 0\ndecay = 1.0\n"
    run = harness.train_lm(tmp_path / "run", recipe, files)
    before = (run.folder / "config.toml").read_bytes()
    finished = harness.command("train/lm.py", "--resume", run.folder, "--epochs", 2)
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "final_learning_rate, so their number cannot change. Received: --epochs 2" in finished.stderr
    assert (run.folder / "config.toml").read_bytes() == before


@pytest.mark.parametrize("script", ["nmt", "nnjm", "word2vec"])
def test_a_run_of_another_kind_is_named(run, script):
    for option in ("--evaluate", "--resume"):
        finished = harness.command(f"train/{script}.py", option, run.folder)
        assert finished.returncode == 2
        assert f"{run.folder} is a model of `keras-tying lm`" in finished.stderr


def test_word_vectors_start_from_no_run_of_another_kind(run, files, tmp_path):
    words = ["--train", *[files[1]] * 2, "--valid", *[files[3]] * 2, "--test", *[files[5]] * 2]
    finished = harness.command("train/nnjm.py", *words, "--bootstrap", run.folder, "--run", tmp_path / "new")
    assert finished.returncode == 2
    assert "is a model of `keras-tying lm`" in finished.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.toml", b"\xff\xfe", "config.toml is not UTF-8 text: received byte 0xff"),
        ("config.toml", b"seed = 1", "config.toml: recipe_name is missing"),
        ("model.keras", b"PK", "model.keras cannot be loaded"),
    ],
)
def test_a_damaged_file_of_a_run_is_named_in_one_line(tmp_path, run, file, content, message):
    path = run.folder / file
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        finished = harness.command("train/lm.py", "--evaluate", run.folder)
    finally:
        path.write_bytes(before)
    assert finished.returncode == 2
    assert message in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
