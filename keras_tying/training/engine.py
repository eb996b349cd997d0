"""The training engine: runs any task, from an empty folder or from its newest checkpoint."""

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import keras

from keras_tying import backend
from keras_tying.backend.keras_internals.optimizers import without_loss_scale
from keras_tying.backend.replicas import build_optimizer, rows_per_replica
from keras_tying.distribution import Distribution
from keras_tying.errors import TrainingDiverged, TrainingInterrupted
from keras_tying.files import replacing
from keras_tying.optimizers import ClippedAdam, ClippedSGD, use_averaged_weights
from keras_tying.tables import json_values
from keras_tying.training.batches import BlockBatches, EpochBatches
from keras_tying.training.callbacks import (
    LogGradientNorm,
    LogLearningRate,
    ResetState,
    StartAveraging,
    StopOnNaN,
    Validation,
)
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.console import ProgressBar
from keras_tying.training.environments import environment, training_record
from keras_tying.training.optimisation import averaging_starts, changes_by_epoch, learning_rate, length, make_optimizer
from keras_tying.training.progress import Progress, read_progress
from keras_tying.training.runs import Run
from keras_tying.training.saving import BestEpoch, SaveCheckpoints
from keras_tying.training.task import SCRIPTS, Task, command_of
from keras_tying.training.tensorboard import TensorBoardLog, write_embeddings, write_hyper_parameters, write_words

STEPS_PER_EXECUTION = 20
"""Training steps per compiled call. Losses are read between calls."""


def create_run(task: Task, folder: str | Path) -> Run:
    """Makes the folder of a new run: its settings and the vocabularies of its training text.

    The text is loaded, and a model is built and compiled, before anything is written. Clears Keras's session.

    Raises:
        FileExistsError: If the folder holds anything.
        ValueError: If text and recipe do not go together, or training cannot begin with them. Nothing is written then.
    """
    (run,) = create_runs({Path(folder): task})
    return run


def create_runs(tasks: Mapping[Path, Task], replicas: int = 1) -> list[Run]:
    """Makes several new runs as `create_run` does: all of them, or if one is refused, none.

    Args:
        tasks: The task of each run, by its folder.
        replicas: Number of replicas that will train them.
    """
    for folder in tasks:
        Run(folder).check_free()
    for task in tasks.values():
        task.vocabularies = task.learn_vocabularies()
        task.open_text()
        check_trainable(task, replicas)
    runs = Run.create_together({folder: (task.settings, task.write_files) for folder, task in tasks.items()})
    for run, task in zip(runs, tasks.values(), strict=True):
        task.settings = run.settings()
    return runs


def check_trainable(task: Task, replicas: int) -> None:
    """Builds and compiles a model, which is not trained, for the errors of settings that do not go together.

    Raises:
        ValueError: If training cannot begin.
    """
    o = task.recipe.optimisation
    needing = {
        "patience": o.patience,
        "halve_when_worse": o.halve_when_worse,
        "averaging": o.averaging == "non_monotonic" and o.averaging,
    }
    for name, value in needing.items():
        if value and "val_perplexity" not in task.validation_metrics:
            raise ValueError(
                f"optimisation.{name} needs a validation perplexity, which {SCRIPTS[task.name]} does not measure. "
                f"Received: {name}={value!r}. Leave it out."
            )
    batches = compile_model(task, build_model(task))
    if isinstance(batches, BlockBatches):
        rows_per_replica(batches.batch_size, replicas)


def build_model(task: Task, distribution: Distribution | None = None) -> keras.Model:
    """A new model of the task, the same in every process and however many were built before."""
    keras.utils.clear_session()  # names of layers are counted; the order of operations depends on them
    keras.config.set_dtype_policy(task.settings.precision)
    keras.utils.set_random_seed(task.settings.seed)
    with (distribution or Distribution()).scope():
        return task.build_model()


def compile_model(task: Task, model: keras.Model) -> EpochBatches:
    """Compiles a model as the task's recipe says. Returns its training batches."""
    optimisation = task.recipe.optimisation
    batches = task.batches(model)
    model.compile(
        make_optimizer(optimisation, batches.total),
        task.loss(),
        steps_per_execution=steps_per_execution(batches),
    )
    return batches


