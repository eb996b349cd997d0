"""TensorBoard logs of a run: scalars, samples, plots, embeddings and hyper-parameters.

Nothing here imports TensorFlow. The `EventFileWriter` of tensorboard would, wherever it is installed.
"""

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from keras_tying.files import waiting_for, write_atomically
from keras_tying.optimizers import averaged_weights
from keras_tying.training.runs import RunSettings
from keras_tying.training.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

SCALARS = {
    "perplexity": ("train", "perplexity"),
    "val_perplexity": ("validation", "perplexity"),
    "val_bleu": ("validation", "BLEU"),
    "pair_loss": ("train", "loss per pair"),
    "learning_rate": ("train", "training/learning rate"),
    "gradient_norm": ("train", "training/gradient norm"),
    "words_per_second": ("train", "training/words per second"),
}
"""Folder and tag of each metric. TensorBoard draws metrics of one tag in one chart."""

FILE_VERSION = "brain.Event:2"
"""The format of event files."""
TSV_ESCAPES = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})
"""What stands for the characters that end a field or a line of a TSV file."""
RESULTS = ".results"
"""Ending of the event file with hyper-parameters and results."""


class TensorBoardLog(keras.callbacks.Callback):
    """Scalars, a sample and a plot of each epoch, and the embeddings with their words.

    Sample, plot and embeddings are those of the averaged weights if the optimizer has them, as validation metrics are.
    Scalars are in the folders `train` and `validation`, the rest is in the log folder itself. A resumed run continues
    all charts: what was logged of an epoch that is trained again is replaced.

    Args:
        folder: The log folder.
        task: Gives sample, plot and words.
    """

    def __init__(self, folder: Path, task: Task):
        super().__init__()
        self.folder = folder
        self.task = task
        self._files: dict[str, EventFile] = {}  # of this process, by folder

    def on_epoch_end(self, epoch, logs=None):
        waiting_for(self.folder.parent, self.folder.parent.stat)  # else it would be made anew while it is away
        if not self._files:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_words(self.folder, self.task.word_frequencies(self.model))
        with averaged_weights(self.model):
            for folder, summary in self._summaries(logs):
                if folder not in self._files:
                    self._files[folder] = EventFile(self.folder / folder, epoch + 1)
                self._files[folder].append(epoch + 1, summary)
            write_embeddings(self.folder, self.model.embedding_matrices())

    def _summaries(self, logs) -> Iterator[tuple[str, Summary]]:
        """What is logged of an epoch, with the folder that it belongs to."""
        for name, (folder, tag) in SCALARS.items():
            if name in logs:
                yield folder, scalar_pb(tag, float(logs[name]))
        if sample := self.task.sample(self.model):
            yield "", text_pb(*sample)
        try:
            plot = self.task.plot(self.model)
            summary = plot and plot_pb(*plot)
        except Exception as error:  # an epoch is worth more than its plot
            log.warning("There is no plot of this epoch: %s", error)
            return
        if summary:
            yield "", summary


class EventFile:
    """A new event file, named as tensorboard names them.

    Args:
        folder: Created if it does not exist.
        first_step: TensorBoard discards what earlier files in the folder hold of this step and of later ones.
    """

    def __init__(self, folder: Path, first_step: int):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / event_file_name(folder)
        self._size = 0
        start = SessionLog(status=SessionLog.START)
        self._append(Event(file_version=FILE_VERSION), Event(step=first_step, session_log=start))

    def append(self, step: int, summary: Summary) -> None:
        self._append(Event(step=step, summary=summary))

    def _append(self, *events: Event) -> None:
        content = encode_events(events)

        def append():
            with self.path.open("ab") as file:
                if file.tell() > self._size:
                    file.truncate(self._size)  # without what an attempt wrote that failed
                file.write(content)
                self._size = file.tell()

        waiting_for(self.path.parent, append)


