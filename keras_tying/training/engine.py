"""The training engine: runs any task, from an empty folder or from its newest checkpoint."""

from pathlib import Path
from typing import Any

import keras

from keras_tying import backend
from keras_tying.distribution import Distribution
from keras_tying.optimizers import ClippedSGD
from keras_tying.training.batches import EpochBatches
from keras_tying.training.callbacks import (
    KeepBest,
    LogGradientNorm,
    LogLearningRate,
    ResetState,
    SaveCheckpoints,
    StopOnNaN,
    Validation,
)
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.console import ProgressBar
from keras_tying.training.optimisation import changes_by_epoch, learning_rate, make_optimizer
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, training_record
from keras_tying.training.task import Task
from keras_tying.training.tensorboard import TensorBoardLog

STEPS_PER_EXECUTION = 20
"""Training steps per compiled call. Losses are read between calls."""


def create_run(task: Task, folder: str | Path) -> Run:
    """Makes the folder of a new run: its settings and the vocabularies of its training text.

    Raises:
        FileExistsError: If the folder holds anything.
        ValueError: If text and recipe do not go together. Nothing is written then.
    """
    Run(folder).check_free()
    task.vocabularies = task.learn_vocabularies()
    task.settings = task.settings.model_copy(
        update={"fingerprints": {file: each.sha256 for file, each in task.vocabularies.items()}}
    )

    def write(unfinished: Path) -> None:
        for file, vocabulary in task.vocabularies.items():
            vocabulary.save(unfinished / file)

    return Run.create(folder, task.settings, write)


def train(task: Task, run: Run, distribution: Distribution | None = None, checkpoint_minutes: float = 5.0) -> Progress:
    """Trains the model of a run to its end, measures, saves and exports it.

    Interrupted at any moment and called again, it ends with the weights of an uninterrupted run, bit for bit.

    Args:
        task: The task of the run, with its vocabularies.
        run: The run. Training continues from its newest checkpoint.
        distribution: Where to train. Default: on one device.
        checkpoint_minutes: Time between checkpoints within an epoch.

    Returns:
        The course of the training.

    Raises:
        ValueError: If the text is too short, or does not divide among the replicas.
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: If SIGINT or SIGTERM requested a stop; a checkpoint is written.
    """
    distribution = distribution or Distribution()
    task.load_text()
    keras.config.set_dtype_policy(task.settings.precision)
    keras.utils.set_random_seed(task.settings.seed)
    with distribution.scope():
        model = task.build_model()
    if distribution.is_chief:
        print(f"{task.recipe.title}\nrun         {run.folder}\n{task.describe(model)}", flush=True)
    progress = fit(task, model, run, distribution.is_chief, checkpoint_minutes)
    if distribution.is_chief:
        finish(task, model, run, progress, distribution)
    distribution.meet()
    return progress


def fit(task: Task, model: keras.Model, run: Run, is_chief: bool = True, checkpoint_minutes: float = 5.0) -> Progress:
    """Trains a new model by the task's recipe, from the run's newest checkpoint if it has one.

    The model ends as the last epoch left it, or as the best one did if the task keeps the best. For arguments and
    errors see `train`; `is_chief` says whether this process prints and writes logs.
    """
    optimisation = task.recipe.optimisation
    batches = task.batches(model)
    model.compile(
        make_optimizer(optimisation, optimisation.epochs * batches.total),
        task.loss(),
        steps_per_execution=steps_per_execution(batches),
    )
    progress = Progress()
    checkpoints = SaveCheckpoints(CheckpointStore(run.checkpoints), checkpoint_minutes, batches.total, progress)
    checkpoints.restore(model)
    best = None
    if task.best_metric is not None:
        best = KeepBest(CheckpointStore(run.best, keep=1), progress, task.best_metric)
    callbacks = [*_before_logs(task, model, progress)]
    if is_chief:
        callbacks += [ProgressBar(optimisation.epochs, batches, progress), TensorBoardLog(run.tensorboard, task)]
    callbacks += [*filter(None, [best]), checkpoints]
    _fit_epochs(model, batches, optimisation, progress, callbacks, checkpoints)
    if best is not None:
        best.restore(model)
    return progress


def steps_per_execution(batches: EpochBatches) -> int:
    """Training steps per call, which a backend can compile into one if all batches have shapes that it allows."""
    return STEPS_PER_EXECUTION if backend.COMPILES_STEPS and (batches.one_shape or backend.ANY_SHAPE) else 1


def _before_logs(task: Task, model: keras.Model, progress: Progress) -> list[keras.callbacks.Callback]:
    """Callbacks that act on the model or add metrics; those that show and save metrics come after them."""
    optimisation = task.recipe.optimisation
    callbacks = [StopOnNaN(), Validation(lambda: task.validate(model)), LogLearningRate()]
    if hasattr(model, "reset_state"):
        callbacks.append(ResetState(progress))
    if changes_by_epoch(optimisation):
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda *_: learning_rate(optimisation, progress)))
    if isinstance(getattr(model.optimizer, "inner_optimizer", model.optimizer), ClippedSGD):
        callbacks.append(LogGradientNorm())
    return callbacks


def _fit_epochs(
    model: keras.Model,
    batches: EpochBatches,
    optimisation: Any,
    progress: Progress,
    callbacks: list[keras.callbacks.Callback],
    checkpoints: SaveCheckpoints,
) -> None:
    """Calls Keras's `fit` for each epoch that is left, the first from the batch where the run stands."""
    with checkpoints.stop_on_signals():
        while not progress.finished(optimisation.epochs, optimisation.patience):
            batches.begin(progress.epoch, progress.batch)
            model.fit(
                **batches.feed(model),
                shuffle=False,
                initial_epoch=progress.epoch,
                epochs=progress.epoch + 1,
                callbacks=callbacks,
                verbose=0,
            )


def finish(task: Task, model: keras.Model, run: Run, progress: Progress, distribution: Distribution) -> None:
    """Saves and exports a trained model, measures it and prints where everything is."""
    model.save(run.model)
    places = {"SavedModel": str(run.saved_model), "TensorBoard": f"tensorboard --logdir {run.tensorboard}"}
    if backend.WRITES_SAVED_MODELS:
        task.export(model, run.saved_model)
    else:
        places["SavedModel"] = "not written: it needs KERAS_BACKEND=tensorflow"
    artifacts = task.write_artifacts(model, run)
    results = {
        **task.measure(model, progress),
        "parameters": model.count_params(),
        **training_record(task.settings, progress, task.unit, task.epoch_size),
        **distribution.description,
    }
    run.write_results(results)
    if artifacts:
        places["also written"] = ", ".join(map(str, artifacts))
    places["everything"] = str(run.folder)
    print(f"{task.headline(results)}, {results['wall_time_seconds'] / 60:.1f} minutes")
    print("\n".join(f"{what:14}  {where}" for what, where in places.items()), flush=True)
