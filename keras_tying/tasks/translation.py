"""Translation: sentence pairs in subwords, beam search, BLEU."""

import html
import io
import logging
import math
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import keras
import numpy as np

from keras_tying import backend
from keras_tying.data import (
    PAD_ID,
    SPLITS,
    Bitext,
    PairBatches,
    ParallelCorpus,
    PreparedPairs,
    SentencePairs,
    Subwords,
    load_parallel,
    pad_sentences,
    parallel_files,
    sentences_of,
    zip_files,
)
from keras_tying.data.subwords import LONGEST_SENTENCE
from keras_tying.files import write_atomically
from keras_tying.metrics import translation_scores
from keras_tying.metrics.perplexity import perplexity_of
from keras_tying.training.batches import EpochBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run, environment
from keras_tying.training.task import Mode, Task, open_task
from keras_tying.zoo.recipes import Recipe, write_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES = 10
"""Validation sentences that TensorBoard shows with their translations."""
POSITIONS_PER_CALL = 4000
"""Source positions that are translated, or target positions scored, per call. It does not change the result."""
SENTENCES_PER_CALL = 1000
"""Lines of standard input that are translated together."""
SHAPE_MULTIPLE = 1 if backend.ANY_SHAPE else 8
"""Rows and lengths are padded to multiples of this, so that few shapes are compiled."""

log = logging.getLogger(__name__)


class TranslationTask(Task):
    """A translator of the zoo on one parallel text, with subwords of both languages together."""

    name = "translation"
    script = "train/nmt.py"
    vocabulary_kinds = MappingProxyType({"subwords.model": Subwords})
    default_loss_arguments = MappingProxyType({"reduction": "mean_with_sample_weight"})
    best_metric = "val_bleu"

    pairs: dict[str, SentencePairs]
    """Ids of each split."""
    text: dict[str, list[tuple[str, str]]]
    """Sentences of each split but the training text."""
    translations: list[str]
    """Greedy translations of the validation text, by the last call of `validate`."""

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
        elif arguments.prepared and not arguments.valid:
            prepared = PreparedPairs(arguments.prepared)
            changes["data.corpus"] = prepared.name
            if prepared.languages:  # of the text that is measured, too
                changes["data.source_language"], changes["data.target_language"] = prepared.languages
            if changes["data.corpus"] == "files":
                raise ValueError("Pairs prepared from files need --valid and --test, text to measure on.")
        if arguments.tying:
            changes["model.arguments.tying"] = arguments.tying
        if arguments.subwords:
            changes["data.vocabulary_size"] = len(Subwords.load(arguments.subwords))
        return changes

    @classmethod
    def modes(cls) -> dict[str, Mode]:
        return {"translate": _translate, "overlap": _overlap}

    @property
    def subwords(self) -> Subwords:
        return self.vocabularies["subwords.model"]

    @property
    def epoch_size(self) -> int:
        return self.pairs["train"].target_tokens

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
        self.pairs = {"train": self.training_pairs()}
        corpus = self.corpus()
        self.text = {split: list(corpus.pairs(split)) for split in corpus.splits if split != "train"}
        encoded = {
            split: SentencePairs.encode(pairs, self.subwords, self.subwords) for split, pairs in self.text.items()
        }
        self.pairs |= encoded

    def training_pairs(self) -> SentencePairs:
        if self.settings.prepared:
            return PreparedPairs(self.settings.prepared).pairs("train", self.subwords)
        maximum = self.recipe.data.maximum_length
        return SentencePairs.encode(self.corpus().pairs("train"), self.subwords, self.subwords, maximum)

    def build_model(self, **changes: Any) -> keras.Model:
        size = len(self.subwords)
        return self.create_model(changes, source_vocabulary_size=size, target_vocabulary_size=size)

    def describe(self, model: keras.Model) -> str:
        shared = ""
        if not self.settings.prepared:  # counting them reads all of the text
            counts = self.pairs["train"].overlap()
            shared = (
                f"; in the training text {counts['only_source']:,} only in the source, "
                f"{counts['only_target']:,} only in the target, {counts['both']:,} in both"
            )
        return (
            f"parameters  {model.count_params():,} (untied: {self.build_model(tying='none').count_params():,})\n"
            f"vocabulary  {len(self.subwords):,} subwords{shared}\n"
            + "\n".join(
                f"{split:10}  {len(pairs):,} pairs, {pairs.source_tokens:,} source and {pairs.target_tokens:,} target "
                f"subwords; left out: {pairs.skipped} empty, {pairs.too_long} too long"
                for split, pairs in self.pairs.items()
            )
        )

    def batches(self, model: keras.Model) -> "TranslationBatches":
        cut = PairBatches(self.pairs["train"], self.recipe.optimisation.batch_tokens, self.settings.seed)
        return TranslationBatches(cut, backend.replicas.replicas_of(model))

    def validate(self, model: keras.Model) -> dict[str, float]:
        """Perplexity, and BLEU of greedy translations."""
        perplexity = pair_perplexity(model, self.pairs["valid"])
        sources, references = zip(*self.text["valid"], strict=True)
        self.translations = translate_sentences(model, self.subwords, sources, beam_size=1)
        return {"val_perplexity": perplexity, "val_bleu": translation_scores(self.translations, references)["bleu"]}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        """The first sentences of the validation text beside their references and translations."""
        rows = zip(self.text["valid"][:SAMPLES], self.translations, strict=False)
        sentences = [(source, reference, translation) for (source, reference), translation in rows]
        return "translations", markdown_table(("source", "reference", "translation"), sentences)

    def plot(self, model: keras.Model) -> "tuple[str, Figure]":
        return "attention", attention_plot(model, self.subwords, self.text["valid"][0][0], self.translations[0])

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        source, target = self.pairs["train"].counts(len(self.subwords))
        by_role = {"source": source, "tied": source + target}
        return {
            role: dict(zip(self.subwords.words, by_role.get(role, target).tolist(), strict=True))
            for role in model.embedding_matrices()
        }

    def measure(self, model: keras.Model, progress: Progress | None = None, beam_size: int = 5) -> dict[str, Any]:
        """BLEU, chrF and perplexity of every split but the training text, under names such as `test_bleu`."""
        results: dict[str, Any] = {}
        for split, pairs in self.text.items():
            name = "validation" if split == "valid" else split
            sources, references = zip(*pairs, strict=True)
            scores = translation_scores(translate_sentences(model, self.subwords, sources, beam_size), references)
            results[f"{name}_perplexity"] = pair_perplexity(model, self.pairs[split])
            results |= {f"{name}_{metric}": score for metric, score in scores.items()}
        return {**results, "beam": beam_size}

    def headline(self, results: dict[str, Any]) -> str:
        return (
            f"test BLEU {results['test_bleu']:.2f}, chrF {results['test_chrf']:.2f}, "
            f"perplexity {results['test_perplexity']:.2f}"
        )

    def export(self, model: keras.Model, path: Path) -> None:
        from keras_tying.export import export_translator

        export_translator(model, self.subwords, path)

    def evaluate(self, model: keras.Model, arguments: Namespace) -> list[str]:
        results = self.measure(model, beam_size=arguments.beam)
        return [
            f"{name:22}  {value if isinstance(value, str) else format(value, '.2f')}" for name, value in results.items()
        ]


