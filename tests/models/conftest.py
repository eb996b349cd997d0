import pytest

import keras_tying as kt
from tests.models.copies import V


@pytest.fixture
def text():
    corpus = kt.data.load_corpus("embedded")
    text = kt.data.windows(corpus.ids("train", corpus.vocabulary(V))[:400], batch_size=8, sequence_length=4)
    return text.inputs[:16], text.targets[:16]
