"""The page of the trained models: how to load each, its figures, a sample, its text and its limits."""

from pathlib import Path

from keras_tying.tables import Table, load_table
from keras_tying.zoo.presets import MANIFEST, Preset, read_preset
from keras_tying.zoo.recipes import load_recipe
from studies.pages import Section, code, origin, page, section, table

USE = {
    "language_model": 'kt.load("{name}").generate("the value of", length=20)',
    "translation": 'kt.load("{name}").translate(["{sentence}"])',
    "joint_language_model": 'kt.load("{name}").next_words(source, alignment, history, k=5)',
    "skip_gram": 'kt.load("{name}").similar_words("music", k=5)',
}
"""The second of the two lines that load and use a model."""


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
    content, parts = load_table(Page, folder / "studies" / "trained_models.toml"), []
    presets = {path.parent.name: path.parent for path in sorted((folder / "presets").glob(f"*/{MANIFEST}"))}
    if content.models.keys() != presets.keys():
        raise ValueError(
            f"trained_models.toml must have the models {sorted(presets)}. Received: {sorted(content.models)}"
        )
    for name, about in content.models.items():
        parts += _section(name, about, presets[name], folder)
    return page(content, parts)


def _section(name: str, about: About, place: Path, folder: Path) -> list[str]:
    preset, recipe = read_preset(place), load_recipe(folder / f"{name}.toml")
    size = sum(path.stat().st_size for path in place.iterdir()) / 1e6
    use = USE[preset.task].format(name=name, sentence=about.sentence)
    return section(
        Section(title=name, text=recipe.description),
        code(f"import keras_tying as kt\n\n{use}", "python"),
        *figures(preset),
        f"{preset.training['parameters']:,} parameters, {size:.1f} MB. Trained with seed {preset.training['seed']} for "
        f"{preset.training['epochs']} epochs, {preset.training['wall_time_seconds'] / 60:.0f} minutes, in "
        f"{preset.training['precision']} on {origin(preset.training)}.",
        f"Text: {about.text}",
        f"Limits: {about.limits}",
        "A sample:",
        preset.sample,
    )


def figures(preset: Preset) -> list[str]:
    """The table of the metrics of the run and of its rounded weights; none if there are no metrics."""
    rows = [
        [metric.replace("_", " "), f"{preset.before_rounding[metric]:.2f}", f"{value:.2f}"]
        for metric, value in preset.measured.items()
        if isinstance(value, float)
    ]
    return [table(["", "run", "published weights"], "|---|--:|--:|", rows)] if rows else []
