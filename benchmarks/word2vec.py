"""Trains skip-gram by this library and by gensim, by turns, and compares speed and quality.

python -m benchmarks.word2vec --text FILE ... --tokenization letters --data-dir DIR

Both read the same text, with the same settings and as many threads as there are cores. A turn is a whole
training in a process of its own; timed is everything after the vocabulary is known, compiling included.
gensim reads its file in C, its fastest way.
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

import numpy as np

from keras_tying import data
from keras_tying.data.similarity import load_similarity_sets
from keras_tying.files import write_atomically
from keras_tying.metrics import word_similarity
from keras_tying.training import Run, SkipGramSettings, environment, train_skip_gram

RESULTS = Path(__file__).parent / "results" / "word2vec.json"
CORES = len(os.sched_getaffinity(0))

Trained = tuple[float, list[str], dict[str, np.ndarray]]
"""Seconds, words, and the input and output embeddings."""


def train_keras_tying(text: str, settings: SkipGramSettings) -> Trained:
    import keras

    from keras_tying import zoo

    tokens = data.file_tokens([text], "spaces")
    vocabulary = data.Vocabulary.from_tokens(tokens, minimum_count=settings.minimum_count)
    keras.utils.set_random_seed(settings.seed)
    start = time.perf_counter()
    ids = data.ids_on_disk(data.file_tokens([text], "spaces"), vocabulary)
    model = zoo.skip_gram(len(vocabulary), settings.units, settings.tied, settings.negatives)
    with tempfile.TemporaryDirectory() as folder:
        train_skip_gram(model, ids, vocabulary, settings, Run(folder))
    seconds = time.perf_counter() - start
    matrices = {role: np.array(matrix) for role, matrix in model.embedding_matrices().items()}
    words, _ = data.without_special_words(vocabulary, matrices["input"])
    vectors = {role: data.without_special_words(vocabulary, matrix)[1] for role, matrix in matrices.items()}
    return seconds, words, vectors


def train_gensim(text: str, settings: SkipGramSettings) -> Trained:
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=settings.units,
        window=settings.window,
        min_count=settings.minimum_count,
        sg=1,
        negative=settings.negatives,
        sample=settings.subsample,
        alpha=settings.learning_rate,
        min_alpha=settings.final_learning_rate,
        workers=CORES,
        seed=settings.seed,
    )
    model.build_vocab(corpus_file=text)
    start = time.perf_counter()
    model.train(corpus_file=text, total_words=model.corpus_total_words, epochs=settings.epochs)
    seconds = time.perf_counter() - start
    return seconds, model.wv.index_to_key, {"input": model.wv.vectors, "output": model.syn1neg}


CONTENDERS = {"keras-tying": train_keras_tying, "gensim": train_gensim}


def turn(name: str, text: str, settings: SkipGramSettings, sets: list) -> dict:
    """One training: its seconds and the Spearman correlations of its embeddings."""
    seconds, words, matrices = CONTENDERS[name](text, settings)
    ids = {word: i for i, word in enumerate(words)}
    spearman = {
        role: {one.name: word_similarity(matrix, ids, one.pairs, one.scores).spearman for one in sets}
        for role, matrix in matrices.items()
    }
    return {"seconds": round(seconds, 2), "spearman": spearman}


def compare(text: str, words: int, settings: SkipGramSettings, sets: list, rounds: int) -> dict:
    """Lets the contenders train by turns; speeds are medians, the ratio is the median within a round."""
    turns: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
    load = []
    for seed in range(1, rounds + 1):
        load.append(round(os.getloadavg()[0], 2))
        for name, results in turns.items():
            with multiprocessing.get_context("spawn").Pool(1) as process:
                results.append(process.apply(turn, (name, text, settings.model_copy(update={"seed": seed}), sets)))
            print(name, results[-1], flush=True)
    seconds = {name: [result["seconds"] for result in results] for name, results in turns.items()}
    return {
        "words": words,
        "words_per_second": {
            name: round(words * settings.epochs / statistics.median(times), 1) for name, times in seconds.items()
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
    settings = SkipGramSettings(epochs=arguments.epochs)
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
        results = compare(text.name, words, settings, sets, arguments.rounds)
    names = " ".join(path.name for path in arguments.text)
    results = {
        **environment(),
        "gensim": metadata.version("gensim"),
        "command": f"python -m benchmarks.word2vec --text {names} --tokenization {arguments.tokenization} "
        f"--epochs {arguments.epochs} --rounds {arguments.rounds} --data-dir DIR",
        "settings": settings.model_dump(exclude={"seed", "command", "vocabulary_sha256"}, exclude_none=True),
        "results": results,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())
    print(json.dumps({key: value for key, value in results["results"].items() if key != "turns"}, indent=1))


if __name__ == "__main__":
    main()
