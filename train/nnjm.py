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
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras

from keras_tying import data, zoo
from keras_tying.tables import dump_table, load_table
from keras_tying.training import CAN_BE_RESUMED, Run, TrainingDiverged, TrainingInterrupted
from keras_tying.training.joint_language_model import JointSchedule, sample_perplexity, train_joint_language_model
from keras_tying.training.joint_runs import JointData, JointFiles, JointRunSettings, joint_results, vocabularies

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
LONGEST_SENTENCE = 100
"""Source words the global context sees at most."""


def main() -> int:
    arguments = parse_arguments()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        if arguments.evaluate:
            return evaluate(runs_in(arguments.evaluate))
        if arguments.draw:
            return draw(runs_in(arguments.draw))
        runs = runs_in(arguments.resume) if arguments.resume else started(arguments)
        return train(runs, arguments)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--resume", type=Path, metavar="FOLDER", help="continue stopped runs")
    mode.add_argument("--evaluate", type=Path, metavar="FOLDER", help="print the exact perplexities of trained runs")
    mode.add_argument("--draw", type=Path, metavar="FOLDER", help="draw the first layers of trained runs")
    for split in data.SPLITS:
        parser.add_argument(f"--{split}", nargs="+", type=Path, metavar="FILE", help="source, target and links")
    parser.add_argument("--run", type=Path, default=Path("runs/nnjm"), help="folder that gets a run a model")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--tied", action="store_true", help="tie the output to the target input embedding")
    parser.add_argument("--hidden-units", type=int, nargs="+", help="sizes of the hidden layers")
    for name, (kind, models, text) in MODEL_OPTIONS.items():
        only = "" if models == EVERY else f" ({', '.join(models)})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text + only)
    parser.add_argument("--bootstrap", type=Path, metavar="RUN", help="start from the word vectors of a trained run")
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-vectors", type=Path, metavar="FILE", help="start from vectors in word2vec's text"
        )
    parser.add_argument("--freeze", action="store_true", help="keep the word vectors it starts from")
    parser.add_argument("--tokenization", choices=("spaces", "plain"), default="spaces")
    parser.add_argument("--vocabulary-size", type=int, default=10_000, help="cap on each side's word types")
    parser.add_argument("--sentences", type=int, help="sentence pairs to train on; default: all")
    for name, field in JointSchedule.model_fields.items():
        kind = float if name in ("learning_rate", "clip_norm") else int
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=field.default)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints")
    return parser.parse_args()


# Runs from arguments, or from their folder


def started(arguments: argparse.Namespace) -> list[tuple[Run, JointRunSettings]]:
    """A run for each model, all of the same text."""
    files = given_files(arguments)
    settings = JointData(
        tokenization=arguments.tokenization,
        source_vocabulary_size=arguments.vocabulary_size,
        target_vocabulary_size=arguments.vocabulary_size,
        sentences=arguments.sentences,
    )
    schedule = JointSchedule(**{name: getattr(arguments, name) for name in JointSchedule.model_fields})
    if any((arguments.run / model).exists() for model in arguments.models):
        raise FileExistsError(
            f"{arguments.run} already holds runs. Choose another --run, continue them with "
            f"--resume {arguments.run}, or remove them."
        )
    texts = {split: each.bitext(settings.tokenization) for split, each in files.items()}
    if any(each.alignment is None for each in files.values()):
        print("aligning with eflomal", flush=True)
        aligned = data.align(list(texts.values()), arguments.run / "alignment")
        files = {
            split: each.model_copy(update={"alignment": str(text.alignment)})
            for (split, each), text in zip(files.items(), aligned, strict=True)
        }
    for model in arguments.models:  # named before anything is made
        zoo.create_model(model, **sizes(model, 3, 3), **model_arguments(model, arguments))
    source, target = vocabularies(files["train"].bitext(settings.tokenization, settings.sentences), settings)
    runs = []
    for model in arguments.models:
        run_settings = JointRunSettings(
            model=model,
            arguments=model_arguments(model, arguments),
            data=settings,
            schedule=schedule,
            seed=arguments.seed,
            command=reproducing_command(arguments),
            files=files,
            source_vocabulary_sha256=source.sha256,
            target_vocabulary_sha256=target.sha256,
            bootstrap=arguments.bootstrap and str(arguments.bootstrap.resolve()),
            source_vectors=arguments.source_vectors and str(arguments.source_vectors.resolve()),
            target_vectors=arguments.target_vectors and str(arguments.target_vectors.resolve()),
        )
        run = Run.create(arguments.run / model, dump_table(run_settings))
        source.save(run.source_vocabulary)
        target.save(run.vocabulary)
        runs.append((run, run_settings))
    return runs


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
    given = {"tied": arguments.tied, "trainable_embeddings": not arguments.freeze}
    if arguments.hidden_units:
        given["hidden_units"] = arguments.hidden_units
    for name, (_, models, _) in MODEL_OPTIONS.items():
        value = getattr(arguments, name)
        if value is not None and model in models:
            given[name] = value
    return given


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: paths of this machine are left out."""
    words, skipping = [], False
    paths = {"--train", "--valid", "--test", "--run", "--bootstrap", "--source-vectors", "--target-vectors"}
    for word in sys.argv[1:]:
        if word.startswith("--"):
            skipping = word in paths
            words.append(f"{word} ..." if skipping else word)
        elif not skipping:
            words.append(word)
    return " ".join(["python train/nnjm.py", *words])


def runs_in(folder: Path) -> list[tuple[Run, JointRunSettings]]:
    """The runs of a folder, or the one it is."""
    folders = [folder] if (folder / "config.toml").exists() else [folder / model for model in MODELS]
    runs = [Run(each) for each in folders if (each / "config.toml").exists()]
    if not runs:
        raise FileNotFoundError(f"{folder} holds no runs: there is no config.toml in it or below it.")
    return [(run, load_table(JointRunSettings, run.config)) for run in runs]


# What a run works with


def open_vocabularies(run: Run, settings: JointRunSettings) -> tuple[data.Vocabulary, data.Vocabulary]:
    found = []
    for path, expected in (
        (run.source_vocabulary, settings.source_vocabulary_sha256),
        (run.vocabulary, settings.target_vocabulary_sha256),
    ):
        vocabulary = data.Vocabulary.load(path)
        if vocabulary.sha256 != expected:
            raise ValueError(
                f"{path} is not the vocabulary this run was made with: expected SHA-256 {expected}, "
                f"received {vocabulary.sha256}. Put the file back."
            )
        found.append(vocabulary)
    return found[0], found[1]


def sizes(model: str, source: int, target: int) -> dict[str, int]:
    """Arguments of a zoo's function that depend on the vocabularies."""
    return {"target_vocabulary_size": target, **({"source_vocabulary_size": source} if model in SOURCE else {})}


