"""Trains a translation model, or resumes a run.

python train/nmt.py                                                     phrases from CLDR, minutes
python train/nmt.py --recipe multi30k_en_de_three_way --data-dir DIR    Multi30k
python train/nmt.py --source A.en --target A.de --valid V.en V.de --test T.en T.de     any UTF-8 text
python train/nmt.py --prepared DIR --valid V.en V.de --test T.en T.de   text of any size, see train/prepare.py
python train/nmt.py --resume runs/NAME
python train/nmt.py --evaluate runs/NAME                                BLEU and chrF by sacrebleu, perplexity
python train/nmt.py --translate runs/NAME < in > out                    one sentence a line
python train/nmt.py --translate runs/NAME --attention plot.png < in     and what the first one attends to
python train/nmt.py --overlap [--recipe NAME --data-dir DIR]            subwords that the languages share

Text has a sentence a line and may be gzipped; --source and --target take several files.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras

from keras_tying import data
from keras_tying.tables import dump_table, load_table
from keras_tying.training import (
    Distribution,
    Run,
    add_run_arguments,
    begin_run,
    distribution_of,
    environment,
    run_command,
    training_record,
)
from keras_tying.training.attention_pictures import attention_figure
from keras_tying.training.translation import train_translator
from keras_tying.training.translation_evaluation import translate_sentences
from keras_tying.training.translation_recipes import (
    TranslationRecipe,
    load_translation_recipe,
    translation_recipe_folder,
)
from keras_tying.training.translation_runs import (
    TranslationRunSettings,
    measure_translator,
    open_trained,
    pairs_to_measure_on,
    record_translation,
)
from keras_tying.zoo.recipes import write_results

LINES_AT_ONCE = 1000
"""Sentences of standard input that are translated together."""


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: work(arguments), "Continue with: python train/nmt.py --resume {run}")


def work(arguments: argparse.Namespace) -> int:
    if arguments.evaluate:
        return evaluate(Run.open(arguments.evaluate), arguments.beam)
    if arguments.translate:
        return translate(Run.open(arguments.translate), arguments.beam, arguments.attention)
    if arguments.overlap:
        return overlap(arguments)
    distribution = distribution_of(arguments)
    folder = arguments.run or Path("runs") / Path(arguments.recipe).stem
    run, settings = begin_run(distribution, arguments, folder, lambda: started(arguments, folder), resumed)
    return train(run, settings, arguments, distribution)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--recipe", default="embedded_en_de", help="name of a recipe, or a TOML file")
    mode.add_argument("--resume", metavar="RUN", help="continue a stopped run")
    mode.add_argument("--evaluate", metavar="RUN", help="print BLEU, chrF and perplexity of a trained run")
    mode.add_argument("--translate", metavar="RUN", help="translate the lines of standard input")
    parser.add_argument("--attention", type=Path, metavar="PNG", help="with --translate: draw the first sentence's")
    parser.add_argument("--overlap", action="store_true", help="print which subwords the languages share, and stop")
    parser.add_argument("--beam", type=int, default=5, help="hypotheses a sentence when translating; 1 is greedy")
    add_run_arguments(parser)
    parser.add_argument("--source", type=Path, nargs="+", metavar="FILE", help="text to train on, to translate from")
    parser.add_argument("--target", type=Path, nargs="+", metavar="FILE", help="the same text, translated")
    parser.add_argument("--prepared", type=Path, metavar="DIR", help="pairs to train on, from train/prepare.py")
    for split in data.SPLITS[1:]:
        parser.add_argument(f"--{split}", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help=f"text to {split} on")
    parser.add_argument("--subwords", type=Path, metavar="MODEL", help="a sentencepiece model, instead of a new one")
    parser.add_argument("--tying", choices=("none", "decoder", "three_way"), help="instead of the recipe's")
    return parser.parse_args()


# A run from its arguments, or from its folder


def started(arguments: argparse.Namespace, folder: Path) -> tuple[Run, TranslationRunSettings]:
    settings = settings_of(arguments)
    subwords = open_or_learn(arguments, settings)
    settings = settings.model_copy(update={"subwords_sha256": subwords.sha256})
    run = Run.create(folder, dump_table(settings))
    subwords.save(run.subwords)
    return run, settings


def settings_of(arguments: argparse.Namespace) -> TranslationRunSettings:
    return TranslationRunSettings(
        recipe=with_overrides(load_translation_recipe(arguments.recipe), arguments),
        recipe_name=arguments.recipe,
        seed=arguments.seed,
        data_dir=arguments.data_dir and str(arguments.data_dir.resolve()),
        files=given_files(arguments),
        precision=arguments.precision,
        prepared=arguments.prepared and str(arguments.prepared.resolve()),
        command=reproducing_command(arguments),
    )


def resumed(folder: Path) -> tuple[Run, TranslationRunSettings]:
    run = Run.open(folder)
    return run, load_table(TranslationRunSettings, run.config)


def with_overrides(recipe: TranslationRecipe, arguments: argparse.Namespace) -> TranslationRecipe:
    changes = {}
    if arguments.epochs is not None:
        changes["optimisation"] = recipe.optimisation.model_copy(update={"epochs": arguments.epochs})
    if arguments.tying is not None:
        own = {**recipe.model.arguments, "tying": arguments.tying}
        changes["model"] = recipe.model.model_copy(update={"arguments": own})
    if given_files(arguments):
        changes["data"] = recipe.data.model_copy(update={"corpus": "files"})
    elif arguments.prepared:
        corpus = data.PreparedPairs(arguments.prepared).name
        if corpus == "files":
            raise ValueError("Pairs prepared from files need --valid and --test, text to measure on.")
        changes["data"] = recipe.data.model_copy(update={"corpus": corpus})
    return recipe.model_copy(update=changes)


def given_files(arguments: argparse.Namespace) -> dict[str, list[list[str]]] | None:
    sides = arguments.source, arguments.target
    if arguments.prepared and any(sides):
        raise ValueError("Pairs to train on are either prepared or in files. Received --prepared and files.")
    if arguments.prepared and arguments.valid and arguments.test:
        given = {"valid": arguments.valid, "test": arguments.test}
        return {split: [[str(file.resolve()) for file in pair]] for split, pair in given.items()}
    if not any(sides):
        return None
    if not all((*sides, arguments.valid, arguments.test)):
        raise ValueError("A text of one's own needs --source, --target, --valid and --test. See --help.")
    splits = dict(zip(data.SPLITS, (data.side_by_side(*sides), [arguments.valid], [arguments.test]), strict=True))
    return {split: [[str(file.resolve()) for file in pair] for pair in pairs] for split, pairs in splits.items()}


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    command = f"python train/nmt.py --recipe {arguments.recipe} --seed {arguments.seed}"
    for name in ("tying", "epochs"):
        value = getattr(arguments, name)
        command += "" if value is None else f" --{name} {value}"
    if given_files(arguments):
        command += " --source SOURCE --target TARGET --valid SOURCE TARGET --test SOURCE TARGET"
    command += " --subwords MODEL" if arguments.subwords else ""
    command += " --prepared PREPARED" if arguments.prepared else ""
    command += f" --precision {arguments.precision}" if arguments.precision != "float32" else ""
    return command + (" --data-dir DIR" if arguments.data_dir else "")


# What a run works with


def open_or_learn(arguments: argparse.Namespace, settings: TranslationRunSettings) -> data.Subwords:
    if arguments.prepared:
        if arguments.subwords:
            raise ValueError("Prepared pairs have subwords of their own. Received --prepared and --subwords.")
        return data.PreparedPairs(arguments.prepared).subwords
    if arguments.subwords:
        return data.Subwords.load(arguments.subwords)
    return data.Subwords.learn(data.sentences_of(settings.corpus().pairs("train")), settings.recipe.data.subwords)


# The things it does


def train(run: Run, settings: TranslationRunSettings, arguments: argparse.Namespace, distribution: Distribution) -> int:
    corpus = settings.corpus()
    subwords = settings.open_subwords(run)
    pairs, measured = settings.pairs_to_train_on(corpus, subwords), pairs_to_measure_on(corpus, subwords)
    keras.config.set_dtype_policy(settings.precision)
    keras.utils.set_random_seed(settings.seed)
    with distribution.scope():
        model = settings.build_model(subwords)
    if distribution.is_chief:
        print_head(run, settings, model, subwords, {"train": pairs, **measured})
    progress = train_translator(
        model,
        pairs,
        list(corpus.pairs("valid")),
        subwords,
        settings.recipe.optimisation,
        run,
        settings.seed,
        arguments.checkpoint_minutes,
    )
    if distribution.is_chief:
        keep(run, model, subwords)
        results = measure_translator(model, corpus, measured, subwords) | {"parameters": model.count_params()}
        results |= training_record(settings, progress, "words", pairs.target_tokens) | distribution.description
        run.write_results(results)
        print_results(run, results)
        if arguments.record:
            record_translation(settings, results)
    distribution.meet()
    return 0


def keep(run: Run, model: keras.Model, subwords: data.Subwords) -> None:
    model.save(run.model)
    if keras.backend.backend() == "tensorflow":
        from keras_tying.export import export_translator

        export_translator(model, subwords, run.saved_model)


def print_results(run: Run, results: dict) -> None:
    print(
        f"test BLEU {results['test_bleu']:.2f}, chrF {results['test_chrf']:.2f}, perplexity "
        f"{results['test_perplexity']:.2f}, {results['wall_time_seconds'] / 60:.1f} minutes\n"
        f"SavedModel      {run.saved_model}\n"
        f"TensorBoard     tensorboard --logdir {run.tensorboard}\n"
        f"everything      {run.folder}"
    )


def evaluate(run: Run, beam: int) -> int:
    settings, model, subwords = open_trained(run)
    corpus = settings.corpus()
    figures = measure_translator(model, corpus, pairs_to_measure_on(corpus, subwords), subwords, beam)
    for name, figure in figures.items():
        print(f"{name:22}  {figure if isinstance(figure, str) else format(figure, '.2f')}")
    return 0


def translate(run: Run, beam: int, picture: Path | None) -> int:
    _, model, subwords = open_trained(run)
    for chunk in chunks(sys.stdin.buffer):
        translations = translate_sentences(model, subwords, chunk, beam)
        print(*translations, sep="\n", flush=True)
        if picture is not None:
            attention_figure(model, subwords, chunk[0], translations[0]).savefig(picture, dpi=150)
            picture = None
    return 0


def chunks(file: BinaryIO) -> Iterator[list[str]]:
    """Lines of UTF-8 text, some at a time."""
    number = 0
    while chunk := list(islice(file, LINES_AT_ONCE)):
        lines = []
        for line in chunk:
            number += 1
            try:
                lines.append(line.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Standard input, line {number}: expected UTF-8, received byte {line[error.start]:#04x}."
                ) from None
        yield lines


def overlap(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    recipe, corpus = settings.recipe, settings.corpus()
    subwords = open_or_learn(arguments, settings)
    counts = data.SentencePairs.encode(corpus.pairs("train"), subwords, subwords).overlap()
    results = {
        "corpus": recipe.data.corpus,
        "source": recipe.data.source,
        "target": recipe.data.target,
        "subwords": len(subwords),
        **counts,
        **environment(),
        "command": reproducing_command(arguments) + " --overlap",
    }
    source, target = recipe.data.source.upper(), recipe.data.target.upper()
    print(f"Subwords only in {source}  {counts['only_source']:>8,}")
    print(f"Subwords only in {target}  {counts['only_target']:>8,}")
    print(f"Subwords in both     {counts['both']:>8,}")
    if arguments.record:
        name = f"overlap_{recipe.data.corpus}_{source}_{target}".lower()
        write_results(translation_recipe_folder(), name, results)
    return 0


def languages_of(pairs: data.SentencePairs) -> str:
    """Whose subwords are whose, in words."""
    shared = pairs.overlap()
    return (
        f"in the training text {shared['only_source']:,} of the source alone, "
        f"{shared['only_target']:,} of the target alone, {shared['both']:,} of both"
    )


def print_head(
    run: Run,
    settings: TranslationRunSettings,
    model: keras.Model,
    subwords: data.Subwords,
    pairs: dict[str, data.SentencePairs],
) -> None:
    untied = settings.build_model(subwords, tying="none").count_params()
    shared = "" if settings.prepared else f"; {languages_of(pairs['train'])}"  # which reads all of the text
    print(
        f"{settings.recipe.title}\n"
        f"run         {run.folder}\n"
        f"parameters  {model.count_params():,} (untied: {untied:,})\n"
        f"vocabulary  {len(subwords):,} subwords{shared}\n"
        + "".join(
            f"{split:10}  {len(each):,} pairs, {each.source_tokens:,} source and {each.target_tokens:,} target "
            f"subwords; left out: {each.skipped} empty, {each.too_long} too long\n"
            for split, each in pairs.items()
        ),
        end="",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
