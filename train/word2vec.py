"""Trains skip-gram embeddings, untied or tied, or resumes a run.

python train/word2vec.py                                      embedded corpus, a minute
python train/word2vec.py --tied                               input and output embeddings in one matrix
python train/word2vec.py --corpus text8                       or ptb; --data-dir DIR instead of a download
python train/word2vec.py --train-file A B --tokenization letters    any UTF-8 text, of any length
python train/word2vec.py --prepared DIR                       text of any size, see train/prepare.py
python train/word2vec.py --resume runs/NAME
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's warnings, without its remarks

import keras
import numpy as np

from keras_tying import data, zoo
from keras_tying.data.skip_gram import check_enough_words
from keras_tying.tables import dump_table, load_table
from keras_tying.training import (
    Checkpoints,
    Distribution,
    Run,
    SkipGramSettings,
    add_distribution_arguments,
    begin_run,
    distribution_of,
    run_command,
    train_skip_gram,
    training_record,
)


def main() -> int:
    arguments = parse_arguments()
    return run_command(lambda: work(arguments), "Continue with: python train/word2vec.py --resume {run}")


def work(arguments: argparse.Namespace) -> int:
    distribution = distribution_of(arguments)
    folder = arguments.run or Path("runs") / f"word2vec{'_tied' * arguments.tied}"
    run, settings = begin_run(distribution, arguments, folder, lambda: started(arguments, folder), resumed)
    return train(run, settings, arguments.checkpoint_minutes, distribution)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    text = parser.add_mutually_exclusive_group()
    text.add_argument("--corpus", default="embedded", help="embedded, text8 or ptb")
    text.add_argument("--train-file", nargs="+", type=Path, metavar="FILE", help="UTF-8 texts, read one after another")
    text.add_argument("--prepared", type=Path, metavar="DIR", help="folder of a text, from train/prepare.py")
    text.add_argument("--resume", metavar="RUN", help="continue a stopped run")
    parser.add_argument("--data-dir", type=Path, help="folder with the corpus's files, instead of a download")
    parser.add_argument("--run", type=Path, help="folder of the run; default: runs/word2vec or runs/word2vec_tied")
    parser.add_argument("--tied", action="store_true", help="one matrix for input and output")
    parser.add_argument("--tokenization", choices=data.TOKENIZATIONS, help="default: that of the corpus, or spaces")
    for name in ("minimum_count", "units", "window", "negatives", "subsample", "learning_rate", "epochs", "seed"):
        default = SkipGramSettings.model_fields[name].default
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, help="default: %(default)s"
        )
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0, help="time between checkpoints")
    add_distribution_arguments(parser)
    return parser.parse_args()


# A run from its arguments, or from its folder


def started(arguments: argparse.Namespace, folder: Path) -> tuple[Run, SkipGramSettings]:
    given = {name: value for name, value in vars(arguments).items() if name in SkipGramSettings.model_fields}
    given["data_dir"] = arguments.data_dir and str(arguments.data_dir.resolve())
    if arguments.train_file:
        given |= {"corpus": "files", "files": [str(file.resolve()) for file in arguments.train_file]}
    given["prepared"] = arguments.prepared and str(arguments.prepared.resolve())
    settings = SkipGramSettings.model_validate(given)
    vocabulary = open_corpus(settings).vocabulary(minimum_count=settings.minimum_count)
    check_enough_words(len(vocabulary) - 2)  # without <unk> and <eos>
    settings = settings.model_copy(
        update={"vocabulary_sha256": vocabulary.sha256, "command": reproducing_command(arguments)}
    )
    run = Run.create(folder, dump_table(settings))
    vocabulary.save(run.vocabulary)
    return run, settings


def resumed(folder: Path) -> tuple[Run, SkipGramSettings]:
    run = Run.open(folder)
    return run, load_table(SkipGramSettings, run.config)


def reproducing_command(arguments: argparse.Namespace) -> str:
    """The command that gives the same figures elsewhere: folders of this machine are left out."""
    command = "python train/word2vec.py"
    for name, value in vars(arguments).items():
        if name in SkipGramSettings.model_fields and name not in ("data_dir", "prepared") and value:
            default = SkipGramSettings.model_fields[name].default
            if value != default:
                command += f" --{name.replace('_', '-')}" + (f" {value}" if value is not True else "")
    if arguments.train_file:
        command += " --train-file " + " ".join(file.name for file in arguments.train_file)
    command += " --prepared PREPARED" if arguments.prepared else ""
    return command + (" --data-dir DIR" if arguments.data_dir else "")


def open_corpus(settings: SkipGramSettings) -> data.Corpus | data.PreparedCorpus:
    if settings.prepared:
        return data.PreparedCorpus(settings.prepared)
    if settings.files:
        corpus = data.Corpus("files", {"train": [Path(file) for file in settings.files]})
    else:
        corpus = data.load_corpus(settings.corpus, settings.data_dir)
    return dataclasses.replace(corpus, tokenization=settings.tokenization or corpus.tokenization)


def open_text(settings: SkipGramSettings, vocabulary: data.Vocabulary) -> np.ndarray | data.PreparedText:
    """The training text, on disk."""
    corpus = open_corpus(settings)
    if isinstance(corpus, data.PreparedCorpus):
        return corpus.ids("train", vocabulary)
    return data.ids_on_disk(corpus.tokens("train"), vocabulary)


def train(run: Run, settings: SkipGramSettings, checkpoint_minutes: float, distribution: Distribution) -> int:
    vocabulary = run.open_vocabulary(settings.vocabulary_sha256)
    ids = open_text(settings, vocabulary)
    keras.config.set_dtype_policy(settings.precision)
    keras.utils.set_random_seed(settings.seed)
    with distribution.scope():
        model = zoo.skip_gram(len(vocabulary), settings.units, settings.tied, settings.negatives)
    if distribution.is_chief:
        print_head(run, settings, vocabulary, ids)
    progress = train_skip_gram(model, ids, vocabulary, settings, run, checkpoint_minutes)
    if distribution.is_chief:
        written = keep(run, model, vocabulary)
        run.write_results(measured(settings, ids, progress) | distribution.description)
        print_end(run, progress.seconds, written)
    distribution.meet()
    return 0


def print_head(run: Run, settings: SkipGramSettings, vocabulary: data.Vocabulary, ids: np.ndarray) -> None:
    print(
        f"{'tied' if settings.tied else 'untied'} skip-gram, {settings.units} units\n"
        f"run         {run.folder}\n"
        f"vocabulary  {len(vocabulary):,} words\n"
        f"text        {len(ids):,} tokens",
        flush=True,
    )


def keep(run: Run, model: keras.Model, vocabulary: data.Vocabulary) -> list[Path]:
    """Writes what the run is for; returns the files of vectors."""
    model.save(run.model)
    if keras.backend.backend() == "tensorflow":
        from keras_tying.export import export_skip_gram

        export_skip_gram(model, vocabulary, run.saved_model)
    return write_vectors(run, model, vocabulary)


def print_end(run: Run, seconds: float, written: list[Path]) -> None:
    print(
        f"{seconds / 60:.1f} minutes\n"
        f"vectors         {', '.join(map(str, written))}\n"
        f"SavedModel      {run.saved_model}\n"
        f"TensorBoard     tensorboard --logdir {run.tensorboard}\n"
        f"what they learned: python train/embeddings.py {run.folder}"
    )


def write_vectors(run: Run, model: keras.Model, vocabulary: data.Vocabulary) -> list[Path]:
    """Each embedding in word2vec's text and binary format."""
    paths = []
    for role, matrix in model.embedding_matrices().items():
        for path in (run.folder / f"{role}.txt", run.folder / f"{role}.bin"):
            data.save_word_vectors(path, *data.words_alone(vocabulary, np.asarray(matrix)))
            paths.append(path)
    return paths


def measured(settings: SkipGramSettings, ids: np.ndarray, progress: Checkpoints) -> dict:
    return {
        "pair_loss": progress.history[-1]["pair_loss"],
        "tokens": len(ids),
        **training_record(settings, progress, "words", len(ids)),
    }


if __name__ == "__main__":
    sys.exit(main())