def event_file_name(folder: Path) -> str:
    """The name of a new event file of this process. Names sort by time.

    It comes after those in the folder, also if another machine wrote them, whose clock was ahead.
    """
    times = [path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*")]
    seconds = max([int(time.time()), *(int(each) + 1 for each in times if each.isdecimal())])
    return f"events.out.tfevents.{seconds:010d}.{socket.gethostname()}.{os.getpid()}"


def encode_events(events: Iterable[Event]) -> bytes:
    """Events as the records of an event file."""
    file = BytesIO()
    records = RecordWriter(file)
    for event in events:
        event.wall_time = time.time()
        records.write(event.SerializeToString())
    return file.getvalue()


def plot_pb(tag: str, figure: "Figure") -> Summary:
    """A plot as TensorBoard's image plugin takes it: width, height and the PNG."""
    file = BytesIO()
    figure.savefig(file, format="png")
    width, height = (str(int(size)).encode() for size in figure.bbox.size)
    value = Summary.Value(tag=tag, metadata=create_summary_metadata("", "", converted_to_tensor=True))
    value.tensor.CopyFrom(make_tensor_proto(np.array([width, height, file.getvalue()], object)))
    return Summary(value=[value])


def write_embeddings(folder: Path, matrices: Mapping[str, Any]) -> None:
    """Writes embeddings `[V, H]` in the format of TensorBoard's projector, beside the words of `write_words`.

    Args:
        folder: The log folder.
        matrices: The embeddings by role.
    """
    config = ProjectorConfig()
    for role, matrix in matrices.items():
        values = keras.ops.convert_to_numpy(matrix).astype("<f4")
        entry = config.embeddings.add()
        entry.tensor_name = f"{role} embedding"
        entry.tensor_path = f"{role}_embedding.bytes"
        entry.tensor_shape.extend(values.shape)
        entry.metadata_path = words_file(role)
        _write(folder / entry.tensor_path, values.tobytes())
    _write(folder / "projector_config.pbtxt", str(config).encode())


def write_words(folder: Path, frequencies: Mapping[str, Mapping[str, int]]) -> None:
    """Writes the words of each embedding with their frequencies, which the projector shows beside the vectors.

    Args:
        folder: The log folder.
        frequencies: For each role the number of occurrences of each word, in order of ids.
    """
    for role, counts in frequencies.items():
        lines = (f"{word.translate(TSV_ESCAPES)}\t{count}\n" for word, count in counts.items())
        _write(folder / words_file(role), "".join(["word\tfrequency\n", *lines]).encode())


def _write(path: Path, content: bytes) -> None:
    """Writes a file atomically, and waits for its folder while that is away."""
    waiting_for(path.parent, lambda: write_atomically(path, content))


def words_file(role: str) -> str:
    """Name of the file with the words of an embedding."""
    return f"{role}_words.tsv"


def write_hyper_parameters(folder: Path, settings: RunSettings, model: keras.Model, results: Mapping[str, Any]) -> None:
    """Writes hyper-parameters and results for TensorBoard's HParams plugin. Those of an earlier end are removed.

    Args:
        folder: The log folder.
        settings: Of the run.
        model: The trained model.
        results: The contents of `results.json`. Its floats are the metrics, tagged `final/NAME`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started = time.time() - results["wall_time_seconds"]
    parameters = hyper_parameters(settings, model)
    summaries = [hparams_pb(parameters, trial_id="", start_time_secs=started)]  # a run is named by its folder
    summaries += [scalar_pb(f"final/{name}", value) for name, value in results.items() if isinstance(value, float)]
    events = [Event(step=results["epochs"], summary=summary) for summary in summaries]
    path = folder / f"{event_file_name(folder)}{RESULTS}"
    write_atomically(path, encode_events([Event(file_version=FILE_VERSION), *events]))
    for earlier in folder.glob(f"*{RESULTS}"):
        if earlier != path:
            earlier.unlink()


def hyper_parameters(settings: RunSettings, model: keras.Model) -> dict[str, bool | int | float | str]:
    """What decides a run, under the keys that `--set` takes, and the number of parameters."""
    values: dict[str, Any] = {"recipe": settings.recipe_name, "seed": settings.seed, "precision": settings.precision}
    tables = settings.recipe.model_dump(include={"model", "data", "loss", "optimisation"}, exclude_none=True)
    for table, entries in tables.items():
        arguments = entries.pop("arguments", {})
        values |= {f"{table}.{key}": value for key, value in (entries | arguments).items()}
    values |= {f"model.{name}": getattr(model, name) for name in ("tied", "tying") if hasattr(model, name)}
    values["parameters"] = model.count_params()
    return {name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in values.items()}
