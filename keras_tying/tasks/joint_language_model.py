"""Joint language models: aligned sentence pairs, samples of one target word, perplexity."""

import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import safetensors.numpy

from keras_tying.data import (
    SPLITS,
    Bitext,
    JointSamples,
    PreparedAligned,
    PreparedSamples,
    Vocabulary,
    align,
    read_lines,
    vectors_for,
)
from keras_tying.data.text import warn_of_tokenization
from keras_tying.data.word_vectors import vectors_by_word
from keras_tying.files import sha256_of
from keras_tying.inference import TrainedJointLanguageModel
from keras_tying.inference.joint_language_model import model_inputs, sample_perplexity
from keras_tying.models import JointLanguageModel
from keras_tying.tasks.markdown import markdown
from keras_tying.training.batches import BlockBatches
from keras_tying.training.runs import Run, RunSettings, real_paths
from keras_tying.training.task import Task, open_task
from keras_tying.zoo.recipes import AlignedData, Recipe

SENTENCE_LENGTH = 100
"""Maximum number of source words in the global context."""
INITIAL_VECTORS = "initial_vectors.safetensors"
SAMPLE_WORDS = 40
"""Length of the sample text in TensorBoard."""


class JointLanguageModelTask(Task):
    """NNLM, NNJM or NNJM-Global on aligned sentence pairs."""

    name = "joint_language_model"
    model_class = JointLanguageModel
    vocabulary_kinds = MappingProxyType({"source_vocabulary.txt": Vocabulary, "vocabulary.txt": Vocabulary})
    best_metric = "val_perplexity"
    unit = "samples"

    samples: Mapping[str, JointSamples | PreparedSamples]
    """The text of each split."""

    def __init__(self, settings: RunSettings):
        super().__init__(settings)
        self.links: dict[str, Path] = {}
        """Links that were made for the run, by split."""
        self.initial: dict[str, np.ndarray] | None = None
        """Where word vectors start from: `run.source`, `run.target`, `source`, `target`."""

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        if arguments.prepared:
            return None
        return {split: [list(getattr(arguments, split))] for split in SPLITS}

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        changes: dict[str, Any] = {"model.arguments.tied": True} if arguments.tied else {}
        if arguments.prepared:
            prepared = PreparedAligned(arguments.prepared)
            source, target = prepared.vocabularies
            changes |= {"data.tokenization": prepared.tokenization, "data.sentences": None}
            changes["data.source_vocabulary_size"] = prepared.preparation.source_size or len(source)
            changes["data.target_vocabulary_size"] = prepared.preparation.size or len(target)
        elif arguments.tokenization:
            changes["data.tokenization"] = arguments.tokenization
        elif "tokenization" not in recipe.data.model_fields_set:  # links count tokens
            changes["data.tokenization"] = "spaces" if len(arguments.train or []) == 3 else "words"
        return changes

    @classmethod
    def initial_vectors(cls, arguments: Namespace) -> dict[str, Path]:
        given = {
            "run": arguments.bootstrap,
            "source": arguments.source_vectors,
            "target": arguments.target_vectors,
        }
        return {name: path for name, path in given.items() if path}

    @classmethod
    def complete(cls, tasks: list["JointLanguageModelTask"], existing: list[Run], folder: Path) -> None:
        """Aligns text without links, once for all runs; each keeps a copy. Existing runs of the text give theirs."""
        alone = not existing and all(task.recipe.model.name == "nnlm" for task in tasks)
        if alone and "source" in tasks[0].settings.initial_vectors:
            raise ValueError("--source-vectors needs a model with source words. Received: recipes of nnlm only")
        files = {split: groups[0] for split, groups in (tasks[0].settings.files or {}).items()}
        without = [split for split, paths in files.items() if len(paths) == 2]
        if not without:
            return
        for task in tasks:
            task.check_arguments()
        if len(ways := {task.recipe.data.tokenization for task in tasks}) > 1:
            raise ValueError(f"Recipes that are aligned together need one tokenization. Received: {sorted(ways)}")
        links = _links_of(existing, tasks[0], without)
        if links is None:
            print("without links: eflomal aligns the text first", flush=True)
            texts = [Bitext.of([Path(path) for path in paths], *ways) for paths in files.values()]
            made = zip(files, align(texts, folder), strict=True)
            links = {split: text.alignment for split, text in made if split in without and text.alignment}
        for task in tasks:
            task.links = links

    def write_files(self, folder: Path) -> None:
        super().write_files(folder)
        for split, path in self.links.items():
            shutil.copyfile(path, folder / links_file(split))
        if self.initial:
            (folder / INITIAL_VECTORS).write_bytes(safetensors.numpy.save(self.initial))

    def open_files(self, run: Run) -> None:
        super().open_files(run)
        for split in SPLITS:
            if links_file(split) in self.settings.fingerprints:
                self.links[split] = self.checked(run, links_file(split), "alignment")
        if INITIAL_VECTORS in self.settings.fingerprints:
            vectors = self.checked(run, INITIAL_VECTORS, "file of word vectors")
            self.initial = safetensors.numpy.load_file(vectors)

    @property
    def source_vocabulary(self) -> Vocabulary:
        return self.vocabularies["source_vocabulary.txt"]

    @property
    def epoch_size(self) -> int:
        return len(self.samples["train"])

    def check_arguments(self) -> None:
        """Raises ValueError for arguments of the model and a loss that are wrong for any text."""
        self.create_model(**self._sizes(3, 3, SENTENCE_LENGTH)).compile(loss=self.loss())

    def learn_vocabularies(self) -> dict[str, Any]:
        self.check_arguments()
        if self.settings.prepared:
            source, target = PreparedAligned(self.settings.prepared).vocabularies
            return {"source_vocabulary.txt": source, "vocabulary.txt": target}
        train = self._bitexts()["train"]
        warn_of_tokenization(read_lines(train.target), train.tokenization)
        data = self.recipe.data
        source, target = train.vocabularies(data.source_vocabulary_size, data.target_vocabulary_size)
        return {"source_vocabulary.txt": source, "vocabulary.txt": target}

    def text_parts(self) -> dict[str, list[Path]]:
        if self.settings.prepared:
            prepared = PreparedAligned(self.settings.prepared)
            return {split: [prepared.index(split)] for split in SPLITS}
        assert self.settings.files is not None
        return {split: [Path(path) for path in groups[0]] for split, groups in self.settings.files.items()}

    def _bitexts(self) -> dict[str, Bitext]:
        links = {split: [path] for split, path in self.links.items()}
        files = {split: [*paths, *links.get(split, [])] for split, paths in self.text_parts().items()}
        return bitexts(files, self.recipe.data)

    def load_text(self) -> None:
        vocabularies = self.source_vocabulary, self.vocabulary
        if self.settings.prepared:
            prepared = PreparedAligned(self.settings.prepared)
            self.samples = {split: prepared.samples(split, *vocabularies) for split in SPLITS}
        else:
            self.samples = {split: text.encode(*vocabularies) for split, text in self._bitexts().items()}

    def build_model(self) -> keras.Model:
        model = self.build_model_for(min(self.samples["train"].longest_source, SENTENCE_LENGTH))
        if self.initial is None:
            self.initial = self._initial_vectors()
        sides = ("target",) if model.source_embedding is None else ("source", "target")
        for prefix in ("run.", ""):  # files go over the vectors of a run
            model.bootstrap(**{side: self.initial.get(f"{prefix}{side}") for side in sides})
        return model

    def _initial_vectors(self) -> dict[str, np.ndarray]:
        start, vectors = self.settings.initial_vectors, {}
        own = {"source": self.source_vocabulary, "target": self.vocabulary}
        if "run" in start:
            run = Run.open(start["run"])
            other = open_task(JointLanguageModelTask, run)
            words = {"source": other.source_vocabulary.words, "target": other.vocabulary.words}
            for side, matrix in run.load_model().word_vectors.items():
                vectors[f"run.{side}"] = vectors_by_word(own[side], words[side], matrix, f"{run.folder} ({side})")
        for side, vocabulary in own.items():
            if side in start:
                vectors[side] = vectors_for(vocabulary, start[side])
        return vectors

    def build_model_for(self, sentence_length: int) -> keras.Model:
        """The recipe's model, new, for source sentences of at most this length in the global context."""
        words = len(self.vocabulary), len(self.source_vocabulary)
        return self.create_model(**self._sizes(*words, sentence_length))

    def _sizes(self, target_words: int, source_words: int, sentence_length: int) -> dict[str, int]:
        """The sizes that the recipe's builder takes."""
        sizes = {"target_vocabulary_size": target_words}
        if self.recipe.model.name != "nnlm":
            sizes["source_vocabulary_size"] = source_words
        if self.recipe.model.name == "nnjm_global":
            sizes["sentence_length"] = sentence_length
        return sizes

    def describe(self, model: keras.Model) -> str:
        return (
            f"parameters  {model.count_params():,}{', tied' if model.tied else ''}\n"
            f"vocabulary  {len(self.vocabulary):,} target words, {len(self.source_vocabulary):,} source words\n"
            + "\n".join(f"{split:10}  {len(samples):,} target words" for split, samples in self.samples.items())
        )

    def batches(self, model: keras.Model) -> "JointBatches":
        return JointBatches(model, self.samples["train"], self.recipe.optimisation.batch_size, self.settings.seed)

    def validate(self, model: keras.Model) -> dict[str, float]:
        return {"val_perplexity": sample_perplexity(model, self.samples["valid"])}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        """The first words of the validation text, each with the model's likeliest word in brackets."""
        samples = self.samples["valid"].part(0)
        chosen = np.arange(min(SAMPLE_WORDS, len(samples)))
        logits = keras.ops.convert_to_numpy(model(model_inputs(model, samples, chosen)))
        likeliest = self.vocabulary.decode(np.argmax(logits, -1))
        words = zip(self.vocabulary.decode(samples.target_ids[chosen]), likeliest, strict=True)
        return "likeliest words", markdown(" ".join(f"{word} ({guess})" for word, guess in words))

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        train = self.samples["train"]
        source, target = Counter[str](), Counter[str]()
        for part in map(train.part, range(len(train.part_lengths))):
            source.update(self.source_vocabulary.frequencies(part.source_ids))
            target.update(self.vocabulary.frequencies(part.target_ids))
        return {role: source if role == "source" else target for role in model.embedding_matrices()}

    def measure(self, model: keras.Model) -> dict[str, Any]:
        """Perplexities of the best epoch."""
        names = {"train": "train_perplexity", "valid": "validation_perplexity", "test": "test_perplexity"}
        return {name: sample_perplexity(model, self.samples[split]) for split, name in names.items()}

    def headline(self, results: dict[str, Any]) -> str:
        return f"test perplexity {results['test_perplexity']:.2f} (validation {results['validation_perplexity']:.2f})"

    def trained(self, model: keras.Model) -> TrainedJointLanguageModel:
        return TrainedJointLanguageModel(model, self.source_vocabulary, self.vocabulary, self.recipe.data.tokenization)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
        for split in ("valid", "test"):
            samples = self.samples[split]
            yield f"{split:5} perplexity {sample_perplexity(model, samples):8.2f} over {len(samples):,} words", {}


