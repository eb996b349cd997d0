"""Trains a language model, resumes a run, or evaluates one.

    python train/lm.py                                                      embedded corpus, minutes
    python train/lm.py --recipe ptb_small_tied_projection --data-dir DIR    a published configuration
    python train/lm.py --train-file A --valid-file B --test-file C          any UTF-8 text
    python train/lm.py --resume runs/NAME
    python train/lm.py --evaluate runs/NAME
"""

import argparse
import logging
import sys
from pathlib import Path

import keras

from keras_tying import data, zoo
from keras_tying.training import (
    Run,
    Schedule,
    TrainingDiverged,
    TrainingInterrupted,
    environment,
    stream_perplexity,
    train_language_model,
)
from keras_tying.zoo import recipes

STOPPED = 75
"""Exit code of a run that was asked to stop and can be resumed (EX_TEMPFAIL)."""


def main() -> int:
    arguments = parse_arguments()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    try:
        if arguments.evaluate:
            return evaluate(Run.open(arguments.evaluate), arguments)
        return train(arguments)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--recipe", default="embedded_small_tied", help="name of a recipe, or a TOML file")
    mode.add_argument("--resume", metavar="RUN", help="continue a stopped run")
    mode.add_argument("--evaluate", metavar="RUN", help="print the exact perplexities of a trained run")
    parser.add_argument("--data-dir", type=Path, help="folder with the corpus's files, instead of a download")
    for split in data.SPLITS:
        parser.add_argument(f"--{split}-file", type=Path, help=f"UTF-8 text to {split} on, a sentence a line")
    parser.add_argument("--run", type=Path, help="folder of the run; default: runs/RECIPE")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints")
    parser.add_argument("--record", action="store_true", help="write the figures into the recipe's [measured]")
    return parser.parse_args()


def train(arguments: argparse.Namespace) -> int:
    if arguments.resume:
        run = Run.open(arguments.resume)
        settings = recipes.load_run_settings(run.config)
    else:
        settings = recipes.RunSettings(
            recipe=with_overrides(recipes.load_recipe(arguments.recipe), arguments),
            recipe_name=arguments.recipe,
            seed=arguments.seed,
            data_dir=absolute(arguments.data_dir),
            files=given_files(arguments),
            command=reproducing_command(arguments),
        )
        run = Run.create(
            arguments.run or Path("runs") / Path(arguments.recipe).stem, recipes.dump_run_settings(settings)
        )
    recipe = settings.recipe
    corpus = open_corpus(settings)
    if not run.vocabulary.exists():
        capped = recipe.data.vocabulary_size, recipe.data.minimum_count
        data.Vocabulary.from_tokens(corpus.tokens("train"), *capped).save(run.vocabulary)
    vocabulary = data.Vocabulary.load(run.vocabulary)
    ids = {split: vocabulary.encode(corpus.tokens(split)) for split in data.SPLITS}

    keras.utils.set_random_seed(settings.seed)
    model = build_model(recipe, vocabulary)
    schedule = Schedule(**recipe.optimisation.model_dump())
    announce(run, recipe, model, vocabulary, ids, schedule)
    try:
        progress = train_language_model(
            model, ids["train"], ids["valid"], vocabulary, schedule, run, arguments.checkpoint_minutes
        )
    except TrainingInterrupted as stop:
        print(f"\n{stop}\nContinue with: python train/lm.py --resume {run.folder}")
        return STOPPED
    except TrainingDiverged as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    finish(run, settings, model, vocabulary, ids, progress, record=arguments.record)
    return 0


def with_overrides(recipe: recipes.Recipe, arguments: argparse.Namespace) -> recipes.Recipe:
    changes = {}
    if arguments.epochs is not None:
        changes["optimisation"] = recipe.optimisation.model_copy(update={"epochs": arguments.epochs})
    if given_files(arguments):
        changes["data"] = recipe.data.model_copy(update={"corpus": "files"})
    return recipe.model_copy(update=changes)


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    command = f"python train/lm.py --recipe {arguments.recipe} --seed {arguments.seed}"
    if arguments.epochs is not None:
        command += f" --epochs {arguments.epochs}"
    if given_files(arguments):
        command += " --train-file TRAIN --valid-file VALID --test-file TEST"
    return command + (" --data-dir DIR" if arguments.data_dir else "")


def absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def given_files(arguments: argparse.Namespace) -> dict[str, str] | None:
    files = {split: absolute(getattr(arguments, f"{split}_file")) for split in data.SPLITS}
    given = {split: file for split, file in files.items() if file is not None}
    if given and len(given) < len(files):
        missing = ", ".join(f"--{split}-file" for split in files if split not in given)
        raise ValueError(f"A text of one's own needs all three splits. Missing: {missing}")
    return given or None


def open_corpus(settings: recipes.RunSettings) -> data.Corpus:
    tokenization = settings.recipe.data.tokenization
    if settings.files:
        return data.load_files(**settings.files, tokenization=tokenization or "spaces")
    return data.load_corpus(settings.recipe.data.corpus, settings.data_dir)


def build_model(recipe: recipes.Recipe, vocabulary: data.Vocabulary) -> keras.Model:
    return zoo.create_model(recipe.model.name, vocabulary_size=len(vocabulary), **recipe.model.arguments)


def announce(run, recipe, model, vocabulary, ids, schedule) -> None:
    cut = data.windows(ids["train"], schedule.batch_size, schedule.steps)
    untied = recipe.model.model_copy(update={"arguments": {**recipe.model.arguments, "tied": False}})
    untied_model = build_model(recipe.model_copy(update={"model": untied}), vocabulary)
    print(
        f"{recipe.title or run.folder.name}\n"
        f"run         {run.folder}\n"
        f"parameters  {model.count_params():,} (untied {untied_model.count_params():,})\n"
        f"vocabulary  {len(vocabulary):,} words\n"
        + "".join(f"{split:10}  {len(tokens):,} tokens\n" for split, tokens in ids.items())
        + f"batches     {cut.batches:,} an epoch of {schedule.batch_size} rows x {schedule.steps} steps; "
        f"{cut.lost:,} training tokens at the ends of rows are left over",
        flush=True,
    )


def finish(run, settings, model, vocabulary, ids, progress, record: bool) -> None:
    last = progress.history[-1]
    words = len(ids["train"]) * len(progress.history)
    results = {
        "train_perplexity": last["perplexity"],
        "validation_perplexity": stream_perplexity(model, ids["valid"]),
        "test_perplexity": stream_perplexity(model, ids["test"]),
        "parameters": model.count_params(),
        "seed": settings.seed,
        "epochs": len(progress.history),
        "wall_time_seconds": round(progress.seconds, 1),
        "words_per_second": round(words / progress.seconds, 1),
        **environment(),
        "command": settings.command,
        "history": progress.history,
    }
    run.write_results(results)
    model.save(run.model)
    print(f"test perplexity {results['test_perplexity']:.2f}")


if __name__ == "__main__":
    sys.exit(main())
