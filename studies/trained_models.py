"""The trained models: their page, and the work of `train/trained_models.py`."""

import argparse
import time
from pathlib import Path
from typing import Any

from keras_tying.backend import NAME as BACKEND
from keras_tying.data import load_corpus, load_parallel
from keras_tying.inference import TrainedLanguageModel
from keras_tying.metrics import translation_scores
from keras_tying.pretrained import load
from keras_tying.tables import Table, load_table
from keras_tying.training import Run, environment
from keras_tying.zoo.presets import MANIFEST, Preset, find_preset, read_preset
from keras_tying.zoo.recipes import ParallelData, TextData, load_recipe, recipe_folder
from studies.pages import DASH, Section, code, names_text, origin, page, section, spelled, table
from studies.results import read_results, write_results

USE = {
    "language_model": 'kt.load("{name}").generate("the value of", length=20)',
    "translation": 'kt.load("{name}").translate(["{sentence}"])',
    "joint_language_model": 'kt.load("{name}").next_words("我 也 是 中国 人", "0-0 2-1", "i am", k=3)',
    "skip_gram": 'kt.load("{name}").similar_words("music", k=5)',
}
"""The second of the two lines that load and use a model."""


TEST_METRICS = {"test_bleu": "BLEU", "test_perplexity": "perplexity"}
"""What the overview shows of the test text: the first of these that was measured."""
BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


class About(Table):
    """What cannot be computed about a trained model."""

    text: str
    """Its training text, and to whom that belongs."""
    limits: str
    """What it is not good for."""
    sentence: str = ""
    """A sentence that it can translate."""


class Page(Section):
    """`studies/trained_models.toml` of the zoo."""

    models: dict[str, About]


def trained_page(folder: Path) -> str:
    """The page of the trained models of the zoo's folder."""
    content = load_table(Page, folder / "studies" / "trained_models.toml")
    presets = {path.parent.name: path.parent for path in sorted((folder / "presets").glob(f"*/{MANIFEST}"))}
    if content.models.keys() != presets.keys():
        raise ValueError(
            f"trained_models.toml must have the models {sorted(presets)}. Received: {sorted(content.models)}"
        )
    parts = [overview({name: presets[name] for name in content.models})]
    for name, about in content.models.items():
        parts += _section(name, about, presets[name], folder)
    return page(content, parts)


def overview(presets: dict[str, Path]) -> str:
    """The table of trained models: task, size and metric of the test text."""
    rows = []
    for name, place in presets.items():
        preset = read_preset(place)
        found = (f"{title} {preset.measured[key]:.1f}" for key, title in TEST_METRICS.items() if key in preset.measured)
        size = [f"{preset.training['parameters']:,}", f"{_megabytes(place):.1f}"]
        rows.append([f"[{name}](#{name})", spelled(preset.task), *size, next(found, DASH)])
    return table(["", "task", "parameters", "MB", "test text"], "|---|---|--:|--:|---|", rows)


def _megabytes(place: Path) -> float:
    """The size of a trained model's files."""
    return sum(path.stat().st_size for path in place.iterdir()) / 1e6


def _section(name: str, about: About, place: Path, folder: Path) -> list[str]:
    preset, recipe = read_preset(place), load_recipe(folder / f"{name}.toml")
    use = USE[preset.task].format(name=name, sentence=about.sentence)
    start = names_text(Run(place).settings().start)
    started = f" It started from the weights of {start}." if start else ""
    return section(
        Section(title=name, text=recipe.description),
        code(f"import keras_tying as kt\n\n{use}", "python"),
        *figures(preset),
        *on_backends(name, folder),
        f"{preset.training['parameters']:,} parameters, {_megabytes(place):.1f} MB. Trained with seed "
        f"{preset.training['seed']} for {preset.training['epochs']} epochs, "
        f"{preset.training['wall_time_seconds'] / 60:.0f} minutes, in "
        f"{preset.training['precision']} on {origin(preset.training)}.{started}",
        f"Text: {about.text}",
        f"Limits: {about.limits}",
        "A sample:",
        preset.sample,
    )


def figures(preset: Preset) -> list[str]:
    """The table of the metrics of the run and of its rounded weights; none if there are no metrics."""
    rows = [
        [spelled(metric), f"{preset.before_rounding[metric]:.2f}", f"{value:.2f}"]
        for metric, value in preset.measured.items()
        if isinstance(value, float)
    ]
    return [table(["", "run", "trained model (half precision)"], "|---|--:|--:|", rows)] if rows else []


def on_backends(name: str, folder: Path) -> list[str]:
    """The sentence that says what a model gave on each backend by `kt.load`; none if it was not measured there."""
    results = {
        label: read_results(folder / "results" / f"trained_models_{each}.json") for each, label in BACKENDS.items()
    }
    found = {label: result["models"][name] for label, result in results.items() if result and name in result["models"]}
    if not found:
        return []
    metric = next(key for each in found.values() for key in each if key.startswith("test_"))
    values = ", ".join(f"{each[metric]:.2f} on {label}" for label, each in found.items())
    return [f"By `kt.load(...)`, {spelled(metric)}: {values}."]


def measure(arguments: argparse.Namespace, command: str) -> int:
    """Measures models, prints the metrics and, if asked for, adds them to those recorded on this backend."""
    path = recipe_folder() / "results" / f"trained_models_{BACKEND}.json"
    for name in arguments.names:
        found = measure_model(name, arguments.data_dir)
        print(name, *(f"{metric} {value:.2f}" for metric, value in found.items()), sep="  ")
        if arguments.record:
            recorded = (read_results(path) or {"models": {}})["models"]  # another process may have added to them
            models = recorded | {name: {**found, **environment(), "command": command}}
            write_results(path, {"models": dict(sorted(models.items()))}, keep_earlier=name in recorded)
    return 0


def measure_model(name: str, data_dir: Path | None) -> dict[str, Any]:
    """Perplexity or BLEU of a trained model on the test text of its corpus, and the seconds that this took.

    Raises:
        ValueError: If it is neither a language model nor a translator.
    """
    data, model = Run(find_preset(name)).settings().recipe.data, load(name)
    began = time.perf_counter()
    if isinstance(data, ParallelData):
        corpus = load_parallel(data.corpus, data.source_language, data.target_language, data_dir)
        sources, references = zip(*corpus.pairs("test"), strict=True)
        found = {"test_bleu": translation_scores(model.translate(sources), references)["bleu"]}
    elif isinstance(data, TextData) and isinstance(model, TrainedLanguageModel):
        found = {"test_perplexity": model.perplexity(load_corpus(data.corpus, data_dir).lines("test"))}
    else:
        raise ValueError(f"Expected a language model or a translator. Received: {name}")
    return {**found, "seconds": time.perf_counter() - began}
