"""What a translation model attends to, drawn."""

from collections.abc import Sequence

import keras
import numpy as np
from matplotlib.figure import Figure

from keras_tying.data import Subwords
from keras_tying.training.translation_evaluation import filled_up


def attention_figure(model: keras.Model, subwords: Subwords, source: str, translation: str) -> Figure:
    """Attention weights of a translation: a row a target subword, a column a source subword, dark is much."""
    ids, words = subwords.encode(source), subwords.encode(translation)
    before = np.concatenate([[-1], words[:-1]]).astype(np.int32)
    weights = model.attend({"source": filled_up([ids]), "target": before[None]})[0]
    columns, rows = ([*subwords.pieces(text), "</s>"] for text in (source, translation))
    return weights_figure(weights, columns, rows)


def weights_figure(weights: np.ndarray, columns: Sequence[str], rows: Sequence[str]) -> Figure:
    """Weights `[T, S]` as shades of grey between their labels."""
    figure = Figure(figsize=(2 + 0.28 * len(columns), 1.5 + 0.28 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(columns)), [label.replace("▁", " ") for label in columns], rotation=90)
    axes.set_yticks(range(len(rows)), [label.replace("▁", " ") for label in rows])
    axes.xaxis.tick_top()
    axes.set_xlabel("source")
    axes.set_ylabel("translation")
    return figure
