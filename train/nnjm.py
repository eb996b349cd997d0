"""Trains NNLM, NNJM and NNJM-Global on aligned text, continues them, or evaluates them.

python train/nnjm.py --train F E [LINKS] --valid F E [LINKS] --test F E [LINKS]     all three, into runs/nnjm
python train/nnjm.py --models nnjm --tied --window 11 ...                           one of them, tied
python train/nnjm.py --resume runs/nnjm
python train/nnjm.py --evaluate runs/nnjm
python train/nnjm.py --draw runs/nnjm                                               figures 11 and 12

F and E are source and target text, a sentence a line, tokens set apart by spaces (`--tokenization plain` for
running text), gzipped or not. LINKS holds `i-j` pairs, a line a sentence; without it the text is aligned by
eflomal (pip install keras-tying[align]).
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras

from keras_tying import data
from keras_tying.training import (
    Distribution,
    Run,
    add_distribution_arguments,
    begin_run,
    distribution_of,
    run_command,
)
from keras_tying.training.joint_language_model import JointSchedule, sample_perplexity, train_joint_language_model
from keras_tying.training.joint_runs import (
    JointData,
    JointFiles,
    JointRunSettings,
    create_joint_runs,
    joint_results,
    open_joint_runs,
    texts,
)
from keras_tying.zoo.joint_language_models import create_joint_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from studies.joint_grid import position_weights
from studies.joint_language_models import draw_position_weights, draw_weights

MODELS = ("nnlm", "nnjm", "nnjm_global")
EVERY, SOURCE, GLOBAL = MODELS, MODELS[1:], MODELS[2:]
MODEL_OPTIONS = {
    "order": (int, EVERY, "n: the history has n - 1 words"),
    "embedding_size": (int, EVERY, "width of word vectors"),
    "activation": (str, EVERY, "tanh, relu or leaky_relu"),
    "window": (int, SOURCE, "source words around the affiliated one, odd"),
    "sections": (int, GLOBAL, "sections of the source sentence"),
    "split": (str, GLOBAL, "adaptive or fixed"),
    "stop_words": (int, GLOBAL, "so many most frequent source words have no weight"),
    "global_units": (int, GLOBAL, "size of a layer for the global context alone"),
}
PATHS = (*data.SPLITS, "run", "bootstrap", "source_vectors", "target_vectors")
LONGEST_SENTENCE = 100
"""Source words the global context sees at most."""


def main() -> int:
    arguments = parser().parse_args()
    return run_command(lambda: work(arguments), "Continue with: python train/nnjm.py --resume {run.parent}")


def work(arguments: argparse.Namespace) -> int:
    if arguments.evaluate:
        return evaluate(open_joint_runs(arguments.evaluate))
    if arguments.draw:
        return draw(open_joint_runs(arguments.draw))
    distribution = distribution_of(arguments)
    runs = begin_run(distribution, arguments, arguments.run, lambda: started(arguments), open_joint_runs)
    return train(runs, arguments.checkpoint_minutes, distribution)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = options.add_mutually_exclusive_group()
    mode.add_argument("--resume", type=Path, metavar="FOLDER", help="continue stopped runs")
    mode.add_argument("--evaluate", type=Path, metavar="FOLDER", help="print the exact perplexities of trained runs")
    mode.add_argument("--draw", type=Path, metavar="FOLDER", help="draw the first layers of trained runs")
    for split in data.SPLITS:
        options.add_argument(f"--{split}", nargs="+", type=Path, metavar="FILE", help="source, target and links")
    options.add_argument("--run", type=Path, default=Path("runs/nnjm"), help="folder that gets a run a model")
    options.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    options.add_argument("--tied", action="store_true", help="tie the output to the target input embedding")
    options.add_argument("--hidden-units", type=int, nargs="+", help="sizes of the hidden layers")
    for name, (kind, models, text) in MODEL_OPTIONS.items():
        only = "" if models == EVERY else f" ({', '.join(models)})"
        options.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text + only)
    options.add_argument("--bootstrap", type=Path, metavar="RUN", help="start from the word vectors of a trained run")
    for side in ("source", "target"):
        options.add_argument(f"--{side}-vectors", type=Path, metavar="FILE", help="start from a word2vec file")
    options.add_argument("--freeze", action="store_true", help="keep the word vectors it starts from")
    options.add_argument("--tokenization", choices=("spaces", "plain"), default="spaces")
    options.add_argument("--vocabulary-size", type=int, default=10_000, help="cap on each side's word types")
    options.add_argument("--sentences", type=int, help="sentence pairs to train on; default: all")
    for name, field in JointSchedule.model_fields.items():
        options.add_argument(f"--{name.replace('_', '-')}", type=type(field.default), default=field.default)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints")
    add_distribution_arguments(options)
    return options


# Runs from arguments, or from their folder


def started(arguments: argparse.Namespace) -> list[tuple[Run, JointRunSettings]]:
    files = given_files(arguments)
    models = {model: model_arguments(model, arguments) for model in arguments.models}
    for model, its in models.items():  # what is wrong with them is named before anything is made
        create_joint_model(model, 3, 3, LONGEST_SENTENCE, **its)
    if any(each.alignment is None for each in files.values()):
        print("without links: eflomal aligns the text first", flush=True)
    starts = {name: getattr(arguments, name) for name in ("bootstrap", "source_vectors", "target_vectors")}
    return create_joint_runs(
        arguments.run,
        models,
        files,
        JointData(
            tokenization=arguments.tokenization,
            source_vocabulary_size=arguments.vocabulary_size,
            target_vocabulary_size=arguments.vocabulary_size,
            sentences=arguments.sentences,
        ),
        JointSchedule(**{name: getattr(arguments, name) for name in JointSchedule.model_fields}),
        seed=arguments.seed,
        command=reproducing_command(arguments),
        precision=arguments.precision,
        **{name: str(path.resolve()) for name, path in starts.items() if path},
    )


def given_files(arguments: argparse.Namespace) -> dict[str, JointFiles]:
    files = {}
    for split in data.SPLITS:
        paths = getattr(arguments, split) or []
        if len(paths) not in (2, 3):
            raise ValueError(
                f"--{split} needs two or three files: source text, target text and, if there are any, the links "
                f"between them. Received: {len(paths)}. See --help."
            )
        names = ("source", "target", "alignment")
        files[split] = JointFiles(**{name: str(path.resolve()) for name, path in zip(names, paths, strict=False)})
    return files


def model_arguments(model: str, arguments: argparse.Namespace) -> dict:
    names = ["hidden_units", *(name for name, (_, models, _) in MODEL_OPTIONS.items() if model in models)]
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {"tied": arguments.tied, "trainable_embeddings": not arguments.freeze, **given}


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    words, defaults = ["python train/nnjm.py"], vars(parser().parse_args([]))
    for name, value in vars(arguments).items():
        if value != defaults[name]:
            words.append(f"--{name.replace('_', '-')}")
            if name in PATHS:
                words.append("...")
            elif value is not True:
                words += map(str, value if isinstance(value, list) else [value])
    return " ".join(words)


# The three things it does


def train(runs: list[tuple[Run, JointRunSettings]], checkpoint_minutes: float, distribution: Distribution) -> int:
    samples, samples_of = {}, None
    for run, settings in runs:
        if run.results.exists():
            continue
        source, target = settings.open_vocabularies(run)
        if samples_of != (settings.files, settings.data):  # mostly the same text for all runs
            samples_of = settings.files, settings.data
            samples = {split: text.encode(source, target) for split, text in texts(*samples_of).items()}
        longest = min(samples["train"].longest_source, LONGEST_SENTENCE)
        keras.config.set_dtype_policy(settings.precision)
        keras.utils.set_random_seed(settings.seed)
        with distribution.scope():
            model = create_joint_model(settings.model, len(target), len(source), longest, **settings.arguments)
        settings.bootstrap_model(model, source, target)
        if distribution.is_chief:
            print_head(run, settings, model, samples)
        training, validation = samples["train"], samples["valid"]
        progress = train_joint_language_model(
            model, training, validation, target, settings.schedule, run, settings.seed, checkpoint_minutes
        )
        if distribution.is_chief:
            model.save(run.model)
            if keras.backend.backend() == "tensorflow":
                from keras_tying.export import export_joint_language_model

                export_joint_language_model(model, source, target, run.saved_model, settings.data.tokenization)
            results = joint_results(model, samples, settings, progress) | distribution.description
            run.write_results(results)
            print(
                f"test perplexity {results['test_perplexity']:.2f} (validation {results['valid_perplexity']:.2f}), "
                f"{results['samples_per_second']:,.0f} samples a second\n"
                f"SavedModel      {run.saved_model}\n"
                f"TensorBoard     tensorboard --logdir {run.tensorboard}\n",
                flush=True,
            )
        distribution.meet()
    return 0


def print_head(run: Run, settings: JointRunSettings, model: keras.Model, samples: dict) -> None:
    print(
        f"{settings.model}{', tied' if model.tied else ''}\n"
        f"run         {run.folder}\n"
        f"parameters  {model.count_params():,}\n"
        f"vocabulary  {model.target_vocabulary_size:,} target words, {model.source_vocabulary_size:,} source words\n"
        + "".join(f"{split:10}  {len(each):,} target words\n" for split, each in samples.items()),
        flush=True,
    )


def evaluate(runs: list[tuple[Run, JointRunSettings]]) -> int:
    for run, settings in runs:
        model, words = run.load_model(), settings.open_vocabularies(run)
        for split, text in texts(settings.files, settings.data).items():
            if split != "train":
                samples = text.encode(*words)
                perplexity = sample_perplexity(model, samples)
                print(f"{settings.model:12} {split:5} perplexity {perplexity:8.2f} over {len(samples):,} words")
    return 0


def draw(runs: list[tuple[Run, JointRunSettings]]) -> int:
    for run, _ in runs:
        model = run.load_model()
        print(draw_weights(model, run.folder / "weights.png"))
        means = position_weights(model)
        print(draw_position_weights(means, model.window, run.folder / "positions.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
