"""Trains skip-gram with this library and with gensim, in turns, and compares speed and quality.

python -m benchmarks.word2vec --text FILE ... --tokenization letters --data-dir DIR

Both read the same text, with the same settings and one thread per core. A turn is a whole training in its own process.
The time starts when the vocabulary is known and includes compilation. gensim reads its file in C, its fastest way.

Writes `results/word2vec.json`.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run import RESULTS
from keras_tying import data
from keras_tying.data.similarity import load_similarity_sets
from keras_tying.distribution.strategies import usable_cores
from keras_tying.metrics import word_similarity
from keras_tying.tasks import SkipGramTask
from keras_tying.training import Run, RunSettings, environment, fit
from keras_tying.zoo.changed_recipes import changed_recipe
from keras_tying.zoo.recipes import load_recipe
from studies.results import write_results

RECIPE = "word2vec"
CORES = usable_cores()

Trained = tuple[float, list[str], dict[str, np.ndarray]]
"""Seconds, words, and the input and output embeddings."""


def train_keras_tying(settings: RunSettings) -> Trained:
    import keras

    task = SkipGramTask(settings)
    task.vocabularies = task.learn_vocabularies()
    keras.utils.set_random_seed(settings.seed)
    start = time.perf_counter()
    task.load_text()
    model = task.build_model()
    with tempfile.TemporaryDirectory() as folder:
        fit(task, model, Run(folder))
    seconds = time.perf_counter() - start
    matrices = {role: np.array(matrix) for role, matrix in model.embedding_matrices().items()}
    words, _ = data.without_special_words(task.vocabulary, matrices["input"])
    vectors = {role: data.without_special_words(task.vocabulary, matrix)[1] for role, matrix in matrices.items()}
    return seconds, words, vectors


def train_gensim(settings: RunSettings) -> Trained:
    from gensim.models import Word2Vec

    assert settings.files is not None
    ((text,),) = settings.files["train"]
    recipe: Any = settings.recipe
    arguments, optimisation = recipe.model.arguments, recipe.optimisation
    model = Word2Vec(
        vector_size=arguments["units"],
        window=recipe.data.window,
        min_count=recipe.data.minimum_count,
        sg=1,
        negative=arguments["negatives"],
        sample=recipe.data.subsample,
        alpha=optimisation.learning_rate,
        min_alpha=optimisation.final_learning_rate,
        workers=CORES,
        seed=settings.seed,
    )
    model.build_vocab(corpus_file=text)
    start = time.perf_counter()
    model.train(corpus_file=text, total_words=model.corpus_total_words, epochs=optimisation.epochs)
    seconds = time.perf_counter() - start
    return seconds, model.wv.index_to_key, {"input": model.wv.vectors, "output": model.syn1neg}


CONTENDERS = {"keras-tying": train_keras_tying, "gensim": train_gensim}


def turn(name: str, settings: RunSettings, sets: list) -> dict:
    """One training: its seconds and the Spearman correlations of its embeddings."""
    seconds, words, matrices = CONTENDERS[name](settings)
    ids = {word: i for i, word in enumerate(words)}
    spearman = {
        role: {one.name: word_similarity(matrix, ids, one.pairs, one.scores).spearman for one in sets}
        for role, matrix in matrices.items()
    }
    return {"seconds": round(seconds, 2), "spearman": spearman}


def compare(words: int, settings: RunSettings, sets: list, rounds: int) -> dict:
    """Trains the contenders in turns. Speeds are medians; the speed ratio is the median of the ratios within a round.

    Args:
        words: Number of words of the text.
        settings: Text and recipe of both contenders. The seed is the number of the round.
        sets: Similarity sets that the embeddings are compared with.
        rounds: Trainings of each contender.
    """
    epochs = settings.recipe.optimisation.epochs
    turns: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
    load = []
    for seed in range(1, rounds + 1):
        load.append(round(os.getloadavg()[0], 2))
        for name, results in turns.items():
            with multiprocessing.get_context("spawn").Pool(1) as process:
                results.append(process.apply(turn, (name, settings.model_copy(update={"seed": seed}), sets)))
            print(name, results[-1], flush=True)
    seconds = {name: [result["seconds"] for result in results] for name, results in turns.items()}
    return {
        "words": words,
        "words_per_second": {
            name: round(words * epochs / statistics.median(times), 1) for name, times in seconds.items()
        },
        "speed_ratio": round(
            statistics.median(g / k for g, k in zip(seconds["gensim"], seconds["keras-tying"], strict=True)), 3
        ),
        "mean_spearman": {
            name: {role: _mean_spearman(results, role) for role in ("input", "output")}
            for name, results in turns.items()
        },
        "turns": turns,
        "load_before_each_round": load,
        "threads": CORES,
    }


def settings_for(text: str, epochs: int) -> RunSettings:
    """Settings of a run of the recipe on a file of tokens that are separated by spaces."""
    changes = {"data.corpus": "files", "data.tokenization": "spaces", "optimisation.epochs": epochs}
    recipe: Any = changed_recipe(load_recipe(RECIPE), changes)
    return RunSettings(recipe_name=RECIPE, seed=1, command="", files={"train": [[text]]}, recipe=recipe)


def _mean_spearman(results: list[dict], role: str) -> float:
    return round(statistics.mean(rho for result in results for rho in result["spearman"][role].values()), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", type=Path, required=True, metavar="FILE", help="UTF-8 texts")
    parser.add_argument("--tokenization", choices=data.TOKENIZATIONS, default="spaces")
    parser.add_argument("--data-dir", type=Path, help="folder with the similarity sets, instead of a download")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sets = load_similarity_sets(arguments.data_dir)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
        words = 0
        for path in arguments.text:
            for line in data.read_lines(path):
                tokens = data.tokenize(line, arguments.tokenization)
                words += len(tokens)
                if tokens:
                    print(*tokens, file=text)
        text.flush()
        settings = settings_for(text.name, arguments.epochs)
        results = compare(words, settings, sets, arguments.rounds)
    names = " ".join(path.name for path in arguments.text)
    results = {
        **environment(),
        "gensim": metadata.version("gensim"),
        "command": f"python -m benchmarks.word2vec --text {names} --tokenization {arguments.tokenization} "
        f"--epochs {arguments.epochs} --rounds {arguments.rounds} --data-dir DIR",
        "recipe": settings.recipe.model_dump(include={"model", "data", "optimisation"}, exclude_none=True),
        "results": results,
    }
    write_results(RESULTS / "word2vec.json", results, keep_earlier=True)
    print(json.dumps({key: value for key, value in results["results"].items() if key != "turns"}, indent=1))


if __name__ == "__main__":
    main()
