"""The modes of training commands that train nothing and print: text, scores, similar words, shared subwords."""

import argparse
import io
import logging
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from keras_tying.commands.overlap import overlap
from keras_tying.data.subwords import LONGEST_SENTENCE
from keras_tying.data.text import BYTE_ORDER_MARK
from keras_tying.files import write_atomically
from keras_tying.pretrained.loading import load_for
from keras_tying.zoo.presets import model_at

LINES_AT_ONCE = 1000
"""Lines of standard input that are processed together."""

log = logging.getLogger(__name__)


def generate(arguments: argparse.Namespace) -> int:
    """Continues a text, or each line of standard input."""
    name, *words = arguments.generate
    model = _load("language_model", model_at(name), arguments)
    for prefix in [" ".join(words)] if words else (line for lines in _chunks(sys.stdin.buffer) for line in lines):
        text = model.generate(
            prefix,
            arguments.length,
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            seed=arguments.seed if "seed" in arguments.given else None,
        )
        print(f"{prefix} {text}".strip(), flush=True)
    return 0


def score(arguments: argparse.Namespace) -> int:
    """Prints tokens, log-probability and perplexity of each line of standard input, separated by tabs."""
    model = _load("language_model", arguments.score, arguments)
    print("tokens", "log_probability", "perplexity", sep="\t")
    for sentences in _chunks(sys.stdin.buffer):
        for tokens, log_probability, perplexity in model.score(sentences):
            print(tokens, f"{log_probability:.4f}", f"{perplexity:.4f}", sep="\t")
        sys.stdout.flush()
    return 0


def similar(arguments: argparse.Namespace) -> int:
    """Prints the words most similar to each of some words, with their cosines."""
    name, *words = arguments.similar
    if not words:
        raise ValueError(f"--similar needs a model and words. Received: only {name!r}")
    vectors = load_for("skip_gram", model_at(name))
    found = [vectors.similar_words(word, arguments.number) for word in words]
    for word, similar_words in zip(words, found, strict=True):
        print(f"{word}:", ", ".join(f"{other} {cosine:.2f}" for other, cosine in similar_words))
    return 0


def translate(arguments: argparse.Namespace) -> int:
    """Prints the translations of the lines of standard input; `--attention` plots the first sentence's attention."""
    translator, plot = _load("translation", arguments.translate, arguments), arguments.attention
    first = 1
    for sentences in _chunks(sys.stdin.buffer):
        for number, sentence in enumerate(sentences, start=first):
            if (length := len(translator.subwords.encode(sentence)) - 1) > LONGEST_SENTENCE:
                log.warning(
                    f"Standard input, line {number}: only the first {LONGEST_SENTENCE} of {length:,} subwords are "
                    "translated. Write one sentence per line."
                )
        first += len(sentences)
        translations = translator.translate(sentences, arguments.beam)
        print(*translations, sep="\n", flush=True)
        if plot is not None:
            image = io.BytesIO()
            figure = translator.attention_plot(sentences[0], translations[0])
            figure.savefig(image, format=plot.suffix[1:] or "png", dpi=150)
            write_atomically(plot, image.getvalue())
            plot = None
    if plot is not None:
        raise ValueError(f"--attention plots the first sentence of standard input. Received: none for {plot}")
    return 0


MODES = {mode.__name__: mode for mode in (generate, score, similar, translate, overlap)}
"""What the options of these names do."""


def _load(task: str, model: str | Path, arguments: argparse.Namespace) -> Any:
    return load_for(task, model, arguments.given.get("precision"))


def _chunks(file: BinaryIO) -> Iterator[list[str]]:
    number = 0
    while chunk := list(islice(file, LINES_AT_ONCE)):
        lines = []
        for line in chunk:
            number += 1
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK.encode())
            try:
                lines.append(line.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Standard input, line {number}: expected UTF-8, received byte {line[error.start]:#04x}."
                ) from None
        yield lines
