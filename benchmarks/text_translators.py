"""What translates a text by a trained model: the model itself, and a copy of it in PyTorch.

Sentences of a text differ in length and end at different steps, which random ones do not. Batches are of 100 sentences
of like length. PyTorch translates twice: as a plain loop, which ends when the last sentence does, and with finished
sentences taken out of the batch.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.contenders import Work, timed
from benchmarks.translators import BEAM, DecodingSize
from keras_tying.data import Subwords, filled_up
from keras_tying.data.text import read_lines

KIND = "translated text"


@dataclass(frozen=True)
class TextSize(DecodingSize):
    """A trained model's run, the file it is to translate, and the sentences of a batch."""

    run: str = ""
    text: str = ""
    batch: int = 100


def opened(size: TextSize):
    """A run's translator, its subwords, and the text's sentences in batches, the longest first."""
    from keras_tying.training import Run

    run = Run.open(size.run)
    subwords = Subwords.load(run.subwords)
    encoded = sorted(map(subwords.encode, read_lines(Path(size.text))), key=len, reverse=True)
    batches = [encoded[start : start + size.batch] for start in range(0, len(encoded), size.batch)]
    return run.load_model(), subwords, batches


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
        words = model.translate(filled_up(batch), end, BEAM).words[:, 0]
        return [row[row >= 0].tolist() for row in words]

    return translate


def _pytorch(model, end: int, drop_finished: bool):
    import torch

    from benchmarks.pytorch_translator import beam_search, with_weights_of

    copy = with_weights_of(model)

    def translate(batch) -> list[list[int]]:
        source = torch.from_numpy(np.maximum(filled_up(batch), 0)).long()
        lengths = torch.tensor([len(sentence) for sentence in batch])
        return beam_search(copy, source, lengths, 2 * lengths + 10, BEAM, end, drop_finished)

    return translate


def share_alike(model, end: int, batches) -> float:
    """The share of sentences of which the model and its copy make the same translation."""
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
