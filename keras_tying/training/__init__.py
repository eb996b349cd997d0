"""Training: the engine that runs any task, run folders, checkpoints."""

from keras_tying.distribution import Distribution, open_distribution
from keras_tying.errors import TrainingDiverged, TrainingInterrupted
from keras_tying.training.checkpoints import CheckpointStore
from keras_tying.training.engine import create_run, fit, train
from keras_tying.training.environments import environment, trained_in
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, RunSettings
from keras_tying.training.task import Task

__all__ = [
    "CheckpointStore",
    "Distribution",
    "Progress",
    "Run",
    "RunSettings",
    "Task",
    "TrainingDiverged",
    "TrainingInterrupted",
    "create_run",
    "environment",
    "fit",
    "open_distribution",
    "train",
    "trained_in",
]