def build_model(settings: JointRunSettings, source, target, samples: dict[str, data.JointSamples]) -> keras.Model:
    arguments = {**sizes(settings.model, len(source), len(target)), **settings.arguments}
    if settings.model in GLOBAL:
        arguments["sentence_length"] = min(samples["train"].longest_source, LONGEST_SENTENCE)
    model = zoo.create_model(settings.model, **arguments)
    if settings.bootstrap:
        model.bootstrap(**keras.saving.load_model(Run.open(settings.bootstrap).model).word_vectors)
    for side, file, vocabulary in (
        ("source", settings.source_vectors, source),
        ("target", settings.target_vectors, target),
    ):
        if file:
            model.bootstrap(**{side: data.vectors_for(vocabulary, file)})
    return model


# The three things it does


def train(runs: list[tuple[Run, JointRunSettings]], arguments: argparse.Namespace) -> int:
    samples = None
    for run, settings in runs:
        if run.results.exists():
            continue
        source, target = open_vocabularies(run, settings)
        if samples is None:
            samples = {split: text.encode(source, target) for split, text in settings.texts().items()}
        keras.utils.set_random_seed(settings.seed)
        model = build_model(settings, source, target, samples)
        print_head(run, settings, model, samples)
        try:
            progress = train_joint_language_model(
                model,
                samples["train"],
                samples["valid"],
                target,
                settings.schedule,
                run,
                settings.seed,
                arguments.checkpoint_minutes,
            )
        except TrainingInterrupted as stop:
            print(f"\n{stop} Continue with: python train/nnjm.py --resume {run.folder.parent}")
            return CAN_BE_RESUMED
        except TrainingDiverged as failure:
            print(f"error: {failure}", file=sys.stderr)
            return 1
        model.save(run.model)
        if keras.backend.backend() == "tensorflow":
            from keras_tying.export import export_joint_language_model

            export_joint_language_model(model, source, target, run.saved_model, settings.data.tokenization)
        results = joint_results(model, samples, settings, progress)
        run.write_results(results)
        print(
            f"test perplexity {results['test_perplexity']:.2f} (validation {results['valid_perplexity']:.2f}), "
            f"{results['samples_per_second']:,.0f} samples a second\n"
            f"SavedModel      {run.saved_model}\n"
            f"TensorBoard     tensorboard --logdir {run.tensorboard}\n",
            flush=True,
        )
    return 0


def evaluate(runs: list[tuple[Run, JointRunSettings]]) -> int:
    for run, settings in runs:
        model = trained_model(run)
        words = open_vocabularies(run, settings)
        for split, text in settings.texts().items():
            if split != "train":
                samples = text.encode(*words)
                perplexity = sample_perplexity(model, samples)
                print(f"{settings.model:12} {split:5} perplexity {perplexity:8.2f} over {len(samples):,} words")
    return 0


def draw(runs: list[tuple[Run, JointRunSettings]]) -> int:
    from keras_tying.training.joint_pictures import draw_heat_map, draw_position_weights, position_weights

    for run, _ in runs:
        model = trained_model(run)
        draw_heat_map(model, run.folder / "weights.png")
        draw_position_weights(position_weights(model), model.window, run.folder / "positions.png")
        print(f"{run.folder / 'weights.png'}, {run.folder / 'positions.png'}")
    return 0


def trained_model(run: Run) -> keras.Model:
    if not run.model.exists():
        raise FileNotFoundError(f"{run.folder} has no trained model yet. Finish it with --resume {run.folder}")
    return keras.saving.load_model(run.model)


def print_head(run: Run, settings: JointRunSettings, model: keras.Model, samples: dict) -> None:
    print(
        f"{settings.model}{', tied' if model.tied else ''}\n"
        f"run         {run.folder}\n"
        f"parameters  {model.count_params():,}\n"
        f"vocabulary  {model.target_vocabulary_size:,} target words, {model.source_vocabulary_size:,} source words\n"
        + "".join(f"{split:10}  {len(each):,} target words\n" for split, each in samples.items()),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
