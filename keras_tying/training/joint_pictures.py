"""Pictures of a joint language model: which input words its first layer listens to. Needs matplotlib."""

from pathlib import Path

import keras
import numpy as np


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


def draw_heat_map(model, path: str | Path) -> None:
    """Draws |W| by input and hidden unit, the paper's figure 11, as PNG."""
    figure, axes = _figure(9, 3)
    words = word_weights(model)
    image = axes.imshow(words.reshape(-1, words.shape[-1]).T, aspect="auto", cmap="viridis", interpolation="nearest")
    size = model.embedding_size
    places = range(len(words))
    axes.set_xticks([size * (place + 0.5) for place in places], _names(len(words), model.window), fontsize=7)
    axes.set_ylabel("hidden unit")
    figure.colorbar(image, label="|W|")
    figure.savefig(path, dpi=90)


def draw_position_weights(means: list[float], window: int, path: str | Path) -> None:
    """Draws mean |W| by input word, the paper's figure 12, as PNG."""
    figure, axes = _figure(7, 3)
    places = np.arange(len(means))
    axes.bar(places[:window], means[:window], label="source window")
    axes.bar(places[window:], means[window:], label="target history")
    axes.set_xticks(places, _names(len(means), window), fontsize=8)
    axes.set_ylabel("mean |W|")
    axes.legend()
    figure.savefig(path, dpi=90)


def draw_curves(curves: dict[str, tuple[list, list[float]]], path: str | Path) -> None:
    """Draws one panel a quantity, validation perplexity over its values, the paper's figures 5 to 10, as PNG.

    Args:
        curves: By the quantity's name its values and the perplexities they gave.
        path: The file to write.
    """
    figure, panels = _figure(9, 2.6 * -(-len(curves) // 3), (-(-len(curves) // 3), 3))
    for axes, (name, (values, perplexities)) in zip(np.ravel(panels), curves.items(), strict=False):
        places = range(len(values))
        axes.plot(places, perplexities, marker="o", markersize=3)
        step = max(1, len(values) // 6)
        axes.set_xticks(places[::step], [f"{value:g}" for value in values[::step]])
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    for axes in np.ravel(panels)[len(curves) :]:
        axes.remove()
    figure.supylabel("validation perplexity")
    figure.savefig(path, dpi=90)


def _names(words: int, window: int) -> list[str]:
    """`s-1`, `s`, `s+1` for the source words around the affiliated one, `t-1` for the target word before."""
    source = [f"s{place:+d}" if place else "s" for place in range(-(window // 2), window - window // 2)]
    return source + [f"t-{place}" for place in range(words - window, 0, -1)]


def _figure(width: float, height: float, panels: tuple[int, int] = (1, 1)):
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Pictures need matplotlib: pip install keras-tying[plot].") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(*panels)
