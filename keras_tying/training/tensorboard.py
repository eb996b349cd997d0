"""What TensorBoard shows of a run."""

import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

SCALARS = {
    "perplexity": "perplexity/train",
    "val_perplexity": "perplexity/validation",
    "val_bleu": "BLEU/validation",
    "pair_loss": "loss of a pair",
    "learning_rate": "training/learning rate",
    "gradient_norm": "training/gradient norm",
    "words_per_second": "training/words a second",
}


class TensorBoardLog(keras.callbacks.Callback):
    """Scalars and a text of each epoch, and the embeddings with their words.

    Writes event files without TensorFlow, so it serves every backend.

    Args:
        folder: The log folder.
        words: The vocabulary, in order of ids.
        sample: Returns a text that shows what the model has learned, called after each epoch.
        sample_title: What that text is.
        picture: Optional: draws what the model has learned, called after each epoch.
    """

    def __init__(
        self,
        folder: Path,
        words: list[str],
        sample: Callable[[], str],
        sample_title: str = "generated text",
        picture: Callable[[], Figure] | None = None,
    ):
        super().__init__()
        self.folder = folder
        self.words = words
        self.sample = sample
        self.sample_title = sample_title
        self.picture = picture

    def on_train_begin(self, logs=None):
        self._writer = EventFileWriter(str(self.folder))

    def on_epoch_end(self, epoch, logs=None):
        for name, tag in SCALARS.items():
            if name in logs:
                self._write(epoch + 1, scalar_pb(tag, float(logs[name])))
        self._write(epoch + 1, text_pb(self.sample_title, self.sample()))
        if self.picture is not None:
            self._write(epoch + 1, picture_pb("picture", self.picture()))
        self._writer.flush()
        write_projector(self.folder, keras.ops.convert_to_numpy(self.model.embedding.embeddings), self.words)

    def on_train_end(self, logs=None):
        self._writer.close()

    def _write(self, step: int, summary) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))


def picture_pb(tag: str, figure: Figure) -> Summary:
    """A figure as TensorBoard's image plugin takes it: width, height and the PNG."""
    file = BytesIO()
    figure.savefig(file, format="png")
    width, height = (str(int(size)).encode() for size in figure.bbox.size)
    value = Summary.Value(tag=tag, metadata=create_summary_metadata("", "", converted_to_tensor=True))
    value.tensor.CopyFrom(make_tensor_proto(np.array([width, height, file.getvalue()], object)))
    return Summary(value=[value])


def write_projector(folder: Path, embeddings: np.ndarray, words: list[str]) -> None:
    """Writes embeddings `[V, H]` and their words in the files TensorBoard's projector reads."""
    embeddings.astype("<f4").tofile(folder / "embedding.bytes")
    (folder / "words.tsv").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = ProjectorConfig()
    entry = config.embeddings.add()
    entry.tensor_name = "embedding"
    entry.tensor_path = "embedding.bytes"
    entry.tensor_shape.extend(embeddings.shape)
    entry.metadata_path = "words.tsv"
    (folder / "projector_config.pbtxt").write_text(str(config), encoding="utf-8")
