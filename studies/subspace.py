"""Distance between the spaces of the output and the input embedding under the augmented loss: the experiment."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_tying.data import windows
from keras_tying.losses import AugmentedLoss
from keras_tying.metrics import subspace_distance
from keras_tying.tasks.language_model import WindowBatches
from keras_tying.training import Progress, environment
from keras_tying.training.callbacks import ResetState, StopOnNaN
from keras_tying.zoo import recurrent_language_model
from studies.muon import GramMuon

TAU_OF_BETAS = 10.0
"""Temperature of the sweep over beta."""


@dataclass(frozen=True)
class SubspaceSettings:
    """The untied model of the experiment and its training, which has no regularization."""

    words: int = 20_000
    """Length of the text, a contiguous piece of the training text drawn by seed."""
    units: int = 300
    batch_size: int = 20
    steps: int = 35
    output_rate: float = 0.12
    """Initial learning rate of Muon for the output embedding; every rate falls to 0 along a cosine."""
    recurrent_rate: float = 0.01
    """Initial learning rate of Muon for the kernels of the LSTM."""
    input_rate: float = 0.001
    """Initial learning rate of Adam for the input embedding and the biases."""
    epochs: int = 100
    initializer_range: float = 0.1


def sweep(
    ids: np.ndarray,
    betas: Sequence[float],
    taus: Sequence[float],
    seeds: int,
    settings: SubspaceSettings,
    runs: list[dict[str, Any]],
    report: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measures the distance by beta at temperature 10, and by temperature at beta 1.

    Args:
        ids: Training text `[N]`.
        betas: Shares of the augmented loss.
        taus: Temperatures.
        seeds: Number of runs per point; their seeds are 1 to this.
        settings: Model and training.
        runs: Runs of an earlier sweep with these settings, which are not repeated; new runs are appended.
        report: Called with the result of a run when it ends.

    Returns:
        The mean distances `by_beta` and `by_tau`.
    """
    points = dict.fromkeys([*((beta, TAU_OF_BETAS) for beta in betas), *((1.0, tau) for tau in taus)])
    done = {(run["beta"], run["tau"], run["seed"]) for run in runs}
    for seed in range(1, seeds + 1):
        for beta, tau in points:
            if (beta, tau, seed) not in done:
                runs.append(measure_distance(ids, beta, tau, seed, settings))
                report(runs[-1])

    def mean(beta: float, tau: float) -> float:
        return float(np.mean([r["distance"] for r in runs if (r["beta"], r["tau"]) == (beta, tau)]))

    return {
        "by_beta": {"tau": TAU_OF_BETAS, "beta": list(betas), "distance": [mean(beta, TAU_OF_BETAS) for beta in betas]},
        "by_tau": {"beta": 1.0, "tau": list(taus), "distance": [mean(1.0, tau) for tau in taus]},
    }


def measure_distance(ids: np.ndarray, beta: float, tau: float, seed: int, settings: SubspaceSettings) -> dict[str, Any]:
    """Trains an untied model on the loss of equation 6.1 and measures the distance between its two embeddings.

    Rows of the input embedding have length 1 and there is no output bias, as in the theory.

    Args:
        ids: Training text `[N]`.
        beta: Share of the augmented loss, in [0, 1].
        tau: Its temperature.
        seed: Of the weights and of the piece of text.
        settings: Model and training.

    Returns:
        `beta`, `tau`, `seed`, `types` (size of the vocabulary), `distance`, the last epoch's `perplexity`, and time,
        device, commit and versions of the training.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, section 6.2.
    """
    text = draw_piece(ids, settings.words, seed)
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
    loss = AugmentedLoss.proportional(beta, tau, types, reduction="mean")
    optimizer = make_optimizer(settings, settings.epochs * cut.batches)
    model.compile(optimizer, loss, steps_per_execution=cut.batches)
    start = time.monotonic()
    history = model.fit(
        **WindowBatches(cut).feed(model),
        epochs=settings.epochs,
        shuffle=False,
        callbacks=[ResetState(Progress()), StopOnNaN()],
        verbose=0,
    )
    seconds, place = time.monotonic() - start, environment()
    matrices = map(keras.ops.convert_to_numpy, model.embedding_matrices().values())
    distance, perplexity = subspace_distance(*matrices), history.history["perplexity"][-1]
    return {
        **{"beta": beta, "tau": tau, "seed": seed, "types": types, "distance": distance, "perplexity": perplexity},
        "wall_time_seconds": round(seconds, 1),
        **{name: place[name] for name in ("device", "commit", "versions")},
    }


def draw_piece(ids: np.ndarray, words: int, seed: int) -> np.ndarray:
    """Draws a contiguous piece of a text and numbers its word types from 0: `int32 [words]`.

    Raises:
        ValueError: If the text is shorter.
    """
    if len(ids) < words:
        raise ValueError(f"Expected a text of at least {words:,} words. Received: {len(ids):,}.")
    start = np.random.default_rng(seed).integers(len(ids) - words + 1)
    _, numbered = np.unique(ids[start : start + words], return_inverse=True)
    return numbered.astype(np.int32)


def make_optimizer(settings: SubspaceSettings, updates: int) -> keras.optimizers.Optimizer:
    """Muon for all matrices except the input embedding, whose rows have length 1.

    The singular values of Muon's updates are nearly equal. Adam and SGD leave the output embedding nearly unchanged in
    directions in which hidden states vary little, and the distance would measure its initial values. The output
    embedding has the highest rate, since it must follow the hidden states and the input embedding. Weights do not
    decay, unlike in Keras's default.
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
