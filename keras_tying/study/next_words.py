"""What models expect to follow given phrases, side by side."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_tying.data import Vocabulary
from keras_tying.models import LanguageModel


def next_words(model: LanguageModel, vocabulary: Vocabulary, phrase: str, k: int = 10) -> list[tuple[str, float]]:
    """The likeliest words after a phrase that begins a sentence, and their probabilities.

    Args:
        model: A trained `LanguageModel`.
        vocabulary: Its words; others in the phrase are read as `<unk>`.
        phrase: Words apart by spaces.
        k: Integer, how many words.

    Raises:
        ValueError: If model and vocabulary differ in size.
    """
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(f"The model has {model.vocabulary_size} words. Received: a vocabulary of {len(vocabulary)}.")
    ids = np.concatenate([[vocabulary.end_id], vocabulary.encode(phrase.split())])[None].astype(np.int32)
    hidden, _ = model.hidden_states(ids, training=False)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model.scores(hidden[:, -1])))[0]
    best = np.argsort(-probabilities, kind="stable")[:k]
    return [(word, float(probabilities[i])) for word, i in zip(vocabulary.decode(best), best, strict=True)]


def next_words_table(
    models: Mapping[str, tuple[LanguageModel, Vocabulary]], phrases: Sequence[str], k: int = 10
) -> str:
    """A Markdown table: a row a phrase, a column a model.

    Args:
        models: Models and their words by name.
        phrases: What they read; what stands behind a `+` is what followed, which they do not read.
        k: Integer, words a cell.

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, table 4.
    """
    lines = [f"| phrase | {' | '.join(models)} |", "|---|" + "---|" * len(models)]
    for phrase in phrases:
        read, _, followed = (part.strip() for part in phrase.partition("+"))
        cells = []
        for model, vocabulary in models.values():
            found = next_words(model, vocabulary, read, k)
            cells.append(", ".join(f"**{w}** {p:.2f}" if w == followed else f"{w} {p:.2f}" for w, p in found))
        lines.append(f"| {read}{f' + {followed}' if followed else ''} | {' | '.join(cells)} |")
    return "\n".join(line.replace("<unk>", "`<unk>`").replace("<eos>", "`<eos>`") for line in lines)