class TranslationBatches(EpochBatches):
    """Batches of sentence pairs in the order that `PairBatches` gives them.

    Args:
        pairs: The text.
        replicas: Number of replicas of the model. Each gets the same number of rows of a batch.
    """

    one_shape = False

    def __init__(self, pairs: PairBatches, replicas: int = 1):
        super().__init__()
        self.pairs = pairs
        self.total = len(pairs)
        self.words_per_batch = round(pairs.pairs.target_tokens / len(pairs))
        self.row_multiple = math.lcm(replicas, SHAPE_MULTIPLE)
        self.begin(0)

    def __getitem__(self, index):
        return self.rows(index, 0, 1)

    def rows(self, index: int, replica: int, replicas: int):
        """The rows of a batch that belong to one replica; only their sentences are read and padded."""
        chosen = self._order[self.first_batch + index]
        return self.pairs.pairs.batch(chosen, SHAPE_MULTIPLE, self.row_multiple, part=(replica, replicas))

    def begin(self, epoch: int, first_batch: int = 0) -> None:
        super().begin(epoch, first_batch)
        self._order = self.pairs.order(epoch)


def pair_perplexity(model: keras.Model, pairs: SentencePairs) -> float:
    """Exact perplexity of the target sentences, including their ends, given their sources."""
    total = 0.0
    for chosen in PairBatches(pairs, max(POSITIONS_PER_CALL, pairs.longest()), seed=0).order(0):
        inputs, targets, weights = pairs.batch(chosen, SHAPE_MULTIPLE, SHAPE_MULTIPLE)
        scores = model.score(inputs, np.where(weights > 0, targets, PAD_ID))
        total -= float(np.sum(scores, dtype=np.float64))
    return perplexity_of(total / pairs.target_tokens)


