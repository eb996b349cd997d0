"""Joint language models: aligned sentence pairs, samples of one target word, perplexity."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from keras_tying.data import SPLITS, Bitext, JointSamples, Vocabulary, align, vectors_for
from keras_tying.training.batches import BlockBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.training.task import Task
from keras_tying.zoo.recipes import AlignedData, Recipe

SAMPLES_PER_CALL = 2048
"""Samples that are scored per call. It does not change the result."""
SENTENCE_LENGTH = 100
"""Maximum number of source words in the global context."""
SAMPLE_WORDS = 40
"""Length of the sample text in TensorBoard."""


class JointLanguageModelTask(Task):
    """NNLM, NNJM or NNJM-Global on aligned sentence pairs."""

    name = "joint_language_model"
    script = "train/nnjm.py"
    usage = """Trains NNLM, NNJM and NNJM-Global on aligned text, resumes runs, or evaluates them.

python train/nnjm.py --train F E [LINKS] --valid F E [LINKS] --test F E [LINKS]     all three
python train/nnjm.py --recipe nnjm --tied --set model.window=11 ...                 one of them, tied
python train/nnjm.py --resume runs
python train/nnjm.py --evaluate runs/nnjm

F and E are source and target text, one sentence per line, with spaces between the tokens (`--tokenization plain` for
running text), gzipped or not. LINKS holds `i-j` pairs, one line per sentence; without it the text is aligned by
eflomal (pip install keras-tying[align]).
"""
    default_recipes = ("nnlm", "nnjm", "nnjm_global")
    vocabulary_kinds = MappingProxyType({"source_vocabulary.txt": Vocabulary, "vocabulary.txt": Vocabulary})
    best_metric = "val_perplexity"
    unit = "samples"

    samples: dict[str, JointSamples]
    """The text of each split."""

    @classmethod
    def add_arguments(cls, parser: ArgumentParser) -> None:
        for split, what in zip(SPLITS, ("training", "validation", "test"), strict=True):
            parser.add_argument(
                f"--{split}", nargs="+", type=Path, metavar="FILE", help=f"{what} text: source, target and links"
            )
        parser.add_argument("--tokenization", choices=("spaces", "plain"), help="default: the recipe's")
        parser.add_argument("--tied", action="store_true", help="tie the output to the target input embedding")
        parser.add_argument(
            "--bootstrap", type=Path, metavar="RUN", help="start from the word vectors of a trained run"
        )
        for side in ("source", "target"):
            parser.add_argument(f"--{side}-vectors", type=Path, metavar="FILE", help="start from a word2vec file")

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        files = {}
        for split in SPLITS:
            paths = getattr(arguments, split) or []
            if len(paths) not in (2, 3):
                raise ValueError(
                    f"--{split} needs two or three files: source text, target text and, if there are any, the links "
                    f"between them. Received: {len(paths)}. See --help."
                )
            files[split] = [list(paths)]
        return files

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        changes: dict[str, Any] = {"model.arguments.tied": True} if arguments.tied else {}
        if arguments.tokenization:
            changes["data.tokenization"] = arguments.tokenization
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
    def complete(cls, tasks: list["JointLanguageModelTask"], folder: Path) -> None:
        """Aligns text without links, once for all runs, into `FOLDER.alignment`."""
        if not tasks or tasks[0].settings.files is None:
            return
        files = {split: groups[0] for split, groups in tasks[0].settings.files.items()}
        if all(len(paths) == 3 for paths in files.values()):
            return
        print("without links: eflomal aligns the text first", flush=True)
        aligned = align_files(files, tasks[0].recipe.data.tokenization, folder.with_name(f"{folder.name}.alignment"))
        changed = {split: [paths] for split, paths in aligned.items()}
        for task in tasks:
            task.settings = task.settings.model_copy(update={"files": changed})

    @property
    def source_vocabulary(self) -> Vocabulary:
        return self.vocabularies["source_vocabulary.txt"]

    @property
    def epoch_size(self) -> int:
        return len(self.samples["train"])

    def learn_vocabularies(self) -> dict[str, Any]:
        self.create_model({}, **self._sizes(3, 3, SENTENCE_LENGTH))  # wrong arguments are found before the text is read
        source, target = learn_vocabularies(self._bitexts()["train"], self.recipe.data)
        return {"source_vocabulary.txt": source, "vocabulary.txt": target}

    def _bitexts(self) -> dict[str, Bitext]:
        assert self.settings.files is not None
        return bitexts({split: groups[0] for split, groups in self.settings.files.items()}, self.recipe.data)

    def load_text(self) -> None:
        self.samples = {
            split: text.encode(self.source_vocabulary, self.vocabulary) for split, text in self._bitexts().items()
        }

    def build_model(self, **changes: Any) -> keras.Model:
        model = self.build_model_for(min(self.samples["train"].longest_source, SENTENCE_LENGTH), **changes)
        start = self.settings.initial_vectors
        if "run" in start:
            model.bootstrap(**Run.open(start["run"]).load_model().word_vectors)
        for side, vocabulary in (("source", self.source_vocabulary), ("target", self.vocabulary)):
            if side in start:
                model.bootstrap(**{side: vectors_for(vocabulary, start[side])})
        return model

    def build_model_for(self, sentence_length: int, **changes: Any) -> keras.Model:
        """The recipe's model, new, for source sentences of at most this length in the global context."""
        words = len(self.vocabulary), len(self.source_vocabulary)
        return self.create_model(changes, **self._sizes(*words, sentence_length))

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
        samples = self.samples["valid"]
        chosen = np.arange(min(SAMPLE_WORDS, len(samples)))
        logits = keras.ops.convert_to_numpy(model(model_inputs(model, samples, chosen)))
        likeliest = self.vocabulary.decode(np.argmax(logits, -1))
        words = zip(self.vocabulary.decode(samples.target_ids[chosen]), likeliest, strict=True)
        return "likeliest words", " ".join(f"{word} ({guess})" for word, guess in words)

    def measure(self, model: keras.Model, progress: Progress) -> dict[str, Any]:
        """Perplexities of the best epoch."""
        names = {"train": "train_perplexity", "valid": "validation_perplexity", "test": "test_perplexity"}
        return {name: sample_perplexity(model, self.samples[split]) for split, name in names.items()}

    def headline(self, results: dict[str, Any]) -> str:
        return f"test perplexity {results['test_perplexity']:.2f} (validation {results['validation_perplexity']:.2f})"

    def export(self, model: keras.Model, path: Path) -> None:
        from keras_tying.export import export_joint_language_model

        vocabularies = self.source_vocabulary, self.vocabulary
        export_joint_language_model(model, *vocabularies, path, self.recipe.data.tokenization)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> list[str]:
        return [
            f"{split:5} perplexity {sample_perplexity(model, self.samples[split]):8.2f} "
            f"over {len(self.samples[split]):,} words"
            for split in ("valid", "test")
        ]


