"""Runs of joint language models: settings, texts, figures."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from keras_tying.data import Bitext, JointSamples, Vocabulary, align, vectors_for
from keras_tying.tables import Table, dump_table, load_table
from keras_tying.training.checkpointing import Checkpoints
from keras_tying.training.joint_language_model import JointSchedule, sample_perplexity
from keras_tying.training.runs import Run, training_record
from keras_tying.zoo.recipes import Precision


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
    precision: Precision = "float32"
    """Of computation; variables stay float32."""

    def open_vocabularies(self, run: Run) -> tuple[Vocabulary, Vocabulary]:
        """Source and target words in the run's folder; raises as `Run.open_vocabulary` does."""
        return (
            run.open_vocabulary(self.source_vocabulary_sha256, run.source_vocabulary),
            run.open_vocabulary(self.target_vocabulary_sha256),
        )

    def bootstrap_model(self, model, source: Vocabulary, target: Vocabulary) -> None:
        """Gives a `JointLanguageModel` the word vectors it starts from, if there are any."""
        if self.bootstrap:
            model.bootstrap(**Run.open(self.bootstrap).load_model().word_vectors)
        if self.source_vectors:
            model.bootstrap(source=vectors_for(source, self.source_vectors))
        if self.target_vectors:
            model.bootstrap(target=vectors_for(target, self.target_vectors))


def texts(files: dict[str, JointFiles], data: JointData) -> dict[str, Bitext]:
    """The text of each split; only training is cut to `data.sentences`."""
    return {
        split: each.bitext(data.tokenization, data.sentences if split == "train" else None)
        for split, each in files.items()
    }


def align_files(files: dict[str, JointFiles], tokenization: str, folder: Path) -> dict[str, JointFiles]:
    """Aligns all splits together, whole, into files in `folder`; raises as `keras_tying.data.align` does."""
    found = align([each.bitext(tokenization) for each in files.values()], folder)
    return {
        split: each.model_copy(update={"alignment": str(text.alignment)})
        for (split, each), text in zip(files.items(), found, strict=True)
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
    return {
        **{f"{split}_perplexity": sample_perplexity(model, each) for split, each in samples.items()},
        "parameters": model.count_params(),
        **training_record(settings, progress, "samples", len(samples["train"])),
    }


def create_joint_runs(
    folder: Path,
    models: dict[str, dict[str, Any]],
    files: dict[str, JointFiles],
    data: JointData,
    schedule: JointSchedule,
    **settings: Any,
) -> list[tuple[Run, JointRunSettings]]:
    """Makes a run for each model, all of the same text, which is aligned first where links are missing.

    Args:
        folder: Receives `alignment`, if one is made, and a folder a run.
        models: Arguments by the model's name in the zoo.
        files: Of each split.
        data: What is read of them.
        schedule: How the models are trained.
        **settings: Further fields of `JointRunSettings`.

    Raises:
        FileExistsError: If the folder holds a run of one of them.
    """
    if any((folder / model).exists() for model in models):
        raise FileExistsError(
            f"{folder} already holds runs. Choose another --run, continue them with --resume {folder}, or remove them."
        )
    if any(each.alignment is None for each in files.values()):
        files = align_files(files, data.tokenization, folder / "alignment")
    source, target = vocabularies(texts(files, data)["train"], data)
    runs = []
    for model, arguments in models.items():
        its = JointRunSettings(
            model=model,
            arguments=arguments,
            data=data,
            schedule=schedule,
            files=files,
            source_vocabulary_sha256=source.sha256,
            target_vocabulary_sha256=target.sha256,
            **settings,
        )
        run = Run.create(folder / model, dump_table(its))
        source.save(run.source_vocabulary)
        target.save(run.vocabulary)
        runs.append((run, its))
    return runs


def open_joint_runs(folder: Path) -> list[tuple[Run, JointRunSettings]]:
    """The run a folder is, or those in it.

    Raises:
        FileNotFoundError: If there are none.
    """
    configs = [path for path in (folder / "config.toml", *sorted(folder.glob("*/config.toml"))) if path.exists()]
    if not configs:
        raise FileNotFoundError(f"{folder} holds no runs: there is no config.toml in it or below it.")
    return [(Run(path.parent), load_table(JointRunSettings, path)) for path in configs]
