"""How close the output embedding comes to the space of the input embedding under the augmented loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_tying.data import windows
from keras_tying.losses import AugmentedLoss
from keras_tying.metrics import subspace_distance
from keras_tying.study.muon import GramMuon
from keras_tying.training.callbacks import CarryState, StopOnNaN
from keras_tying.training.feeding import feed
from keras_tying.training.window_batches import WindowBatches
from keras_tying.zoo import recurrent_language_model


@dataclass(frozen=True)
class SubspaceSettings:
    """The untied model of the experiment and how it is trained, without regularization."""

    words: int = 20_000
    """Length of the text, a contiguous piece of the training text drawn by seed."""
    units: int = 300
    batch_size: int = 20
    steps: int = 35
    output_rate: float = 0.12
    """Muon's, of the output embedding at the start; every rate falls to 0 along a cosine."""
    recurrent_rate: float = 0.01
    """Muon's, of the LSTM's kernels."""
    input_rate: float = 0.001
    """Adam's, of the input embedding and of biases."""
    epochs: int = 100
    initializer_range: float = 0.1


def piece_of(ids: np.ndarray, words: int, seed: int) -> np.ndarray:
    """A contiguous piece of a text, its words numbered anew: `int32 [words]` below the number of its types.

    Raises:
        ValueError: If the text is shorter.
    """
    if len(ids) < words:
        raise ValueError(f"Expected a text of at least {words:,} words. Received: {len(ids):,}.")
    start = np.random.default_rng(seed).integers(len(ids) - words + 1)
    _, numbered = np.unique(ids[start : start + words], return_inverse=True)
    return numbered.astype(np.int32)


def measure_distance(ids: np.ndarray, beta: float, tau: float, seed: int, settings: SubspaceSettings) -> dict[str, Any]:
    """Trains one untied model on the loss of equation 6.1 and compares its two embeddings.

    Rows of the input embedding have length 1 and there is no output bias, as in the theory.

    Args:
        ids: Training text `[N]`.
        beta: Share of the augmented loss, in [0, 1].
        tau: Its temperature.
        seed: Of weights and of the piece of text.
        settings: Model and training.

    Returns:
        `beta`, `tau`, `seed`, `distance`, and the last epoch's `perplexity`.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, section 6.2.
    """
    text = piece_of(ids, settings.words, seed)
    types = int(text.max()) + 1
    keras.utils.set_random_seed(seed)
    unit_length = keras.constraints.UnitNorm(axis=1)
    model = recurrent_language_model(
        types,
        settings.units,
        tied=False,
        output_bias=False,
        embeddings_constraint=unit_length,
        initializer_range=settings.initializer_range,
    )
    model.embedding.embeddings.assign(unit_length(model.embedding.embeddings))
    cut = windows(text, settings.batch_size, settings.steps)
    model.carry_state(settings.batch_size)
    model.compile(
        _optimizer(settings, settings.epochs * cut.batches),
        AugmentedLoss.proportional(beta, tau, types, scale="mean"),
        steps_per_execution=cut.batches,
    )
    history = model.fit(
        **feed(model, WindowBatches(cut)),
        epochs=settings.epochs,
        shuffle=False,
        callbacks=[CarryState(), StopOnNaN()],
        verbose=0,
    )
    matrices = (keras.ops.convert_to_numpy(matrix) for matrix in model.embedding_matrices().values())
    return {
        "beta": beta,
        "tau": tau,
        "seed": seed,
        "types": types,
        "distance": subspace_distance(*matrices),
        "perplexity": history.history["perplexity"][-1],
    }


def _optimizer(settings: SubspaceSettings, updates: int) -> keras.optimizers.Optimizer:
    """Muon for all matrices but the input embedding, whose rows have length 1.

    Its updates have singular values alike. Under Adam or SGD, directions in which hidden states vary little keep
    what they began with, and the distance is of what was not trained. The output embedding learns fastest: it is to
    keep up with hidden states and input embedding. Weights do not decay: Keras's default would.
    """
    falling = keras.optimizers.schedules.CosineDecay(settings.recurrent_rate, updates)
    return GramMuon(
        falling,
        rate_factors={"reverse_embeddings": settings.output_rate / settings.recurrent_rate},
        exclude_embeddings=False,
        exclude_layers=["embedding/embeddings"],
        adam_lr_ratio=settings.input_rate / settings.recurrent_rate,
        weight_decay=None,
        adam_weight_decay=None,
    )


def sweep(
    ids: np.ndarray,
    betas: Sequence[float],
    taus: Sequence[float],
    seeds: int,
    settings: SubspaceSettings,
    runs: list[dict[str, Any]],
    report: Callable[[dict[str, Any]], None],
    tau_of_betas: float = 10.0,
) -> dict[str, Any]:
    """Both panels of the figure: distances over beta at one temperature, and over temperatures at beta 1.

    Args:
        ids: Training text `[N]`.
        betas: Shares of the augmented loss.
        taus: Temperatures.
        seeds: Runs a point, with the seeds 1 to this.
        settings: Model and training.
        runs: What an earlier sweep of these settings measured already; new runs are appended.
        report: Called with a run's figures when it ends.
        tau_of_betas: Temperature of the sweep over beta.

    Returns:
        The mean distances `by_beta` and `by_tau`.
    """
    points = dict.fromkeys([*((beta, tau_of_betas) for beta in betas), *((1.0, tau) for tau in taus)])
    done = {(run["beta"], run["tau"], run["seed"]) for run in runs}
    for seed in range(1, seeds + 1):
        for beta, tau in points:
            if (beta, tau, seed) not in done:
                runs.append(measure_distance(ids, beta, tau, seed, settings))
                report(runs[-1])

    def mean(beta: float, tau: float) -> float:
        chosen = [r["distance"] for r in runs if (r["beta"], r["tau"]) == (beta, tau) and r["seed"] <= seeds]
        return float(np.mean(chosen))

    return {
        "by_beta": {"tau": tau_of_betas, "beta": list(betas), "distance": [mean(beta, tau_of_betas) for beta in betas]},
        "by_tau": {"beta": 1.0, "tau": list(taus), "distance": [mean(1.0, tau) for tau in taus]},
    }
