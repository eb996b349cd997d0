"""Contenders with an attention-based translator: this library, plain PyTorch and JoeyNMT.

The model in PyTorch has the same architecture, see `pytorch_translator`. The recurrent model of JoeyNMT has one GRU in
its decoder and no readout layer of the size of the embedding; without input feeding it is the most similar model that
JoeyNMT has. JoeyNMT requires an older protobuf than TensorFlow, so it is not in the extra `bench`. Install it with
`pip install --no-deps joeynmt`, and the pure-Python packages that it imports.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.work import Size, Work, fit_seconds, timed
from keras_tying.data import PAD_ID

BEAM = 5
END = 1


@dataclass(frozen=True)
class TranslationSize(Size):
    """A translator's size. Source and target sentences have `sequence_length` words each."""

    vocabulary: int = 8_000
    units: int = 256
    embedding: int = 256
    batch_size: int = 80
    sequence_length: int = 15


@dataclass(frozen=True)
class DecodingSize(TranslationSize):
    """As `TranslationSize`; speed is counted in sentences."""

    @property
    def words(self) -> int:
        """Sentences per batch."""
        return self.batch_size


def batches(size: TranslationSize, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Source and target of `count` batches: random words, without the first ten, which may be special."""
    rng = np.random.default_rng(0)
    shape = (count * size.batch_size, size.sequence_length)
    return tuple(rng.integers(min(10, size.vocabulary - 1), size.vocabulary, shape, np.int32) for _ in range(2))


def words_before(target: np.ndarray) -> np.ndarray:
    """The word before each target word, as `Translator` takes them."""
    return np.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=PAD_ID)


def keras_tying_model(size: TranslationSize):
    import keras_tying as kt

    return kt.zoo.dl4mt(size.vocabulary, size.vocabulary, "three_way", size.embedding, size.units)


def train_keras_tying(size: TranslationSize) -> Work:
    import keras

    import keras_tying as kt
    from keras_tying.training.engine import STEPS_PER_EXECUTION

    model = keras_tying_model(size)
    loss = kt.losses.SequenceCrossEntropy(reduction="mean_with_sample_weight", label_smoothing=0.1)
    model.compile(keras.optimizers.Adam(1e-3, global_clipnorm=1.0), loss, steps_per_execution=STEPS_PER_EXECUTION)

    def work(count: int) -> float:
        source, target = batches(size, count)
        inputs = {"source": source, "target": words_before(target)}
        return fit_seconds(model, inputs, target, batch_size=size.batch_size)

    return work


def translate_keras_tying(size: TranslationSize) -> Work:
    model = keras_tying_model(size)

    @timed
    def work(count: int) -> None:
        source, _ = batches(size, count)
        for rows in np.split(source, count):
            model.translate(rows, END, BEAM, maximum_length=size.sequence_length)

    return work


# PyTorch


def pytorch_model(size: TranslationSize):
    import torch

    from benchmarks.pytorch_translator import PyTorchTranslator

    torch.manual_seed(0)
    return PyTorchTranslator(size.vocabulary, size.embedding, size.units)


def train_pytorch(size: TranslationSize) -> Work:
    import torch
    from torch.nn import functional

    model = pytorch_model(size)
    lengths = torch.full((size.batch_size,), size.sequence_length)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @timed
    def work(count: int) -> None:
        arrays = (torch.from_numpy(array).long().split(size.batch_size) for array in batches(size, count))
        for rows, words in zip(*arrays, strict=True):
            logits = model(rows, lengths, words)
            loss = functional.cross_entropy(logits.flatten(0, 1), words.flatten(), label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return work


def translate_pytorch(size: TranslationSize) -> Work:
    import torch

    from benchmarks.pytorch_translator import beam_search

    model = pytorch_model(size)
    lengths = torch.full((size.batch_size,), size.sequence_length)

    @timed
    def work(count: int) -> None:
        for rows in torch.from_numpy(batches(size, count)[0]).long().split(size.batch_size):
            beam_search(model, rows, lengths, lengths, BEAM, END, drop_finished=False)

    return work


# JoeyNMT


def _joeynmt_model(size: TranslationSize):
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    ids = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None, "lang_tags": []}
    words = [f"w{i}" for i in range(size.vocabulary - 4)]
    vocabulary = Vocabulary(words, SimpleNamespace(**special, **ids))
    embeddings = {"embedding_dim": size.embedding, "scale": False}
    shared = {"type": "recurrent", "rnn_type": "gru", "embeddings": embeddings, "hidden_size": size.units}
    shared |= {"dropout": 0.0, "num_layers": 1}
    model = build_model(
        {
            "tied_embeddings": True,
            "tied_softmax": size.embedding == size.units,
            "encoder": {**shared, "bidirectional": True},
            "decoder": {**shared, "attention": "bahdanau", "input_feeding": False, "hidden_dropout": 0.0},
        },
        vocabulary,
        vocabulary,
    )
    model.loss_function = ("crossentropy", 0.1)
    return model


def _joeynmt_batch(source: np.ndarray, target: np.ndarray | None = None):
    import torch
    from joeynmt.batch import Batch

    if target is not None:
        target = torch.from_numpy(np.pad(target, ((0, 0), (1, 1)), constant_values=((0, 0), (2, 3)))).long()
    lengths = torch.full((len(source),), source.shape[1])
    device = torch.device("cpu")
    indices = torch.arange(len(source))
    return Batch(torch.from_numpy(source).long(), lengths, None, target, None, indices, device, 1, 3)


def train_joeynmt(size: TranslationSize) -> Work:
    import torch

    model = _joeynmt_model(size)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @timed
    def work(count: int) -> None:
        source, target = batches(size, count)
        for rows, words in zip(np.split(source, count), np.split(target, count), strict=True):
            loss, *_ = model(return_type="loss", **vars(_joeynmt_batch(rows, words[:, :-1])))
            optimizer.zero_grad(set_to_none=True)
            (loss / words.size).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return work


def translate_joeynmt(size: TranslationSize) -> Work:
    from joeynmt.search import search

    model = _joeynmt_model(size).eval()

    @timed
    def work(count: int) -> None:
        for rows in np.split(batches(size, count)[0], count):
            search(model, _joeynmt_batch(rows), max_output_length=size.sequence_length, beam_size=BEAM, beam_alpha=1.0)

    return work


CONTENDERS: dict[str, dict[str, Callable[[TranslationSize], Work]]] = {
    "translation training": {
        "keras-tying": train_keras_tying,
        "PyTorch": train_pytorch,
        "JoeyNMT": train_joeynmt,
    },
    "translation decoding": {
        "keras-tying": translate_keras_tying,
        "PyTorch": translate_pytorch,
        "JoeyNMT": translate_joeynmt,
    },
}