def train(
    task: Task,
    run: Run,
    distribution: Distribution | None = None,
    checkpoint_minutes: float = 5.0,
    from_scratch: bool = False,
) -> Progress:
    """Trains the model of a run to its end, measures, saves and exports it.

    Interrupted at any moment and called again, it ends with the weights of an uninterrupted run, on a CPU bit for bit.
    Clears Keras's session, and leaves the precision of the run as the dtype policy of the process.

    Args:
        task: The task of the run, with its vocabularies.
        run: The run. Training continues from its newest checkpoint.
        distribution: Where to train. Default: on one device.
        checkpoint_minutes: Time between checkpoints within an epoch.
        from_scratch: Start again where all checkpoints of a run are lost.

    Returns:
        The course of the training.

    Raises:
        ValueError: If the text is too short, does not divide among the replicas, or is not the one that the run was
            made with.
        FileNotFoundError: If training has begun and no checkpoint is left, without `from_scratch`.
        BlockingIOError: If another process trains the run.
        TrainingDiverged: If the loss, a perplexity or a weight becomes NaN or infinite.
        TrainingInterrupted: If SIGINT, SIGTERM or SIGHUP requested a stop; a checkpoint is written.
    """
    distribution = distribution or Distribution()
    with run.locked() if distribution.is_chief else nullcontext():
        task.open_text()
        model = build_model(task, distribution)
        if distribution.is_chief:
            print(f"{task.recipe.title}\nrun         {run.folder}\n{task.describe(model)}", flush=True)
        progress = fit(task, model, run, distribution, checkpoint_minutes, from_scratch)
        if distribution.is_chief:
            finish(task, model, run, progress)
        distribution.meet()
        return progress


def fit(
    task: Task,
    model: keras.Model,
    run: Run,
    distribution: Distribution | None = None,
    checkpoint_minutes: float = 5.0,
    from_scratch: bool = False,
) -> Progress:
    """Trains a new model by the task's recipe, from the run's newest checkpoint if it has one.

    The model ends as the last epoch left it, or as the best one did if the task keeps the best; if the optimizer has
    averaged weights, with them. For arguments and errors see `train`.
    """
    distribution = distribution or Distribution()
    optimisation = task.recipe.optimisation
    batches = compile_model(task, model)
    epochs, left_out = length(optimisation, batches.total)
    progress = Progress()
    best = None if task.best_metric is None else BestEpoch(run.best, task.best_metric)
    checkpoints = SaveCheckpoints(run, minutes=checkpoint_minutes, batches=batches.total, progress=progress, best=best)
    restored = checkpoints.restore(model)
    _check_start(run, progress if restored else None, from_scratch)
    if not progress.finished(epochs, optimisation.patience) or not progress.environments:
        progress.train_in(environment() | distribution.description)
    if best is not None and progress.history:
        best.saved(progress.history)  # which the run ends with, unless a later one is better
    callbacks = [*_before_logs(task, model, progress)]
    if distribution.is_chief:
        callbacks += [ProgressBar(epochs, batches, progress), TensorBoardLog(run.tensorboard, task)]
    callbacks.append(checkpoints)
    _fit_epochs(model, batches, (epochs, left_out), optimisation.patience, progress, callbacks, checkpoints)
    if not progress.history:  # of no epochs
        build_optimizer(model)
        if not restored:
            checkpoints.save_start(model)
    elif best is None:
        use_averaged_weights(model)
    else:
        best.restore(model, progress.history)
    return progress


def check_continues(task: Task, run: Run, from_scratch: bool = False) -> None:
    """Checks that `train` finds what a run continues from, or with `from_scratch` that it is lost.

    Raises:
        FileNotFoundError: If training has begun and no checkpoint is left, or the best epoch is lost.
        ValueError: If a checkpoint is left, with `from_scratch`.
    """
    progress = newest_progress(run)
    _check_start(run, progress, from_scratch)
    if task.best_metric is not None and progress is not None and progress.history:
        BestEpoch(run.best, task.best_metric).saved(progress.history)


def newest_progress(run: Run) -> Progress | None:
    """Where the newest intact checkpoint of a run stands; `None` if there is none. No folder is made."""
    if not run.checkpoints.is_dir():
        return None
    store = CheckpointStore(run.checkpoints)
    newest = store.newest()
    return read_progress(newest.progress, str(store.index)) if newest else None


def _check_start(run: Run, progress: Progress | None, from_scratch: bool) -> None:
    """Raises the errors of `check_continues` about the newest checkpoint, whose progress is given if there is one."""
    if run.begun and progress is None and not from_scratch:
        raise FileNotFoundError(
            f"{run.folder} has begun to train, but no intact checkpoint is left in {run.checkpoints}. Restore one, or "
            "start again from zero with --from-scratch."
        )
    if progress is not None and from_scratch:
        place = f"within epoch {progress.epoch + 1}" if progress.batch else f"the end of epoch {progress.epoch}"
        raise ValueError(
            f"--from-scratch is for runs whose checkpoints are lost. Received: {run.folder}, which has one from "
            f"{place}. Leave the option out, or train anew in another folder."
        )


def steps_per_execution(batches: EpochBatches) -> int:
    """Training steps per call, which a backend can compile into one if all batches have shapes that it allows."""
    return STEPS_PER_EXECUTION if backend.COMPILES_STEPS and (batches.one_shape or backend.ANY_SHAPE) else 1


