"""TensorBoard logs of a run: scalars, samples, plots and embeddings."""

import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from keras_tying.files import write_atomically
from keras_tying.training.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALARS = {
    "perplexity": "perplexity/train",
    "val_perplexity": "perplexity/validation",
    "val_bleu": "BLEU/validation",
    "pair_loss": "loss per pair",
    "learning_rate": "training/learning rate",
    "gradient_norm": "training/gradient norm",
    "words_per_second": "training/words per second",
}


class TensorBoardLog(keras.callbacks.Callback):
    """Scalars, a sample and a plot of each epoch, and the embeddings with their words.

    Writes event files without TensorFlow, on every backend.

    Args:
        folder: The log folder.
        task: Gives sample, plot and words.
    """

    def __init__(self, folder: Path, task: Task):
        super().__init__()
        self.folder = folder
        self.task = task
        self._writer: EventFileWriter | None = None

    def on_epoch_end(self, epoch, logs=None):
        if self._writer is None:  # one file for all epochs of this process
            self._writer = EventFileWriter(str(self.folder))
        for summary in self._summaries(logs):
            self._writer.add_event(Event(wall_time=time.time(), step=epoch + 1, summary=summary))
        self._writer.flush()
        write_projector(self.folder, keras.ops.convert_to_numpy(self.model.embedding.embeddings), self.task.words)

    def _summaries(self, logs) -> Iterator[Summary]:
        for name, tag in SCALARS.items():
            if name in logs:
                yield scalar_pb(tag, float(logs[name]))
        title, text = self.task.sample(self.model)
        if title:
            yield text_pb(title, text)
        plot = self.task.plot(self.model)
        if plot is not None:
            yield plot_pb("plot", plot)


def plot_pb(tag: str, figure: "Figure") -> Summary:
    """A plot as TensorBoard's image plugin takes it: width, height and the PNG."""
    file = BytesIO()
    figure.savefig(file, format="png")
    width, height = (str(int(size)).encode() for size in figure.bbox.size)
    value = Summary.Value(tag=tag, metadata=create_summary_metadata("", "", converted_to_tensor=True))
    value.tensor.CopyFrom(make_tensor_proto(np.array([width, height, file.getvalue()], object)))
    return Summary(value=[value])


def write_projector(folder: Path, embeddings: np.ndarray, words: list[str]) -> None:
    """Writes embeddings `[V, H]` and their words in the format of TensorBoard's projector."""
    write_atomically(folder / "embedding.bytes", embeddings.astype("<f4").tobytes())
    write_atomically(folder / "words.tsv", ("\n".join(words) + "\n").encode())
    config = ProjectorConfig()
    entry = config.embeddings.add()
    entry.tensor_name = "embedding"
    entry.tensor_path = "embedding.bytes"
    entry.tensor_shape.extend(embeddings.shape)
    entry.metadata_path = "words.tsv"
    write_atomically(folder / "projector_config.pbtxt", str(config).encode())
