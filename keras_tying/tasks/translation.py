"""Translation: sentence pairs in subwords, beam search, BLEU."""

import math
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import keras

from keras_tying import backend
from keras_tying.backend.replicas import replicas_of
from keras_tying.data import (
    SPLITS,
    Bitext,
    PairBatches,
    ParallelCorpus,
    PreparedPairs,
    SentencePairs,
    Subwords,
    load_parallel,
    parallel_files,
    sentences_of,
    zip_files,
)
from keras_tying.inference import TrainedTranslator
from keras_tying.inference.translator import pair_perplexity
from keras_tying.metrics import translation_scores
from keras_tying.models import Translator
from keras_tying.tasks.markdown import markdown_table
from keras_tying.training.batches import RowBatches
from keras_tying.training.task import Task
from keras_tying.zoo.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES = 10
"""Validation sentences that TensorBoard shows with their translations."""


class TranslationTask(Task):
    """A translator of the zoo on one parallel text, with subwords of both languages together."""

    name = "translation"
    model_class = Translator
    vocabulary_kinds = MappingProxyType({"subwords.model": Subwords})
    default_loss_arguments = MappingProxyType({"reduction": "mean_with_sample_weight"})
    best_metric = "val_bleu"
    validation_metrics = ("val_perplexity", "val_bleu")

    pairs: dict[str, SentencePairs]
    """Ids of each split."""
    text: dict[str, list[tuple[str, str]]]
    """Sentences of each split but the training text."""

    @classmethod
    def given_files(cls, arguments: Namespace) -> dict[str, list[list[Path]]] | None:
        if not arguments.valid:
            return None
        files = {"valid": [list(arguments.valid)], "test": [list(arguments.test)]}
        if arguments.prepared:
            return files
        return {"train": [list(pair) for pair in zip_files(arguments.source, arguments.target)], **files}

    @classmethod
    def changes(cls, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if arguments.corpus:
            changes["data.corpus"] = arguments.corpus
        elif arguments.prepared:
            prepared = PreparedPairs(arguments.prepared)
            changes["data.vocabulary_size"] = len(prepared.subwords)
            changes["data.maximum_length"] = prepared.preparation.maximum_length
            if not arguments.valid:
                changes["data.corpus"] = prepared.name
                if prepared.languages:  # of the text that is measured, too
                    changes["data.source_language"], changes["data.target_language"] = prepared.languages
                if prepared.name == "files":
                    raise ValueError("Pairs prepared from files need --valid and --test, text to measure on.")
        if arguments.tying:
            changes["model.arguments.tying"] = arguments.tying
        if arguments.subwords:
            changes["data.vocabulary_size"] = len(Subwords.load(arguments.subwords))
        return changes

    @property
    def subwords(self) -> Subwords:
        return self.vocabularies["subwords.model"]

    @property
    def epoch_size(self) -> int:
        return self.pairs["train"].target_tokens

    @property
    def reads_corpus(self) -> bool:
        """Also for validation and test text of prepared pairs."""
        return not self.settings.files

    def corpus(self) -> ParallelCorpus:
        """The text in splits; of a prepared text only those that are measured."""
        data, files = self.recipe.data, self.settings.files
        if files:
            return parallel_files(
                {split: [(pair[0], pair[1]) for pair in files[split]] for split in SPLITS if split in files}
            )
        return load_parallel(data.corpus, data.source_language, data.target_language, self.settings.data_dir)

    def learn_vocabularies(self) -> dict[str, Any]:
        given = self.settings.subwords
        if self.settings.prepared:
            if given:
                raise ValueError("Prepared pairs have their own subwords. Received: --prepared and --subwords.")
            return {"subwords.model": PreparedPairs(self.settings.prepared).subwords}
        if given:
            return {"subwords.model": Subwords.load(given)}
        sentences = sentences_of(self.corpus().pairs("train"))
        return {"subwords.model": Subwords.learn(sentences, self.recipe.data.vocabulary_size)}

    def text_parts(self) -> dict[str, list[Any]]:
        parts: dict[str, list[Any]] = {}
        for split, text in self.corpus().splits.items():
            files = [path for each in text if isinstance(each, Bitext) for path in (each.source, each.target)]
            parts[split] = files or [text]
        if self.settings.prepared:
            parts["train"] = [PreparedPairs(self.settings.prepared).index("train")]
        return parts

    def load_text(self) -> None:
        corpus = self.corpus()
        self.text = {split: list(corpus.pairs(split)) for split in corpus.splits if split != "train"}
        with self._named("train"):
            self.pairs = {"train": self.training_pairs()}
        for split, pairs in self.text.items():
            with self._named(split):
                self.pairs[split] = SentencePairs.encode(pairs, self.subwords, self.subwords)

    @contextmanager
    def _named(self, split: str) -> Iterator[None]:
        """A context whose errors name the text of a split."""
        try:
            yield
        except ValueError as error:
            names = " and ".join(str(part) for part in self.text_parts()[split] if isinstance(part, Path))
            raise ValueError(f"The {split} text {names or self.recipe.data.corpus}: {error}") from None

    def training_pairs(self) -> SentencePairs:
        if self.settings.prepared:
            return PreparedPairs(self.settings.prepared).pairs("train", self.subwords)
        maximum = self.recipe.data.maximum_length
        return SentencePairs.encode(self.corpus().pairs("train"), self.subwords, self.subwords, maximum)

    def build_model(self) -> keras.Model:
        size = len(self.subwords)
        return self.create_model(source_vocabulary_size=size, target_vocabulary_size=size)

    def describe(self, model: keras.Model) -> str:
        shared = ""
        if not self.settings.prepared:  # counting them reads all of the text
            counts = self.pairs["train"].overlap()
            shared = (
                f"; in the training text {counts['only_source']:,} only in the source, "
                f"{counts['only_target']:,} only in the target, {counts['both']:,} in both"
            )
        return (
            f"parameters  {model.count_params():,} (untied: {untied_parameters(model):,})\n"
            f"vocabulary  {len(self.subwords):,} subwords{shared}\n"
            + "\n".join(
                f"{split:10}  {len(pairs):,} pairs, {pairs.source_tokens:,} source and {pairs.target_tokens:,} target "
                f"subwords; left out: {pairs.skipped} empty, {pairs.too_long} too long"
                for split, pairs in self.pairs.items()
            )
        )

    def batches(self, model: keras.Model) -> "TranslationBatches":
        cut = PairBatches(self.pairs["train"], self.recipe.optimisation.batch_tokens, self.settings.seed)
        return TranslationBatches(cut, replicas_of(model))

    def validate(self, model: keras.Model) -> dict[str, float]:
        """Perplexity, and BLEU of greedy translations."""
        perplexity = pair_perplexity(model, self.pairs["valid"])
        sources, references = zip(*self.text["valid"], strict=True)
        translations = self.trained(model).translate(sources, beam=1)
        return {"val_perplexity": perplexity, "val_bleu": translation_scores(translations, references)["bleu"]}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        """The first sentences of the validation text beside their references and translations."""
        pairs = self.text["valid"][:SAMPLES]
        translations = self.trained(model).translate([source for source, _ in pairs], beam=1)
        sentences = [(*pair, translation) for pair, translation in zip(pairs, translations, strict=True)]
        return "translations", markdown_table(("source", "reference", "translation"), sentences)

    def plot(self, model: keras.Model) -> "tuple[str, Figure]":
        source, translator = self.text["valid"][0][0], self.trained(model)
        (translation,) = translator.translate([source], beam=1)
        return "attention", translator.attention_plot(source, translation)

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        source, target = self.pairs["train"].counts(len(self.subwords))
        by_role = {"source": source, "tied": source + target}
        return {
            role: dict(zip(self.subwords.words, by_role.get(role, target).tolist(), strict=True))
            for role in model.embedding_matrices()
        }

    def measure(self, model: keras.Model, beam: int = 5) -> dict[str, Any]:
        """BLEU, chrF and perplexity of every split but the training text, under names such as `test_bleu`.

        Pairs with an empty sentence count in BLEU and chrF, as in other toolkits, and not in the perplexity.
        """
        results: dict[str, Any] = {}
        for split, pairs in self.text.items():
            name = "validation" if split == "valid" else split
            sources, references = zip(*pairs, strict=True)
            scores = translation_scores(self.trained(model).translate(sources, beam), references)
            results[f"{name}_perplexity"] = pair_perplexity(model, self.pairs[split])
            results |= {f"{name}_{metric}": score for metric, score in scores.items()}
        return {**results, "beam": beam}

    def headline(self, results: dict[str, Any]) -> str:
        return (
            f"test BLEU {results['test_bleu']:.2f}, chrF {results['test_chrf']:.2f}, "
            f"perplexity {results['test_perplexity']:.2f}"
        )

    def trained(self, model: keras.Model) -> TrainedTranslator:
        return TrainedTranslator(model, self.subwords)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, value in self.measure(model, beam=arguments.beam).items():
            yield f"{name:22}  {value if isinstance(value, str) else format(value, '.2f')}", {}


class TranslationBatches(RowBatches):
    """Batches of sentence pairs in the order that `PairBatches` gives them.

    Args:
        pairs: The text.
        replicas: Number of replicas of the model. Each gets the same number of rows of a batch.
    """

    def __init__(self, pairs: PairBatches, replicas: int = 1):
        super().__init__()
        self.pairs = pairs
        self.total = len(pairs)
        self.words_per_batch = round(pairs.pairs.target_tokens / len(pairs))
        self.row_multiple = math.lcm(replicas, backend.SHAPE_MULTIPLE)
        self.begin(0)

    def rows(self, index: int, replica: int, replicas: int):
        """The rows of a batch that belong to one replica; only their sentences are read and padded."""
        chosen = self._order[self.first_batch + index]
        return self.pairs.pairs.batch(chosen, backend.SHAPE_MULTIPLE, self.row_multiple, part=(replica, replicas))

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        self._order = self.pairs.order(epoch)


def untied_parameters(model: keras.Model) -> int:
    """Number of parameters of a translator if its three embeddings were three matrices. It is not made."""
    missing = 3 - len(model.embedding_matrices())
    return model.count_params() + missing * model.embedding.input_dim * model.embedding.output_dim
