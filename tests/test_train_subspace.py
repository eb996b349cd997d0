import json


def test_a_sweep_is_written_run_by_run_and_not_measured_twice(run_here, tmp_path):
    output = tmp_path / "subspace"
    few = ["--corpus", "embedded", "--words", 800, "--units", 4, "--epochs", 1, "--taus", 10, "--output", output]
    assert run_here("train/subspace.py", *few, "--betas", 1, "--seeds", 1).returncode == 0
    assert output.with_suffix(".png").exists()
    more = run_here("train/subspace.py", *few, "--betas", 1, 0, "--seeds", 1)
    assert more.stdout.count("distance") == 1  # that of beta 1 is known
    results = json.loads(output.with_suffix(".json").read_text())
    assert [run["beta"] for run in results["runs"]] == [1.0, 0.0]
    assert len(results["by_beta"]["distance"]) == 2

    other = run_here("train/subspace.py", *few, "--units", 5, "--betas", 1, "--seeds", 1)
    assert other.returncode == 2
    assert "runs of other settings" in other.stderr
