"""Cards of the language models' recipes, and the tables of all recipes."""

import math
import statistics
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

from keras_tying.training import Run
from keras_tying.zoo.recipes import LanguageModelRecipe, Measured, list_recipes, load_recipe
from studies.cells import Cell, counts_text
from studies.pages import (
    DASH,
    NOT_MEASURED,
    Section,
    between_marks,
    cited,
    code,
    mean_and_range,
    names_text,
    number,
    origin,
    page,
    plot,
    section,
    spelled,
    table,
)
from studies.plots import COLOURS, data_of, fingerprint_of, panel, write_png
from studies.results import read_results, read_runs, read_seeds, seed_paths, superseded

METRICS = ("train_perplexity", "validation_perplexity", "test_perplexity")
EVALUATIONS = {"temperature": "softmax temperature", "cache": "neural cache", "dynamic": "dynamic evaluation"}
"""Other ways to measure a perplexity, with settings chosen on validation text: what results and pages call them."""
ZOO_PAGE = Section(
    title="The zoo",
    text="""
Each language model has a recipe (TOML) and a card (Markdown). The first table shows test perplexities and the number of
seeds of each; with several seeds, their mean and range. The cards also show training and validation perplexities.

Softmax temperature, neural cache and dynamic evaluation are [ways to use a trained
model](../docs/training.md#use-a-run); their settings are chosen on the validation text. Compare these columns with
"measured". If not all seeds were measured in this way, the brackets name those that were and give their plain
perplexity: compare with that one.
Dynamic evaluation of `ptb_small_tied`, `ptb_small_untied` and `ptb_small_untied_projection` tried fewer settings than
the command does now, so do not compare these three with the others.

Up to commit 6c86c8b, trainings in mixed_bfloat16 on TensorFlow drew the numbers for dropout in bfloat16: at a rate of
0.3 they dropped 30.5%. What this changes in the results was not measured. Some rows have seeds from before and after
that commit.

`python train/lm.py --recipe NAME --record` trains a recipe and writes the measured metrics into it; earlier results are
kept in `results/superseded/`. `make zoo` makes this page and the cards from recipes and results.

WT: weight tying. PR: projection regularization. BD: Bayesian dropout. WD: weight decay. VD: variational dropout. AL:
augmented loss. RE: reused embedding, which is tied and has no output bias. REAL: RE and AL. RHN: recurrent highway
network.
""",
)
TYING = Section(
    title="Tied and untied",
    text="""
These language models were trained in full, tied and untied. All but one have a lower test perplexity when tied:

{table}

Without the augmented loss the tied VD-LSTM is better by 0.4. If tying made no difference, both tied seeds would still
be the best in a tenth of all cases, so this may be chance. With the loss, the tied model (REAL) is as good as the
untied one (AL): on validation and on test text their means differ by less than 0.05, and their ranges overlap.
[REAL](vd_lstm_small_tied_augmented.md) and [AL](vd_lstm_small_augmented.md) also differ in whether the gradient flows
through the target of the loss. One of the others has only one seed of a model. The settings of [the model of 2.7
million parameters](low_perplexity.md#27-million-parameters) were chosen for the tied one.

In [trials of ten epochs](augmentation.md), one seed each, the untied VD-LSTM has the lower validation perplexity in
all four pairs that differ in tying and in the output bias, which a tied VD-LSTM of the paper does not have, by 0.1 to
5.5. Four pairs also differ in the gradient, as AL and REAL do; of these the tied one is better in three.

In two of the untied models, `ptb_small_untied` and `ptb_small_untied_projection`, one initializer drew both embeddings,
so they started from the same numbers in another order, and the gradient of the output embedding was rounded once more.
This is repaired. For [ptb_small_untied](ptb_small_untied.md) it changes nothing beyond the seeds; for the other one
this was not measured. In the untied model of 3.9 million parameters only the gradient was rounded once more.
""",
)
NOT_MEASURED_TEXT = (
    "No run of these recipes is recorded. `embedded_small_tied` is a quick test, and its text differs between versions "
    "of Python; its [trained model](trained_models.md) was measured."
)
SMALL_SIZE = ("wide_60_epochs", "wide_untied_60_epochs")
"""Names of the runs of the small size in full, tied and untied."""
TRAINED_TEXT = "The [trained model](trained_models.md#{name}), with its metrics, comes with the repository."
CONTINUED_TEXT = "It is of another run, which began with the weights of {start}."
STUDIES_TEXT = (
    "Every published number beside the measured one, and whether it is reached: [results](results.md), as "
    "[CSV](results.csv). Models that are trained already, with samples: [trained models](trained_models.md). "
    "Recipes of translators are in [translation.md](translation.md). Studies: [what embeddings learn](embeddings.md), "
    "[joint language models](nnjm.md), [the augmented loss](augmentation.md), [how low can a tied model "
    "go](low_perplexity.md)."
)