class JointBatches(BlockBatches):
    """Samples in batches, in another order each epoch. Their inputs are cut when they are asked for.

    Samples that do not fill a batch are left out; which ones depends on the order.

    Args:
        model: The `JointLanguageModel` that takes them.
        samples: The text.
        batch_size: Samples per batch.
        seed: The order depends on it and on the epoch.

    Raises:
        ValueError: If the text does not fill a batch.
    """

    def __init__(self, model, samples: JointSamples, batch_size: int, seed: int):
        super().__init__()
        self.model = model
        self.samples = samples
        self.batch_size = self.words_per_batch = batch_size
        self.seed = seed
        self.total = len(samples) // batch_size
        if not self.total:
            raise ValueError(
                f"The training text needs at least {batch_size} target words for one batch. Received: {len(samples)}"
            )
        self.begin(0)

    def block(self, index: int, count: int, rows: slice = slice(None)) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Inputs `[N, B, ...]` and targets `[N, B]` of up to `count` batches."""
        size, first = self.batch_size, self.first_batch + index
        chosen = self._order[first * size : (first + min(count, len(self) - index)) * size].reshape(-1, size)[:, rows]
        flat = chosen.ravel()
        arrays = model_inputs(self.model, self.samples, flat), self.samples.target_ids[flat]
        return keras.tree.map_structure(lambda array: array.reshape(*chosen.shape, *array.shape[1:]), arrays)

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.samples))


def model_inputs(model, samples: JointSamples, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of some samples as `model` takes them."""
    sentence = model.sentence_length if model.global_context else 0
    return samples.inputs(chosen, model.order - 1, model.window, sentence)


def sample_perplexity(model, samples: JointSamples) -> float:
    """Exact perplexity of a text under a `JointLanguageModel`: `exp` of the mean negative log-likelihood."""
    total = 0.0
    for start in range(0, len(samples), SAMPLES_PER_CALL):
        chosen = np.arange(start, min(start + SAMPLES_PER_CALL, len(samples)))
        scores = model.score(model_inputs(model, samples, chosen), samples.target_ids[chosen])
        total -= float(np.sum(scores, dtype=np.float64))
    with np.errstate(over="ignore"):  # a model that has diverged has infinite perplexity
        return float(np.exp(total / len(samples)))


def bitexts(files: dict[str, list[str]], data: AlignedData) -> dict[str, Bitext]:
    """The text of each split from its files: source, target and, if there are any, links.

    Only the training text is cut to `data.sentences`.
    """
    return {
        split: Bitext(
            Path(paths[0]),
            Path(paths[1]),
            Path(paths[2]) if len(paths) > 2 else None,
            data.tokenization,
            data.sentences if split == "train" else None,
        )
        for split, paths in files.items()
    }


def align_files(files: dict[str, list[str]], tokenization: str, folder: Path) -> dict[str, list[str]]:
    """Aligns all splits together into files in `folder`, and returns the files of each split with its links.

    Raises:
        ModuleNotFoundError: If the aligner is not installed.
    """
    whole = bitexts(files, AlignedData(tokenization=tokenization))  # type: ignore[arg-type]  # checked there
    aligned = align(list(whole.values()), folder)
    return {
        split: [*paths[:2], str(text.alignment)] for (split, paths), text in zip(files.items(), aligned, strict=True)
    }


def learn_vocabularies(train: Bitext, data: AlignedData) -> tuple[Vocabulary, Vocabulary]:
    """Source and target words of a training text."""
    return (
        Vocabulary.from_tokens(train.tokens("source"), data.source_vocabulary_size),
        Vocabulary.from_tokens(train.tokens("target"), data.target_vocabulary_size),
    )
