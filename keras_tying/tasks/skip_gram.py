"""Skip-gram: word vectors with negative sampling from a text of any length."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_tying.backend.replicas import replicas_of
from keras_tying.data import (
    PreparedCorpus,
    PreparedText,
    SkipGramBatches,
    ids_on_disk,
    save_word_vectors,
    without_special_words,
    word_counts,
)
from keras_tying.data.skip_gram import check_enough_words, noise_distribution
from keras_tying.data.word_vectors import check_words
from keras_tying.inference import TrainedWordVectors
from keras_tying.metrics import nearest_neighbours
from keras_tying.models import SkipGram
from keras_tying.tasks.markdown import markdown
from keras_tying.tasks.text import TextTask, open_corpus
from keras_tying.training.batches import EpochBatches
from keras_tying.training.progress import Progress
from keras_tying.training.runs import Run
from keras_tying.zoo.recipes import Loss

SPAN = 16
"""Words per span of text. The words of a span share their negatives."""
SPANS_PER_BATCH = 64
LARGEST_STEP = 12.0
"""Largest learning rate times number of draws of a word per batch; see `spans_per_batch`."""


class SkipGramTask(TextTask):
    """Skip-gram word vectors, untied or tied."""

    name = "skip_gram"
    model_class = SkipGram
    splits = ("train",)
    validation_metrics = ()

    ids: np.ndarray | PreparedText
    """Word ids of the training text, on disk."""

    @property
    def epoch_size(self) -> int:
        return len(self.ids)

    def learn_vocabularies(self) -> dict[str, Any]:
        vocabulary = self.vocabulary_of_corpus()
        check_enough_words(len(vocabulary) - 2)  # without <unk> and <eos>
        check_words(vocabulary.words)
        return {"vocabulary.txt": vocabulary}

    def load_text(self) -> None:
        corpus = open_corpus(self.settings)
        if isinstance(corpus, PreparedCorpus):
            self.ids = corpus.ids("train", self.vocabulary)
        else:
            self.ids = ids_on_disk(corpus.tokens("train"), self.vocabulary)

    def build_model(self) -> keras.Model:
        return self.create_model(vocabulary_size=len(self.vocabulary))

    def describe(self, model: keras.Model) -> str:
        return (
            f"parameters  {model.count_params():,}{', tied' if model.tied else ''}\n"
            f"vocabulary  {len(self.vocabulary):,} words\n"
            f"text        {len(self.ids):,} tokens"
        )

    def batches(self, model: keras.Model) -> "SpanBatches":
        data, replicas = self.recipe.data, replicas_of(model)
        counts = word_counts(self.ids, self.vocabulary)
        rate = self.recipe.optimisation.learning_rate
        text = SkipGramBatches(
            self.ids,
            counts,
            self.vocabulary.end_id,
            data.window,
            data.subsample,
            SPAN,
            spans_per_batch(counts, rate, model.negatives, data.window, replicas),
            seed=self.settings.seed,
        )
        for epoch in range(self.recipe.optimisation.epochs):
            if not any(batch["pairs"].any() for batch in text.epoch(epoch)):
                raise ValueError(
                    "Expected words beside each other in a line, in every epoch. Received: none in epoch "
                    f"{epoch + 1} with data.subsample={data.subsample}. Use more text or longer lines, or raise "
                    "data.subsample; 0 keeps every word."
                )
        return SpanBatches(text)

    def loss(self) -> str:
        if self.recipe.loss != Loss():
            raise ValueError(f"Skip-gram has a loss of its own: leave out [loss]. Received: {self.recipe.loss}")
        return "auto"

    def validate(self, model: keras.Model) -> dict[str, float]:
        return {}

    def sample(self, model: keras.Model) -> tuple[str, str]:
        lines = self._nearest_words(model)
        return "nearest words", "\n".join(f"- {markdown(word)}: {markdown(', '.join(near))}" for word, near in lines)

    def _nearest_words(self, model: keras.Model) -> Iterator[tuple[str, list[str]]]:
        """Words from the middle of the vocabulary with the words nearest to them."""
        matrix = keras.ops.convert_to_numpy(model.embedding.embeddings)
        words, vectors = without_special_words(self.vocabulary, matrix)
        ids = np.unique((np.linspace(0.05, 0.25, 20) * len(words)).astype(int))
        nearest, _ = nearest_neighbours(vectors, ids, 8)
        return ((words[i], [words[j] for j in near]) for i, near in zip(ids, nearest, strict=True))

    def word_frequencies(self, model: keras.Model) -> dict[str, dict[str, int]]:
        return dict.fromkeys(model.embedding_matrices(), self.vocabulary.frequencies(self.ids))

    def last_metrics(self, progress: Progress) -> dict[str, Any]:
        return {"pair_loss": progress.history[-1]["pair_loss"]}

    def measure(self, model: keras.Model) -> dict[str, Any]:
        return {"tokens": len(self.ids)}

    def headline(self, results: dict[str, Any]) -> str:
        return f"loss per pair {results['pair_loss']:.4f}"

    def trained(self, model: keras.Model) -> TrainedWordVectors:
        return TrainedWordVectors(model, self.vocabulary)

    def write_artifacts(self, model: keras.Model, run: Run) -> list[Path]:
        """Each embedding in word2vec's text and binary format."""
        paths = []
        for role, vectors in model.embedding_matrices().items():
            for path in (run.folder / f"{role}.txt", run.folder / f"{role}.bin"):
                save_word_vectors(path, *without_special_words(self.vocabulary, np.asarray(vectors)))
                paths.append(path)
        return paths

    def evaluate(self, model: keras.Model, arguments: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "nearest words; what the vectors have learned is measured by train/embeddings.py", {}
        yield "\n".join(f"- {word}: {', '.join(near)}" for word, near in self._nearest_words(model)), {}


class SpanBatches(EpochBatches):
    """The batches of `SkipGramBatches`, streamed in the order of the text.

    Args:
        text: The batches of each epoch.
    """

    def __init__(self, text: SkipGramBatches):
        super().__init__()
        self.text = text
        self.total = text.batches
        self.words_per_batch = round(len(text.ids) / text.batches)

    def feed(self, model: keras.Model) -> dict[str, Any]:
        batches = self.text.epoch(self.epoch, self.first_batch)
        return {"x": ((batch,) for batch in batches), "steps_per_epoch": len(self)}


def spans_per_batch(counts: np.ndarray, learning_rate: float, negatives: int, window: int, replicas: int = 1) -> int:
    """The number of spans whose updates may be summed, so that a batch does what word2vec's single updates do.

    The most frequent word is drawn as a negative many times per batch, and its vector moves by the sum of the
    updates. If learning rate times draws exceeds `LARGEST_STEP`, as it soon does with a small vocabulary, the vector
    overshoots and training diverges. A smaller batch avoids that.

    Args:
        counts: Occurrences `[V]`.
        learning_rate: The rate at the start.
        negatives: Negatives per pair.
        window: Maximum distance of a context word.
        replicas: Number of replicas of the model. Each gets the same number of spans.
    """
    draws = negatives * (window + 1) * noise_distribution(counts).max()  # per word of the text
    spans = int(np.clip(LARGEST_STEP / (learning_rate * draws * SPAN), 1, SPANS_PER_BATCH))
    return max(spans // replicas, 1) * replicas