def links_file(split: str) -> str:
    """Name of the file of the links that were made for a run."""
    return f"{split}.align"


def _links_of(runs: list[Run], task: JointLanguageModelTask, splits: list[str]) -> dict[str, Path] | None:
    """The links that an existing run of the same text has of its own."""
    text = task.text_parts()

    def is_text_of(other: JointLanguageModelTask, split: str) -> bool:
        """Whether the files of a split are as the other run found them."""
        return other.settings.text.get(split) == [sha256_of(path) for path in text[split]]

    for other in (open_task(JointLanguageModelTask, run) for run in runs):
        same_tokens = other.recipe.data.tokenization == task.recipe.data.tokenization
        same_files = real_paths(other.settings.files) == real_paths(task.settings.files)
        has_links = same_tokens and same_files and set(splits) <= set(other.links)
        if has_links and all(is_text_of(other, split) for split in splits):
            return {split: other.links[split] for split in splits}
    return None


class JointBatches(BlockBatches):
    """Samples in batches, in another order each epoch. Their inputs are cut when they are asked for.

    The parts of a text on disk are shuffled, and so are the samples of each part. The samples of a part that do not
    fill a batch are left out; which ones depends on the order.

    Args:
        model: The `JointLanguageModel` that takes them.
        samples: The text.
        batch_size: Samples per batch.
        seed: The order depends on it and on the epoch.

    Raises:
        ValueError: If the text does not fill a batch.
    """

    def __init__(self, model, samples: JointSamples | PreparedSamples, batch_size: int, seed: int):
        super().__init__()
        self.model = model
        self.samples = samples
        self.batch_size = self.words_per_batch = batch_size
        self.seed = seed
        self.batches_of_part = np.array(samples.part_lengths) // batch_size
        self.total = int(self.batches_of_part.sum())
        if not self.total:
            raise ValueError(
                f"The training text needs at least {batch_size} target words for one batch. Received: {len(samples)}"
            )
        self.begin(0)

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Inputs `[N, B, ...]` and targets `[N, B]` of up to `count` batches."""
        first = self.first_batch + index
        blocks = list(self._blocks(first, min(first + count, self.total), rows))
        return blocks[0] if len(blocks) == 1 else keras.tree.map_structure(lambda *each: np.concatenate(each), *blocks)

    def _blocks(self, first: int, last: int, rows: slice) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """The batches from `first` to `last`, part by part."""
        while first < last:
            place = int(np.searchsorted(self._starts, first, side="right")) - 1
            start, end = self._starts[place : place + 2].tolist()
            samples, order = self._part(int(self._parts[place]))
            inside = slice((first - start) * self.batch_size, (min(last, end) - start) * self.batch_size)
            chosen = order[inside].reshape(-1, self.batch_size)[:, rows]
            flat = chosen.ravel()
            arrays = model_inputs(self.model, samples, flat), samples.target_ids[flat]
            yield keras.tree.map_structure(
                lambda array, shape=chosen.shape: array.reshape(*shape, *array.shape[1:]), arrays
            )
            first = min(last, end)

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        parts = len(self.batches_of_part)
        self._parts = np.random.default_rng([self.seed, epoch, parts]).permutation(parts)
        self._starts = np.cumsum([0, *self.batches_of_part[self._parts]])
        self._opened: tuple[int, int, JointSamples, np.ndarray] | None = None

    def _part(self, index: int) -> tuple[JointSamples, np.ndarray]:
        """The samples of a part and their order. The last part that was asked for stays in memory."""
        if self._opened is None or self._opened[:2] != (self.epoch, index):
            samples = self.samples.part(index)
            seed = [self.seed, self.epoch] if len(self._parts) == 1 else [self.seed, self.epoch, index]
            self._opened = self.epoch, index, samples, np.random.default_rng(seed).permutation(len(samples))
        return self._opened[2:]


def bitexts(files: Mapping[str, Sequence[Path]], data: AlignedData) -> dict[str, Bitext]:
    """The text of each split from its files: source, target and, if there are any, links.

    Only the training text is cut to `data.sentences`.
    """
    return {
        split: Bitext.of(paths, data.tokenization, data.sentences if split == "train" else None)
        for split, paths in files.items()
    }