def _before_logs(task: Task, model: keras.Model, progress: Progress) -> list[keras.callbacks.Callback]:
    """Callbacks that act on the model or add metrics; those that show and save metrics come after them."""
    optimisation = task.recipe.optimisation
    validation = Validation(lambda: task.validate(model), task.validation_metrics)
    callbacks = [StopOnNaN(), *([validation] if task.validation_metrics else []), LogLearningRate()]
    if hasattr(model, "reset_state"):
        callbacks.append(ResetState(progress))
    if changes_by_epoch(optimisation):
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda *_: learning_rate(optimisation, progress)))
    if optimisation.averaging == "non_monotonic":
        epochs = optimisation.non_monotonic_epochs
        callbacks.append(StartAveraging(lambda perplexities: averaging_starts(perplexities, epochs), progress))
    if isinstance(without_loss_scale(model.optimizer), (ClippedSGD, ClippedAdam)):
        callbacks.append(LogGradientNorm())
    return callbacks


def _fit_epochs(
    model: keras.Model,
    batches: EpochBatches,
    to_train: tuple[int, int],
    patience: int | None,
    progress: Progress,
    callbacks: list[keras.callbacks.Callback],
    checkpoints: SaveCheckpoints,
) -> None:
    """Calls Keras's `fit` for each epoch that is left, the first from the batch where the run stands.

    The last epoch leaves out its first batches, if `to_train` says so: it begins as if it were resumed after them.
    """
    epochs, left_out = to_train
    with checkpoints.stop_on_signals():
        while not progress.finished(epochs, patience):
            if progress.epoch == epochs - 1:
                progress.batch = max(progress.batch, left_out)
            batches.begin(progress.epoch, progress.batch)
            try:
                model.fit(
                    **batches.feed(model),
                    shuffle=False,
                    initial_epoch=progress.epoch,
                    epochs=progress.epoch + 1,
                    callbacks=callbacks,
                    verbose=0,
                )
            except (TrainingInterrupted, TrainingDiverged):
                raise
            except Exception:
                if batches.failure is None:
                    raise
                raise batches.failure from None


def finish(task: Task, model: keras.Model, run: Run, progress: Progress) -> None:
    """Saves and exports a trained model, measures it and prints where everything is."""
    with replacing(run.model) as path:
        model.save(path)
    places = {
        "SavedModel": str(run.saved_model),
        "TensorBoard": f"tensorboard --logdir {shlex.quote(str(run.tensorboard))}",
    }
    if backend.WRITES_SAVED_MODELS:
        _write_saved_model(task, model, run)
    else:
        places["SavedModel"] = f"not written, it needs TensorFlow: {export_command(task, run)}"
    artifacts = task.write_artifacts(model, run)
    results = {
        **task.last_metrics(progress),
        **task.measure(model),
        "parameters": model.count_params(),
        **training_record(task.settings, progress, task.unit, task.epoch_size),
    }
    with run.changing_results():
        try:
            earlier = run.read_results()
        except ValueError:  # they are damaged, and written anew here
            earlier = {}
        no_epoch_trained = json_values(earlier.get("history")) == results["history"]
        if no_epoch_trained:  # what `--evaluate` measured still holds
            results = earlier | results
        run.write_results(results)
    write_hyper_parameters(run.tensorboard, task.settings, model, results)
    if not progress.history:  # with the first epoch they were written
        write_words(run.tensorboard, task.word_frequencies(model))
    write_embeddings(run.tensorboard, model.embedding_matrices())
    if artifacts:
        places["also written"] = ", ".join(map(str, artifacts))
    places["everything"] = str(run.folder)
    print(f"{task.headline(results)}, {results['wall_time_seconds'] / 60:.1f} minutes")
    print("\n".join(f"{what:14}  {where}" for what, where in places.items()), flush=True)


def export(task: Task, run: Run, precision: str | None = None) -> None:
    """Writes the SavedModel of a trained run of any backend, by default in the precision of its training.

    Raises:
        ValueError: If the current backend is not TensorFlow, or a folder of the run is a link to another place.
        FileNotFoundError: If training has not ended.
        BlockingIOError: If another process trains the run.
    """
    if not backend.WRITES_SAVED_MODELS:
        raise ValueError(
            f"A SavedModel needs the TensorFlow backend: {export_command(task, run)} "
            f"Received: KERAS_BACKEND={backend.NAME}"
        )
    with run.locked():
        _write_saved_model(task, run.load_model(precision), run)


def _write_saved_model(task: Task, model: keras.Model, run: Run) -> None:
    from keras_tying.export import export_trained  # needs TensorFlow

    export_trained(task.trained(model), run.saved_model)


def export_command(task: Task, run: Run) -> str:
    """The command that writes the SavedModel of a trained run of any backend."""
    return f"KERAS_BACKEND=tensorflow {command_of(task.name)} --export {shlex.quote(str(run.folder))}"
