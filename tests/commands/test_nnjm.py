"""The command line, as a user meets it."""

import json

import pytest


@pytest.fixture
def bitext(aligned_files):
    """Arguments that name small aligned files."""
    return [word for split, paths in aligned_files.items() for word in (f"--{split}", *map(str, paths))]


def test_all_three_models_leave_everything_in_their_folders(tmp_path, bitext, run_python, run_here):
    folder = tmp_path / "runs"
    options = ["--run", folder, "--epochs", "1", "--tied", "--set", "optimisation.batch_size=16"]
    finished = run_python("train/nnjm.py", *bitext, *options)
    assert finished.stdout.count("test perplexity") == 3
    for model in ("nnlm", "nnjm", "nnjm_global"):
        assert {path.name for path in (folder / model).iterdir()} == {
            "best",
            "checkpoints",
            "config.toml",
            "model.keras",
            "results.json",
            "results.lock",
            "saved_model",
            "source_vocabulary.txt",
            "tensorboard",
            "training.lock",
            "vocabulary.txt",
        }
    results = json.loads((folder / "nnjm" / "results.json").read_text())
    evaluated = run_here("train/nnjm.py", "--evaluate", folder / "nnjm").stdout
    assert [line.split()[:3] for line in evaluated.splitlines()] == [
        ["valid", "perplexity", f"{results['validation_perplexity']:.2f}"],
        ["test", "perplexity", f"{results['test_perplexity']:.2f}"],
    ]
    assert results["command"] == (
        "python train/nnjm.py --recipe nnjm --seed 1 --epochs 1 --set optimisation.batch_size=16 "
        "--train TRAIN TRAIN TRAIN --valid VALID VALID VALID --test TEST TEST TEST --tied"
    )

    drawn = run_here("train/compare.py", "weights", folder)
    assert drawn.returncode == 0, drawn.stderr
    plots = [
        folder / run / f"{plot}.png" for run in ("nnjm", "nnjm_global", "nnlm") for plot in ("weights", "positions")
    ]
    assert drawn.stdout.split() == list(map(str, plots))
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots)

    again = run_here("train/nnjm.py", *bitext, *options)
    assert again.returncode == 2
    assert "already holds a run" in again.stderr


def test_prepared_text_trains_as_the_files_do(tmp_path, bitext, run_here):
    prepared = tmp_path / "prepared"
    made = run_here("train/prepare.py", "aligned", prepared, *bitext)
    assert made.returncode == 0, made.stderr
    assert run_here("train/prepare.py", "check", prepared).stdout == "test, train, valid: every file is intact.\n"
    options = ["--recipe", "nnjm", "--epochs", "1", "--set", "optimisation.batch_size=16", "--run"]
    results = []
    for name, text in (("files", bitext), ("disk", ["--prepared", prepared])):
        trained = run_here("train/nnjm.py", *text, *options, tmp_path / name)
        assert trained.returncode == 0, trained.stderr
        results.append(json.loads((tmp_path / name / "results.json").read_text())["test_perplexity"])
    assert results[0] == results[1]
    evaluated = run_here("train/nnjm.py", "--evaluate", tmp_path / "disk")
    assert f"{results[1]:.2f}" in evaluated.stdout
    refused = run_here("train/nnjm.py", "--prepared", prepared, "--set", "data.sentences=5", "--run", tmp_path / "no")
    assert refused.returncode == 2
    assert "data.sentences=5 has no effect beside --prepared" in refused.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--train needs two or three files"),
        (["--train", "a", "b", "--valid", "a"], "--valid needs two or three files"),
        (
            ["--train", "a", "b", "c", "--valid", "a", "b", "--test", "a", "b"],
            "Either all of --train",
        ),
        (["--train", "none", "none", "none", "--valid", "a", "b", "c", "--test", "a", "b", "c"], "There is no file"),
        (["--resume", "none"], "none is not a run"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_made(tmp_path, run_here, arguments, message):
    process = run_here(
        "train/nnjm.py", *arguments, *([] if arguments[:1] == ["--resume"] else ["--run", tmp_path / "run"])
    )
    assert process.returncode == 2
    assert message in process.stderr
    assert not (tmp_path / "run").exists()


def test_arguments_of_the_model_are_checked_before_anything_is_made(tmp_path, bitext, run_here):
    run = tmp_path / "run"
    process = run_here("train/nnjm.py", *bitext, "--recipe", "nnjm", "--set", "model.window=4", "--run", run)
    assert process.returncode == 2
    assert "`window` must be odd" in process.stderr
    assert not run.exists()


def test_a_loss_that_the_model_cannot_have_is_named_before_anything_is_made(tmp_path, bitext, run_here):
    given = ["--recipe", "nnjm", "--set", "loss.name=augmented", "model.hidden_units=[9,8]", "--run", tmp_path / "run"]
    process = run_here("train/nnjm.py", *bitext, *given)
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1].startswith("error: `AugmentedLoss` needs input and output embeddings")
    assert not (tmp_path / "run").exists()
