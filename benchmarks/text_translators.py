"""Contenders that translate a text: a trained model and a copy of it in PyTorch.

Unlike random sentences, the sentences of a text differ in length, and their translations end at different steps. A
batch holds 100 sentences of similar length. There are two contenders in PyTorch: a plain loop, which runs until the
last sentence of the batch is finished, and one that removes finished sentences from the batch.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks.translators import BEAM, DecodingSize
from benchmarks.work import Work, timed
from keras_tying.data import pad_sentences, read_lines

KIND = "translated text"


@dataclass(frozen=True)
class TextSize(DecodingSize):
    """The run of a trained model, the file to translate, and the number of sentences per batch."""

    run: str = ""
    text: str = ""
    batch_size: int = 100

    def tiny(self) -> Self:
        return replace(self, run="embedded_en_de")


def opened(size: TextSize):
    """The translator of a run, its subwords, and the sentences of the text in batches, longest first."""
    from keras_tying.pretrained.loading import load_for

    trained = load_for("translation", size.run)
    encoded = sorted(map(trained.subwords.encode, read_lines(Path(size.text))), key=len, reverse=True)
    batches = [encoded[start : start + size.batch_size] for start in range(0, len(encoded), size.batch_size)]
    return trained.model, trained.subwords, batches


def translate_keras_tying(size: TextSize) -> Work:
    return _work(size, _keras_tying)


def translate_pytorch(size: TextSize, drop_finished: bool) -> Work:
    return _work(size, partial(_pytorch, drop_finished=drop_finished))


def _work(size: TextSize, translator) -> Work:
    model, subwords, batches = opened(size)
    translate = translator(model, subwords.end_id)

    @timed
    def work(count: int) -> None:
        for batch in batches[:count]:
            translate(batch)

    return work


def _keras_tying(model, end: int):
    def translate(batch) -> list[list[int]]:
        words = model.translate(pad_sentences(batch), end, BEAM).words[:, 0]
        return [row[row >= 0].tolist() for row in words]

    return translate


def _pytorch(model, end: int, drop_finished: bool):
    import torch

    from benchmarks.pytorch_translator import beam_search, with_weights_of

    copy = with_weights_of(model)

    def translate(batch) -> list[list[int]]:
        source = torch.from_numpy(np.maximum(pad_sentences(batch), 0)).long()
        lengths = torch.tensor([len(sentence) for sentence in batch])
        return beam_search(copy, source, lengths, 2 * lengths + 10, BEAM, end, drop_finished)

    return translate


def share_alike(model, end: int, batches) -> float:
    """Share of sentences that the model and its copy translate alike."""
    ours, theirs = _keras_tying(model, end), _pytorch(model, end, drop_finished=True)
    alike = [here == there for batch in batches for here, there in zip(ours(batch), theirs(batch), strict=True)]
    return round(float(np.mean(alike)), 4)


CONTENDERS = {
    KIND: {
        "keras-tying": translate_keras_tying,
        "PyTorch": partial(translate_pytorch, drop_finished=False),
        "PyTorch, dropping finished": partial(translate_pytorch, drop_finished=True),
    }
}