def card_pages(recipes: dict[str, LanguageModelRecipe], cells: list[Cell], folder: Path) -> dict[Path, str]:
    """The card of each recipe of a folder, and the `README.md` that lists them, by their paths."""
    figures = perplexities_of_seeds(recipes, folder)
    cards = {folder / f"{name}.md": card(name, recipes, figures, cells, folder) for name in recipes}
    counts = counts_text(cells)
    measured = {name: recipe for name, recipe in recipes.items() if recipe.measured}
    others = {name: recipe for name, recipe in recipes.items() if not recipe.measured}
    parts = [recipe_table(measured, folder), reversals_text(recipes, figures), counts, STUDIES_TEXT]
    parts += section(TYING.model_copy(update={"text": TYING.text.replace("{table}", tying_table(measured, folder))}))
    parts += section(Section(title="Not measured", text=NOT_MEASURED_TEXT), recipe_table(others, folder))
    return cards | {folder / "README.md": page(ZOO_PAGE, parts)}


def with_results(readme: str, recipes: dict[str, LanguageModelRecipe], cells: list[Cell], folder: Path) -> str:
    """The repository's README with the table of the measured recipes of the Penn Treebank, and the counts of cells."""
    shown = {name: recipe for name, recipe in recipes.items() if recipe.measured and recipe.data.corpus == "ptb"}
    figures = perplexities_of_seeds(shown, folder)
    counts = f"{counts_text(cells)} See [each of them]({folder.name}/results.md)."
    parts = [recipe_table(shown, folder, f"{folder.name}/", ways={}), reversals_text(shown, figures), counts]
    return between_marks(readme, "results", "\n\n".join(filter(None, parts)))


def read_recipes(folder: Path) -> dict[str, LanguageModelRecipe]:
    """The language models' recipes of a folder by name."""
    recipes = {name: load_recipe(folder / f"{name}.toml") for name in list_recipes("language_model", folder)}
    return {name: recipe for name, recipe in recipes.items() if isinstance(recipe, LanguageModelRecipe)}


def perplexities_of_seeds(recipes: dict[str, LanguageModelRecipe], folder: Path) -> dict[str, list[float]]:
    """The test perplexity of each seed, by recipe."""
    return {name: values_of(name, "test_perplexity", folder) for name in recipes}


def values_of(name: str, metric: str, folder: Path) -> list[float]:
    """A metric of a recipe of a folder, one value per seed for which it was measured."""
    return [results[metric] for results in read_seeds(folder / "results", name) if results.get(metric) is not None]


