"""Existing runs and the arguments they are continued with: what may change, and what is refused."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from keras_tying.files import supersede, write_atomically
from keras_tying.tables import dump_table, validate_table
from keras_tying.training.engine import newest_progress
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, RunSettings, real_paths
from keras_tying.zoo.recipes import DECIDING
from keras_tying.zoo.records import check_recordable

OF_PREPARED_TEXT = (
    *("tokenization", "vocabulary_size", "minimum_count", "maximum_length"),
    *("source_vocabulary_size", "target_vocabulary_size", "sentences"),
)
"""Keys of `data` that a prepared text decides."""


def check_same_settings(run: Run, received: RunSettings) -> None:
    """Checks that a run was made with the settings that a command asks for.

    Raises:
        ValueError: If it was made with others, which the message names.
    """
    made, asked = (_deciding(settings) for settings in (run.settings(), received))
    if differences := _differences(made, asked):
        shown = "; ".join(f"{name} is {old!r}, received {new!r}" for name, old, new in differences)
        raise ValueError(
            f"{run.folder} was made with other settings: {shown}. Give it those it has, continue it with --resume, or "
            "choose another --run."
        )


def _deciding(settings: RunSettings) -> dict[str, Any]:
    """The settings that decide a run and that a command gives."""
    recipe = settings.recipe.model_dump(include=DECIDING)
    if settings.prepared:  # which decides them, and which runs from before did not note
        recipe["data"] = {name: value for name, value in recipe["data"].items() if name not in OF_PREPARED_TEXT}
    names = {"seed", "precision", "data_dir", "files", "prepared", "subwords", "initial_vectors", "start", "add_words"}
    return real_paths(settings.model_dump(include=names)) | recipe


def _differences(made: Any, asked: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """Names of the settings that differ, with both values."""
    if isinstance(made, dict) and isinstance(asked, dict):
        return [
            difference
            for key in dict.fromkeys([*made, *asked])
            for difference in _differences(made.get(key), asked.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if made == asked else [(name, made, asked)]


def check_can_be_recorded(settings: RunSettings) -> None:
    """Raises ValueError unless the results of a run will be those of its recipe in the zoo."""
    others = {name: value for name in ("start", "subwords", "initial_vectors") if (value := getattr(settings, name))}
    if others:
        received = ", ".join(f"{name}={value!r}" for name, value in others.items())
        raise ValueError(
            "The zoo has results of runs that start as their recipe says, from random weights and with subwords of "
            f"their own text. Run the recipe so, or leave out --record. Received: {received}"
        )
    check_recordable(settings.recipe_name, settings.recipe)


def change_epochs(runs: Sequence[Run], epochs: int, record: bool) -> None:
    """Makes runs train for another number of epochs. All are checked before any is changed.

    The results of a run that had ended are kept beside its later ones, as `results_after_20_epochs.json`. Others that
    were kept so are moved to the folder `superseded`.

    Args:
        runs: The runs.
        epochs: The new number.
        record: Whether their results will be written into the zoo.

    Raises:
        ValueError: If a run has trained more epochs, has stopped for good, or its learning rate depends on the number;
            with `record`, if its results would not be those of its recipe; or its results are damaged.
        BlockingIOError: If another process trains one of the runs.
    """
    with ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.locked())
        changed = [(run, _with_epochs(run, epochs)) for run in runs]
        ended = {run.folder: _epochs_of_results(run) for run in runs if run.results.exists()}
        if record:
            for _, settings in changed:
                check_can_be_recorded(settings)
        for run, settings in changed:
            if settings != run.settings() and run.folder in ended:  # first: a run with results counts as finished
                after = f"_after_{ended[run.folder]}_epochs"
                supersede(run.results.with_stem(run.results.stem + after), run.results.read_bytes())
                run.results.unlink()
            write_atomically(run.config, dump_table(settings).encode())


def _epochs_of_results(run: Run) -> int:
    epochs = run.read_results().get("epochs")
    if not isinstance(epochs, int):
        raise ValueError(
            f"{run.results} is damaged: expected a number of epochs, received {epochs!r}. Measure the run again with "
            f"--resume {run.folder}"
        )
    return epochs


def _with_epochs(run: Run, epochs: int) -> RunSettings:
    settings = run.settings()
    optimisation = settings.recipe.optimisation
    if epochs == optimisation.epochs:
        return settings
    progress = newest_progress(run) or Progress()
    if optimisation.final_learning_rate is not None:
        raise ValueError(
            f"The learning rate of {run.folder} falls over all of its {optimisation.epochs} epochs to "
            f"final_learning_rate, so their number cannot change. Received: --epochs {epochs}. Start a new run."
        )
    if updates := getattr(optimisation, "updates", None):  # a key of one task
        raise ValueError(
            f"{run.folder} trains for {updates:,} updates (optimisation.updates), so its epochs cannot change. "
            f"Received: --epochs {epochs}. Start a new run."
        )
    if epochs < progress.epoch or (epochs == progress.epoch and progress.batch):
        raise ValueError(f"{run.folder} has trained {progress.epoch} epochs already. Received: --epochs {epochs}")
    if progress.finished(epochs + 1, optimisation.patience):
        raise ValueError(
            f"{run.folder} has stopped after {progress.epoch} epochs, {optimisation.patience} of them without a better "
            f"validation perplexity (optimisation.patience). Received: --epochs {epochs}. Start a new run."
        )
    values = settings.model_dump(exclude_none=True)
    values["recipe"]["optimisation"]["epochs"] = epochs
    values["command"] = _command_with_epochs(settings.command, epochs)
    return validate_table(RunSettings, values, str(run.config))


def _command_with_epochs(command: str, epochs: int) -> str:
    """The command that makes a run of so many epochs at once.

    >>> _command_with_epochs("python train/lm.py --seed 1 --set 'optimisation.epochs= 2'", 3)
    "python train/lm.py --seed 1 --set 'optimisation.epochs= 3'"
    """
    changed, count = re.subn(r"(--epochs |optimisation\.epochs= *)[^\s']+", rf"\g<1>{epochs}", command)
    return changed if count else re.sub(r"--seed \d+", rf"\g<0> --epochs {epochs}", command)