def translate_sentences(
    model: keras.Model, subwords: Subwords, sentences: Sequence[str], beam_size: int = 5, length_penalty: float = 1.0
) -> list[str]:
    """Translates sentences; those of similar length are translated together.

    Args:
        model: A `Translator`.
        subwords: Its subwords, of both languages.
        sentences: Text. A sentence without words has the translation `""`. Subwords after the first
            `LONGEST_SENTENCE` of a sentence are not read, as in an exported model.
        beam_size: Hypotheses per sentence; 1 is greedy.
        length_penalty: See `Translator.translate`.
    """
    if beam_size < 1:
        raise ValueError(f"The beam size must be at least 1. Received: {beam_size}")
    encoded = [subwords.encode(sentence) for sentence in sentences]
    encoded = [np.append(ids[:LONGEST_SENTENCE], ids[-1]) if len(ids) > LONGEST_SENTENCE else ids for ids in encoded]
    translations = [""] * len(encoded)
    waiting = sorted((i for i, ids in enumerate(encoded) if len(ids) > 1), key=lambda i: -len(encoded[i]))
    while waiting:
        size = max(1, POSITIONS_PER_CALL // (beam_size * len(encoded[waiting[0]])))
        batch, waiting = waiting[:size], waiting[size:]
        source = pad_sentences([encoded[i] for i in batch])
        found = model.translate(source, subwords.end_id, beam_size, length_penalty=length_penalty)
        for i, words in zip(batch, found.words[:, 0], strict=True):
            translations[i] = subwords.decode(words)
    return translations


def _translate(arguments: Namespace, new_task: Callable[[], TranslationTask]) -> int:
    """Prints the translations of the lines of standard input; `--attention` plots the first sentence's attention."""
    run = Run.open(arguments.translate)
    task = open_task(TranslationTask, run)
    model, plot = run.load_model(), arguments.attention
    first = 1
    for sentences in _chunks(sys.stdin.buffer):
        for number, sentence in enumerate(sentences, start=first):
            if (length := len(task.subwords.encode(sentence)) - 1) > LONGEST_SENTENCE:
                log.warning(
                    f"Standard input, line {number}: only the first {LONGEST_SENTENCE} of {length:,} subwords are "
                    "translated. Write one sentence per line."
                )
        first += len(sentences)
        translations = translate_sentences(model, task.subwords, sentences, arguments.beam)
        print(*translations, sep="\n", flush=True)
        if plot is not None:
            image = io.BytesIO()
            figure = attention_plot(model, task.subwords, sentences[0], translations[0])
            figure.savefig(image, format=plot.suffix[1:] or "png", dpi=150)
            write_atomically(plot, image.getvalue())
            plot = None
    return 0


def _chunks(file: BinaryIO) -> Iterator[list[str]]:
    number = 0
    while chunk := list(islice(file, SENTENCES_PER_CALL)):
        lines = []
        for line in chunk:
            number += 1
            try:
                lines.append(line.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Standard input, line {number}: expected UTF-8, received byte {line[error.start]:#04x}."
                ) from None
        yield lines


def _overlap(arguments: Namespace, new_task: Callable[[], TranslationTask]) -> int:
    """Prints how many subwords of the training text occur in one language only and in both.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
    """
    task = new_task()
    data = task.recipe.data
    task.vocabularies = task.learn_vocabularies()
    counts = task.training_pairs().overlap()
    source, target = data.source_language.upper(), data.target_language.upper()
    print(f"Subwords only in {source}  {counts['only_source']:>8,}")
    print(f"Subwords only in {target}  {counts['only_target']:>8,}")
    print(f"Subwords in both     {counts['both']:>8,}")
    if arguments.record:
        results = {
            "corpus": data.corpus,
            "source": data.source_language,
            "target": data.target_language,
            "subwords": len(task.subwords),
            **counts,
            **environment(),
            "command": task.settings.command,
        }
        print(write_results(f"overlap_{data.corpus}_{source}_{target}".lower(), results))
    return 0


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown. Characters of a cell that have a meaning in Markdown or HTML stand for themselves."""
    cells = [[_markdown_cell(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *cells))


def _markdown_cell(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def attention_plot(model: keras.Model, subwords: Subwords, source: str, translation: str) -> "Figure":
    """Attention weights of a translation: one row per target subword, one column per source subword; dark is large."""
    from matplotlib.figure import Figure

    ids, words = subwords.encode(source), subwords.encode(translation)
    before = np.concatenate([[PAD_ID], words[:-1]]).astype(np.int32)
    weights = model.attend({"source": pad_sentences([ids]), "target": before[None]})[0]
    columns, rows = ([*subwords.pieces(text), "</s>"] for text in (source, translation))
    figure = Figure(figsize=(2 + 0.28 * len(columns), 1.5 + 0.28 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(columns)), [label.replace("▁", " ") for label in columns], rotation=90)
    axes.set_yticks(range(len(rows)), [label.replace("▁", " ") for label in rows])
    axes.xaxis.tick_top()
    axes.set_xlabel("source")
    axes.set_ylabel("translation")
    return figure