def measured_otherwise(seeds: list[dict[str, Any]], split: str, way: str) -> str:
    """The perplexity of a run in one of `EVALUATIONS`; if not all seeds have it, with their plain perplexity.

    A seed has diverged if the perplexity of the validation text, which chooses the settings, is no number: `null` or,
    in older results, NaN.
    """
    plain, chosen_by = f"{split}_perplexity", f"validation_perplexity_{way}"
    tried = [seed for seed in seeds if chosen_by in seed]
    found = [seed for seed in tried if seed[chosen_by] is not None and math.isfinite(seed[chosen_by])]
    diverged = [seed for seed in tried if seed not in found]

    def numbers(of: list[dict[str, Any]]) -> str:
        return f"seed{'s' if len(of) > 1 else ''} {', '.join(str(seed['seed']) for seed in of)}"

    shown = []
    if found:
        note = ""
        if len(found) < len(seeds):
            note = f"{numbers(found)}: {statistics.mean(seed[plain] for seed in found):.1f} without"
        shown.append(mean_and_range([seed[f"{plain}_{way}"] for seed in found], note=note))
    if diverged:
        shown.append(f"diverged ({numbers(diverged)})")
    return "; ".join(shown) or NOT_MEASURED


def tied_pairs(recipes: dict[str, LanguageModelRecipe]) -> list[tuple[str, str]]:
    """Names of recipes that differ in tying, the tied one first: `NAME_tied` and `NAME_untied`, or `NAME`."""
    pairs = [(name, name.replace("_tied", ending, 1)) for name in recipes for ending in ("_untied", "")]
    return [(tied, untied) for tied, untied in pairs if tied != untied and untied in recipes]


def tying_table(recipes: dict[str, LanguageModelRecipe], folder: Path) -> str:
    """Test perplexities of measured models, tied and untied, with the number of seeds."""
    metric = "test_perplexity"
    rows = [
        [
            recipes[untied].title,
            *(mean_and_range(values_of(name, metric, folder), count=True) for name in (tied, untied)),
        ]
        for tied, untied in tied_pairs(recipes)
    ]
    small = read_runs(folder / "results" / "small_size")
    if all(name in small for name in SMALL_SIZE):
        values = ([run[metric] for run in small[name]] for name in SMALL_SIZE)
        rows.append(["LSTM, 2.7 or 3.9 million parameters", *(mean_and_range(each, count=True) for each in values)])
    return table(["untied model", "tied", "untied"], "|---|--:|--:|", rows)


def card(
    name: str, recipes: dict[str, LanguageModelRecipe], figures: dict[str, list[float]], cells: list[Cell], folder: Path
) -> str:
    """The Markdown card of one of the recipes of a folder."""
    recipe = recipes[name]
    published, measured = recipe.published, recipe.measured
    parts = [metric_table(name, recipe, cells, folder)]
    preset = folder / "presets" / name
    if preset.is_dir():
        start = names_text(Run(preset).settings().start)
        texts = [TRAINED_TEXT.format(name=name), *([CONTINUED_TEXT.format(start=start)] if start else [])]
        parts += [code(f'import keras_tying as kt\n\nlm = kt.load("{name}")', "python"), " ".join(texts)]
    if published:
        parts.append(f"Published in: {cited(published.source)}.")
    parts += [
        f"On test text, the order of [{better}]({better}.md) and [{worse}]({worse}.md) is the reverse of the published "
        f"one. {seeds_text([figures[better], figures[worse]])}"
        for better, worse in reversals(recipes, figures)
        if name in (better, worse)
    ]
    if measured:
        curves = f"results/{name}.json"
        parts.append(plot(folder / "results" / f"{name}_curve.png", "Perplexity by epoch"))
        parts.append(
            f"Measured with seed {measured.seed} after {measured.epochs} epochs, "
            f"{measured.wall_time_seconds / 60:.0f} minutes of training ({measured.words_per_second:,.0f} words per "
            f"second) in {measured.precision} on {origin(measured.model_dump())}.\n"
            f"Curves of the run: [{curves}]({curves}). They show validation perplexities with the batch size of "
            "training, which leaves out a few words; the table has batch size 1, which is "
            f"exact.{more_seeds_text(name, folder)}"
        )
    parts += map(superseded_text, superseded(folder / "results" / f"{name}.json"))
    parts += command_parts(
        name, command_with_backend(measured) if measured else f"python train/lm.py --recipe {name}", folder
    )
    if recipe.notes:
        parts += section(Section(title="Notes", text=recipe.notes))
    return page(Section(title=recipe.title, text=recipe.description), parts)


