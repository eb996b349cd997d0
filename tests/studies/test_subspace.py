import numpy as np
import pytest

from keras_tying.training import environment
from studies import subspace
from studies.augmented_loss import draw_distances
from studies.subspace import SubspaceSettings, draw_piece, measure_distance, sweep

TINY = SubspaceSettings(words=600, units=8, batch_size=5, steps=10, epochs=30)
PNG = b"\x89PNG"


def test_the_augmented_loss_draws_the_embeddings_together(train_ids):
    apart, together = (measure_distance(train_ids, beta, 10.0, 1, TINY) for beta in (0.0, 1.0))
    assert together["distance"] < 0.5 * apart["distance"]
    assert {name: apart[name] for name in ("device", "commit")} == {n: environment()[n] for n in ("device", "commit")}
    assert apart["wall_time_seconds"] > 0


def test_a_piece_is_contiguous_and_numbered_anew(train_ids):
    piece = draw_piece(train_ids, 200, seed=3)
    assert set(piece) == set(range(piece.max() + 1))
    start = np.random.default_rng(3).integers(len(train_ids) - 199)
    original = train_ids[start : start + 200]
    assert len(np.unique(np.stack([piece, original]), axis=1).T) == piece.max() + 1


def test_a_text_shorter_than_the_piece_is_refused(train_ids):
    with pytest.raises(ValueError, match=r"at least 20,000 words. Received: 10"):
        draw_piece(train_ids[:10], 20_000, seed=1)


def measured(ids, beta, tau, seed, settings):
    """A made-up run: `tests/studies/test_augmented_loss.py` sweeps over real ones."""
    return {"beta": beta, "tau": tau, "seed": seed, "distance": (1 + beta) / tau / seed}


def test_sweep_takes_means_over_seeds_and_draws_them(train_ids, tmp_path, monkeypatch):
    monkeypatch.setattr(subspace, "measure_distance", measured)
    runs, seen = [], []
    results = sweep(train_ids, [0.0, 1.0], [2.0, 10.0], 2, TINY, runs, seen.append)
    assert len(seen) == len(runs) == 6  # beta 1 at tau 10 is in both panels
    of_point = [run["distance"] for run in seen if (run["beta"], run["tau"]) == (1.0, 2.0)]
    assert len(of_point) == 2
    np.testing.assert_allclose(results["by_tau"]["distance"][0], np.mean(of_point))
    assert results["by_beta"]["distance"][1] == results["by_tau"]["distance"][1]
    draw_distances({**results, "runs": runs}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(PNG)


def test_a_sweep_goes_on_behind_the_runs_it_has(train_ids, monkeypatch):
    monkeypatch.setattr(subspace, "measure_distance", measured)
    arguments = train_ids, [0.0, 1.0], [2.0], 2, TINY
    runs, seen = [], []
    whole = sweep(*arguments, runs, seen.append)
    half, again = runs[:2], []
    assert sweep(*arguments, half, again.append) == whole
    assert again == seen[2:]
