"""Plots of joint language models: perplexity over a quantity, and which input words the first layer listens to."""

from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from keras_tying.study.plots import COLOURS, write_png


def word_weights(model) -> np.ndarray:
    """|W| of the first hidden layer, for the words of window and history.

    Args:
        model: A `JointLanguageModel`.

    Returns:
        `[window + order - 1, embedding_size, units]`: window first, then history, oldest first.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 5.1.2.
    """
    weights = np.abs(keras.ops.convert_to_numpy(model.hidden_layers[0].kernel))
    size, window, history = model.embedding_size, model.window * model.embedding_size, model.order - 1
    words = np.concatenate([weights[:window], weights[len(weights) - history * size :]])  # between: global context
    return words.reshape(model.window + history, size, -1)


def position_weights(model) -> list[float]:
    """Mean |W| of each word of window and history."""
    return [round(float(value), 6) for value in word_weights(model).mean(axis=(1, 2))]


def draw_weights(model, path: Path) -> Path:
    """Draws |W| by input and hidden unit, the paper's figure 11, as PNG; returns its path."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    words = word_weights(model)
    image = axes.imshow(words.reshape(-1, words.shape[-1]).T, aspect="auto", cmap="viridis", interpolation="nearest")
    middles = [model.embedding_size * (place + 0.5) for place in range(len(words))]
    axes.set_xticks(middles, _names(len(words), model.window), fontsize=7)
    axes.set_ylabel("hidden unit")
    figure.colorbar(image, label="|W|")
    return write_png(figure, path)


def draw_position_weights(means: list[float], window: int, path: Path) -> Path:
    """Draws mean |W| by input word, the paper's figure 12, as PNG; returns its path.

    Args:
        means: Of the words of window and history, as `position_weights` gives them.
        window: How many of them are the window's.
        path: The file to write.
    """
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(means))
    axes.bar(places[:window], means[:window], color=COLOURS[0], label="source window")
    axes.bar(places[window:], means[window:], color=COLOURS[1], label="target history")
    axes.set_xticks(places, _names(len(means), window), fontsize=8)
    axes.set_ylabel("mean |W|")
    axes.legend()
    return write_png(figure, path)


def draw_curves(curves: dict[str, tuple[list[float], list[float]]], path: Path) -> Path:
    """Draws one panel a quantity, validation perplexity over its values, the paper's figures 5 to 10, as PNG.

    Args:
        curves: By the quantity's name its values and the perplexities they gave.
        path: The file to write.

    Returns:
        The path.
    """
    rows = -(-len(curves) // 3)
    figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
    panels = np.ravel(figure.subplots(rows, 3))
    for axes, (name, (values, perplexities)) in zip(panels, curves.items(), strict=False):
        places = range(len(values))
        axes.plot(places, perplexities, "o-", ms=3, color=COLOURS[0])
        step = max(1, len(values) // 6)
        axes.set_xticks(places[::step], [f"{value:g}" for value in values[::step]])
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    for axes in panels[len(curves) :]:
        axes.remove()
    figure.supylabel("validation perplexity")
    return write_png(figure, path)


def _names(words: int, window: int) -> list[str]:
    """`s-1`, `s`, `s+1` for the source words around the affiliated one, `t-1` for the target word before."""
    source = [f"s{place:+d}" if place else "s" for place in range(-(window // 2), window - window // 2)]
    return source + [f"t-{place}" for place in range(words - window, 0, -1)]
