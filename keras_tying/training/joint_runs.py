"""A joint language model's run: its settings, its texts, its figures."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from keras_tying.data import Bitext, JointSamples, Vocabulary
from keras_tying.tables import Table
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.joint_language_model import JointSchedule, sample_perplexity
from keras_tying.training.runs import environment


class JointData(Table):
    tokenization: Literal["spaces", "plain"] = "spaces"
    """How lines become tokens."""
    source_vocabulary_size: int = Field(default=10_000, ge=3)
    """Cap on the source word types."""
    target_vocabulary_size: int = Field(default=10_000, ge=3)
    sentences: int | None = Field(default=None, ge=1)
    """Sentence pairs to train on, from the start of the text; `None` takes all."""


class JointFiles(Table):
    """Files of one split."""

    source: str
    target: str
    alignment: str | None = None

    def bitext(self, tokenization: str, sentences: int | None = None) -> Bitext:
        alignment = None if self.alignment is None else Path(self.alignment)
        return Bitext(Path(self.source), Path(self.target), alignment, tokenization, sentences)


class JointRunSettings(Table):
    """Everything that decided a run: `config.toml` of its folder."""

    model: str
    """Name in the zoo."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the zoo's function, besides the sizes of the vocabularies."""
    data: JointData = JointData()
    schedule: JointSchedule = JointSchedule()
    seed: int
    command: str
    files: dict[str, JointFiles]
    """Of each split."""
    source_vocabulary_sha256: str
    target_vocabulary_sha256: str
    bootstrap: str | None = None
    """Folder of the run whose word vectors it starts from."""
    source_vectors: str | None = None
    """File of word vectors it starts from."""
    target_vectors: str | None = None

    def texts(self) -> dict[str, Bitext]:
        """The text of each split; only training is cut to `data.sentences`."""
        return {
            split: files.bitext(self.data.tokenization, self.data.sentences if split == "train" else None)
            for split, files in self.files.items()
        }


def vocabularies(train: Bitext, data: JointData) -> tuple[Vocabulary, Vocabulary]:
    """Source and target words of a training text."""
    return (
        Vocabulary.from_tokens(train.tokens("source"), data.source_vocabulary_size),
        Vocabulary.from_tokens(train.tokens("target"), data.target_vocabulary_size),
    )


def joint_results(
    model, samples: dict[str, JointSamples], settings: JointRunSettings, progress: Checkpoints
) -> dict[str, Any]:
    """What a trained run gave: `results.json` of its folder. The perplexities are the best epoch's."""
    epochs = len(progress.history)
    return {
        **{f"{split}_perplexity": sample_perplexity(model, each) for split, each in samples.items()},
        "parameters": model.count_params(),
        "seed": settings.seed,
        "epochs": epochs,
        "wall_time_seconds": round(progress.seconds, 1),
        "samples_per_second": round(len(samples["train"]) * epochs / progress.seconds, 1),
        **environment(),
        "command": settings.command,
        "history": progress.history,
    }
