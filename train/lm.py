"""Trains a language model, resumes a run, or evaluates one.

python train/lm.py                                                      embedded corpus, minutes
python train/lm.py --recipe ptb_small_tied_projection --data-dir DIR    a published configuration
python train/lm.py --train-file A --valid-file B --test-file C          any UTF-8 text
python train/lm.py --prepared DIR                                       text of any size, see train/prepare.py
python train/lm.py --resume runs/NAME
python train/lm.py --evaluate runs/NAME                                 exact; --mc-passes 50 also with dropout
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras

from keras_tying import data, zoo
from keras_tying.study import augmentation_page
from keras_tying.tables import dump_table, load_table
from keras_tying.training import (
    Checkpoints,
    Distribution,
    Run,
    Schedule,
    add_run_arguments,
    begin_run,
    distribution_of,
    mc_perplexity,
    run_command,
    stream_perplexity,
    train_language_model,
    training_record,
)
from keras_tying.zoo import cards, recipes


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: work(arguments), "Continue with: python train/lm.py --resume {run}")


def work(arguments: argparse.Namespace) -> int:
    if arguments.evaluate:
        return evaluate(Run.open(arguments.evaluate), arguments.mc_passes)
    distribution = distribution_of(arguments)
    folder = arguments.run or Path("runs") / Path(arguments.recipe).stem
    run, settings = begin_run(distribution, arguments, folder, lambda: started(arguments, folder), resumed)
    return train(run, settings, arguments, distribution)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--recipe", default="embedded_small_tied", help="name of a recipe, or a TOML file")
    mode.add_argument("--resume", metavar="RUN", help="continue a stopped run")
    mode.add_argument("--evaluate", metavar="RUN", help="print the exact perplexities of a trained run")
    parser.add_argument("--mc-passes", type=int, help="with --evaluate: also average so many passes with dropout")
    add_run_arguments(parser)
    parser.add_argument("--prepared", type=Path, help="folder with all splits of a text, from train/prepare.py")
    for split in data.SPLITS:
        parser.add_argument(f"--{split}-file", type=Path, help=f"UTF-8 text to {split} on, a sentence a line")
    return parser.parse_args()


# A run from its arguments, or from its folder


def started(arguments: argparse.Namespace, folder: Path) -> tuple[Run, recipes.RunSettings]:
    recipe = with_overrides(recipes.load_recipe(arguments.recipe), arguments)
    settings = recipes.RunSettings(
        recipe=recipe,
        recipe_name=arguments.recipe,
        seed=arguments.seed,
        data_dir=arguments.data_dir and str(arguments.data_dir.resolve()),
        files=given_files(arguments),
        precision=arguments.precision,
        prepared=arguments.prepared and str(arguments.prepared.resolve()),
        command=reproducing_command(arguments),
    )
    corpus = open_corpus(settings)
    vocabulary = corpus.vocabulary(recipe.data.vocabulary_size, recipe.data.minimum_count)
    recipe.data.check_vocabulary(len(vocabulary))
    settings = settings.model_copy(update={"vocabulary_sha256": vocabulary.sha256})
    run = Run.create(folder, dump_table(settings))
    vocabulary.save(run.vocabulary)
    return run, settings


def resumed(folder: Path) -> tuple[Run, recipes.RunSettings]:
    run = Run.open(folder)
    return run, load_table(recipes.RunSettings, run.config)


def with_overrides(recipe: recipes.Recipe, arguments: argparse.Namespace) -> recipes.Recipe:
    changes = {}
    if arguments.epochs is not None:
        changes["optimisation"] = recipe.optimisation.model_copy(update={"epochs": arguments.epochs})
    if given_files(arguments):
        changes["data"] = recipe.data.model_copy(update={"corpus": "files"})
    elif arguments.prepared:
        corpus = data.PreparedCorpus(arguments.prepared).name
        changes["data"] = recipe.data.model_copy(update={"corpus": corpus})
    return recipe.model_copy(update=changes)


def given_files(arguments: argparse.Namespace) -> dict[str, str] | None:
    files = {split: getattr(arguments, f"{split}_file") for split in data.SPLITS}
    given = {split: str(file.resolve()) for split, file in files.items() if file is not None}
    if given and arguments.prepared:
        raise ValueError("A text is either prepared or in files. Received --prepared and files.")
    if given and len(given) < len(files):
        missing = ", ".join(f"--{split}-file" for split in files if split not in given)
        raise ValueError(f"A text of one's own needs all three splits. Missing: {missing}")
    return given or None


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    command = f"python train/lm.py --recipe {arguments.recipe} --seed {arguments.seed}"
    if arguments.epochs is not None:
        command += f" --epochs {arguments.epochs}"
    if given_files(arguments):
        command += " --train-file TRAIN --valid-file VALID --test-file TEST"
    command += " --prepared PREPARED" if arguments.prepared else ""
    command += f" --precision {arguments.precision}" if arguments.precision != "float32" else ""
    return command + (" --data-dir DIR" if arguments.data_dir else "")


# What a run works with


def open_corpus(settings: recipes.RunSettings) -> data.Corpus | data.PreparedCorpus:
    if settings.prepared:
        return data.PreparedCorpus(settings.prepared)
    if settings.files:
        return data.load_files(**settings.files, tokenization=settings.recipe.data.tokenization or "spaces")
    return data.load_corpus(settings.recipe.data.corpus, settings.data_dir)


def build_model(recipe: recipes.Recipe, vocabulary: data.Vocabulary, **changes) -> keras.Model:
    arguments = {**recipe.model.arguments, **changes}
    return zoo.create_model(recipe.model.name, vocabulary_size=len(vocabulary), **arguments)


# The three things it does


def train(run: Run, settings: recipes.RunSettings, arguments: argparse.Namespace, distribution: Distribution) -> int:
    recipe = settings.recipe
    corpus = open_corpus(settings)
    vocabulary = run.open_vocabulary(settings.vocabulary_sha256)
    ids = {split: corpus.ids(split, vocabulary) for split in data.SPLITS}
    keras.config.set_dtype_policy(settings.precision)
    keras.utils.set_random_seed(settings.seed)
    with distribution.scope():
        model = build_model(recipe, vocabulary)
    schedule = Schedule(**recipe.optimisation.model_dump())
    if distribution.is_chief:
        print_head(run, recipe, model, vocabulary, ids)
    progress = train_language_model(
        model, ids["train"], ids["valid"], vocabulary, schedule, run, arguments.checkpoint_minutes, recipe.loss.create()
    )
    if distribution.is_chief:
        keep(run, model, vocabulary, corpus.tokenization)
        results = {**measure(model, ids, settings, progress), **distribution.description}
        run.write_results(results)
        print_results(run, results)
        if arguments.record:
            recipes.record_measured(settings, results)
            cards.write_cards()
            augmentation_page.write_page()
    distribution.meet()
    return 0


def keep(run: Run, model: keras.Model, vocabulary: data.Vocabulary, tokenization: str) -> None:
    model.save(run.model)
    if keras.backend.backend() == "tensorflow":
        from keras_tying.export import export_language_model

        export_language_model(model, vocabulary, run.saved_model, tokenization)


def evaluate(run: Run, mc_passes: int | None) -> int:
    settings = load_table(recipes.RunSettings, run.config)
    keras.utils.set_random_seed(settings.seed)
    model = run.load_model()
    vocabulary = run.open_vocabulary(settings.vocabulary_sha256)
    corpus = open_corpus(settings)
    for split in ("valid", "test"):
        ids = corpus.ids(split, vocabulary)
        print(f"{split:5} perplexity {stream_perplexity(model, ids):8.2f} over {len(ids) - 1:,} words")
        if mc_passes is not None:
            optimisation = settings.recipe.optimisation
            averaged = mc_perplexity(model, ids, mc_passes, optimisation.batch_size, optimisation.steps)
            print(f"{split:5} perplexity {averaged:8.2f} by the mean of {mc_passes} passes with dropout")
    return 0


def measure(model: keras.Model, ids: dict, settings: recipes.RunSettings, progress: Checkpoints) -> dict:
    return {
        "train_perplexity": progress.history[-1]["perplexity"],
        "validation_perplexity": stream_perplexity(model, ids["valid"]),
        "test_perplexity": stream_perplexity(model, ids["test"]),
        "parameters": model.count_params(),
        **training_record(settings, progress, "words", len(ids["train"])),
    }


def print_head(run: Run, recipe: recipes.Recipe, model: keras.Model, vocabulary: data.Vocabulary, ids: dict) -> None:
    settings = recipe.optimisation
    cut = data.windows(ids["train"], settings.batch_size, settings.steps)
    untied = build_model(recipe, vocabulary, tied=False).count_params()
    print(
        f"{recipe.title}\n"
        f"run         {run.folder}\n"
        f"parameters  {model.count_params():,} (untied: {untied:,})\n"
        f"vocabulary  {len(vocabulary):,} words\n"
        + "".join(f"{split:10}  {len(tokens):,} tokens\n" for split, tokens in ids.items())
        + f"batches     {cut.batches:,} an epoch, {settings.batch_size} rows x {settings.steps} steps; "
        f"{cut.lost:,} training tokens at the ends of rows are left over",
        flush=True,
    )


def print_results(run: Run, results: dict) -> None:
    print(
        f"test perplexity {results['test_perplexity']:.2f} "
        f"(validation {results['validation_perplexity']:.2f}), {results['wall_time_seconds'] / 60:.1f} minutes\n"
        f"SavedModel      {run.saved_model}\n"
        f"TensorBoard     tensorboard --logdir {run.tensorboard}\n"
        f"everything      {run.folder}"
    )


if __name__ == "__main__":
    sys.exit(main())
