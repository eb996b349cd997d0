"""What several replicas of a model promise: the same run, other dropout masks."""

import harness
import numpy as np
import pytest


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of two epochs: with one replica, with one and then two, with two and then one; and outputs of replicas.

    Two more runs of one epoch start from the weights of the first, with one replica and with two.
    """
    folder = tmp_path_factory.mktemp("replicas")
    train = harness.text_file(folder / "train.txt", 200)
    files = harness.text_options(train, train, train)
    recipes = {epochs: harness.tiny_recipe(epochs) for epochs in (1, 2)}
    runs = {
        "one": harness.train_lm(folder / "one", recipes[2], files),
        "more": harness.train_lm(folder / "more", recipes[1], files),
    }
    harness.change_config(runs["more"], "recipe", "optimisation", "epochs", value=2)
    (folder / "fewer.toml").write_text(recipes[1])
    runs["fewer"] = harness.Run(folder / "fewer")
    further = ["--from", runs["one"].folder, *files, "--epochs", 1, "--run"]
    for replicas in ("by one", "by two"):
        runs[replicas] = harness.Run(folder / replicas)
    harness.succeed("train/lm.py", *further, runs["by one"].folder)
    outputs = harness.with_two_replicas(
        folder,
        ["--resume", runs["more"].folder],
        ["--recipe", folder / "fewer.toml", *files, "--run", runs["fewer"].folder],
        [*further, runs["by two"].folder],
    )
    assert [runs[name].results["replicas"] for name in ("more", "fewer", "by two")] == ["1, then 2", 2, 2]
    harness.change_config(runs["fewer"], "recipe", "optimisation", "epochs", value=2)
    harness.resume("train/lm.py", runs["fewer"])
    return runs, outputs


def test_a_run_starts_from_the_same_trained_model_with_any_number_of_replicas(trained):
    runs, _ = trained
    start, one, two = (runs[name].weights for name in ("one", "by one", "by two"))
    for before, expected, received in zip(start, one, two, strict=True):
        assert not (before == expected).all()
        np.testing.assert_allclose(received, expected, atol=2e-6)


@pytest.mark.parametrize("name", ["more", "fewer"])
def test_a_run_goes_on_with_more_or_fewer_replicas_than_it_began_with(trained, name):
    runs, _ = trained
    assert runs[name].results["epochs"] == 2
    for expected, received in zip(runs["one"].weights, runs[name].weights, strict=True):
        np.testing.assert_allclose(received, expected, atol=2e-6)
    assert runs[name].logged("val_perplexity") == pytest.approx(runs["one"].logged("val_perplexity"), rel=1e-5)


def test_a_step_of_an_adaptive_embedding_by_two_replicas_is_that_of_one(trained):
    _, outputs = trained
    names = [name for name in outputs if name.startswith("adaptive, 0")]
    assert len(names) == 11  # three bands, two projections, clusters, two biases, three variables of the LSTM
    for name in names:
        before, one, two = (outputs[name.replace("0", replicas, 1)] for replicas in "012")
        assert np.abs(one - before).max() > 1e-5
        np.testing.assert_allclose(two, one, atol=1e-6, rtol=0)


@pytest.mark.parametrize("model", ["language model", "translator"])
def test_replicas_draw_different_dropout_masks(trained, model):
    _, outputs = trained
    first, second = (outputs[f"{model}, 0.5, {replica}"] for replica in (0, 1))
    assert np.abs(first - second).max() > 1e-4


@pytest.mark.parametrize("model", ["language model", "translator"])
def test_replicas_without_dropout_come_to_the_same(trained, model):
    _, outputs = trained
    np.testing.assert_allclose(outputs[f"{model}, 0.0, 0"], outputs[f"{model}, 0.0, 1"], atol=1e-6)
