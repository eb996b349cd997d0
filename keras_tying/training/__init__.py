"""Training: schedules, checkpoints, callbacks, run folders."""

from keras_tying.training.callbacks import TrainingDiverged
from keras_tying.training.checkpointing import Checkpoints, TrainingInterrupted
from keras_tying.training.command_line import (
    add_distribution_arguments,
    add_run_arguments,
    begin_run,
    distribution_of,
    run_command,
)
from keras_tying.training.distribution import Distribution, open_distribution
from keras_tying.training.evaluation import mc_perplexity, stream_perplexity
from keras_tying.training.feeding import feed
from keras_tying.training.language_model import Schedule, train_language_model
from keras_tying.training.runs import Run, environment, training_record
from keras_tying.training.skip_gram import SkipGramSettings, train_skip_gram
from keras_tying.training.window_batches import WindowBatches

__all__ = [
    "Checkpoints",
    "Distribution",
    "Run",
    "Schedule",
    "SkipGramSettings",
    "TrainingDiverged",
    "TrainingInterrupted",
    "WindowBatches",
    "add_distribution_arguments",
    "add_run_arguments",
    "begin_run",
    "distribution_of",
    "environment",
    "feed",
    "mc_perplexity",
    "open_distribution",
    "run_command",
    "stream_perplexity",
    "train_language_model",
    "train_skip_gram",
    "training_record",
]