def command_with_backend(measured: Measured) -> str:
    """The command of recorded results, with the backend if it is not TensorFlow, the default."""
    backend = next((backend for backend in ("jax", "torch") if backend in measured.versions), None)
    return f"KERAS_BACKEND={backend} {measured.command}" if backend else measured.command


def command_parts(name: str, command: str, folder: Path) -> list[str]:
    """The command of a recipe's results, which a checkout can run: a file that was removed is named by the recipe."""
    removed = [word for word in command.split() if word.endswith(".toml") and not (folder.parent / word).exists()]
    for file in removed:
        command = command.replace(file, name)
    files = " and ".join(f"`{file}`" for file in removed)
    return [code(command), files and f"The recorded command named {files}, a trial with the settings of this recipe."]


def metric_table(name: str, recipe: LanguageModelRecipe, cells: list[Cell], folder: Path) -> str:
    """Published and measured metrics of a recipe, and those by other settings of training."""
    others = {cell.metric: cell.others for cell in cells if cell.recipe == name and any(cell.others.values())}
    names = list(dict.fromkeys(each for values in others.values() for each in values))
    rows = [
        [
            spelled(metric),
            number(getattr(recipe.published, metric, None)),
            mean_and_range(values_of(name, metric, folder)),
            *(mean_and_range(others[metric][each]) for each in names),
        ]
        for metric in METRICS
    ]
    seeds = read_seeds(folder / "results", name)
    for way, title in EVALUATIONS.items():
        for split in ("validation", "test"):
            if (shown := measured_otherwise(seeds, split, way)) != NOT_MEASURED:
                rows.append([f"{split} perplexity, {title}", DASH, shown, *[""] * len(names)])
    size = f"{recipe.measured.parameters:,}" if recipe.measured else NOT_MEASURED
    rows.append(["parameters", (recipe.published and recipe.published.parameters) or DASH, size, *[""] * len(names)])
    return table(["", "published", "measured", *names], "|---|--:|--:|" + "--:|" * len(names), rows)


def more_seeds_text(name: str, folder: Path) -> str:
    """Where the seeds after the first are, for a card; empty if there are none."""
    places = seed_paths(folder / "results", name)[1:]
    if not places:
        return ""
    links = ", ".join(f"[{place}]({place})" for place in (f"results/{path.name}" for path in places))
    return (
        f"\nA perplexity is the mean of {len(places) + 1} seeds, with the lowest and the highest. The others: {links}."
    )


def draw_curves(recipes: dict[str, LanguageModelRecipe], folder: Path) -> None:
    """Draws the curves of the recipes of a folder that were measured, unless the plots show these results already."""
    for name, recipe in recipes.items():
        results = read_results(folder / "results" / f"{name}.json") if recipe.measured else None
        path = folder / "results" / f"{name}_curve.png"
        if results and not (path.exists() and data_of(path) == fingerprint_of(curves_of(results))):
            draw_curve(results, path)


def draw_curve(results: dict[str, Any], path: Path) -> Path:
    """Draws training and validation perplexity by epoch, as PNG; returns its path."""
    figure, axes = panel("epoch", "perplexity", (6, 3.4))
    for i, (label, curve) in enumerate(curves_of(results).items()):
        axes.plot(range(1, len(curve) + 1), curve, color=COLOURS[i], label=f"{label}: {curve[-1]:.1f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(fontsize=9, title="last epoch", title_fontsize=9)
    return write_png(figure, path, data=curves_of(results))


def curves_of(results: dict[str, Any]) -> dict[str, list[float]]:
    """Training and validation perplexity of each epoch."""
    metrics = {"training": "perplexity", "validation": "val_perplexity"}
    return {label: [logs[metric] for logs in results["history"]] for label, metric in metrics.items()}


def superseded_text(path: Path) -> str:
    """What an earlier result of a recipe was, for its card."""
    earlier = read_results(path) or {}
    place = f"results/superseded/{path.name}"
    return (
        f"Superseded: test perplexity {earlier['test_perplexity']:.1f} (validation "
        f"{earlier['validation_perplexity']:.1f}) with seed {earlier['seed']} after {earlier['epochs']} epochs on "
        f"{origin(earlier)}: [{place}]({place})."
    )


def reversals(recipes: dict[str, LanguageModelRecipe], figures: dict[str, list[float]]) -> list[tuple[str, str]]:
    """Pairs of recipes of one published table and text, the first better as published, the second as measured.

    The ranges of their seeds do not overlap.
    """
    published = {
        name: ((recipe.published.source, recipe.data.corpus), recipe.published.test_perplexity)
        for name, recipe in recipes.items()
        if recipe.published and recipe.published.test_perplexity is not None and figures[name]
    }
    return [
        (better, worse)
        for (better, low), (worse, high) in permutations(published.items(), 2)
        if low[0] == high[0] and low[1] < high[1] and min(figures[better]) > max(figures[worse])
    ]


def reversals_text(recipes: dict[str, LanguageModelRecipe], figures: dict[str, list[float]]) -> str:
    """The pairs of `reversals` in one paragraph; empty if there is none."""
    pairs = reversals(recipes, figures)
    sentences = [
        f"In the paper {recipes[better].title} is better than {recipes[worse].title}; here it is worse "
        f"({statistics.fmean(figures[better]):.1f} and {statistics.fmean(figures[worse]):.1f})."
        for better, worse in pairs
    ]
    if not pairs:
        return ""
    return " ".join([*sentences, seeds_text([figures[name] for pair in pairs for name in pair])])


def seeds_text(figures: list[list[float]]) -> str:
    """With how many seeds models whose order is reversed were trained, in a sentence."""
    counts = sorted({len(seeds) for seeds in figures})
    several = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seed{'s' * (counts[0] > 1)}"
    chance = ", so this may be chance" if counts[0] == 1 else "; the ranges of a pair do not overlap"
    return f"Trained with {several} each{chance}."


def recipe_table(
    recipes: dict[str, LanguageModelRecipe], folder: Path, place: str = "", ways: Mapping[str, str] = EVALUATIONS
) -> str:
    """The Markdown table of recipes of a folder, without columns of measured values if none was measured.

    Args:
        recipes: The recipes.
        folder: Their folder.
        place: Where their cards are.
        ways: Titles of other ways to measure. They have a column if a recipe was measured so.
    """
    results = {name: read_seeds(folder / "results", name) for name in recipes}
    otherwise = {
        title: {name: measured_otherwise(seeds, "test", way) for name, seeds in results.items()}
        for way, title in ways.items()
    }
    shown = [title for title, column in otherwise.items() if any(each != NOT_MEASURED for each in column.values())]
    rows = []
    for name, recipe in recipes.items():
        published, measured, seeds = recipe.published, recipe.measured, values_of(name, "test_perplexity", folder)
        size = f"{measured.parameters:,}" if measured else (published and published.parameters) or DASH
        goal = number(getattr(published, "test_perplexity", None))
        link = f"[{name}]({place}{name}.md)"
        others = [otherwise[title][name] for title in shown]
        rows.append([link, recipe.title, size, goal, mean_and_range(seeds), *others, str(len(seeds) or "")])
    columns = ["recipe", "model", "parameters", "published", "measured", *shown, "seeds"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:4], [row[:4] for row in rows]
    return table(columns, "|---|---|" + "--:|" * (len(columns) - 2), rows)
