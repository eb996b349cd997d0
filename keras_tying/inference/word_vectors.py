"""Trained word vectors: words in, vectors and similar words out."""

from collections.abc import Sequence
from difflib import get_close_matches

import keras
import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data import Vocabulary, without_special_words
from keras_tying.inference.sentences import check_sentences
from keras_tying.metrics import nearest_neighbours


class TrainedWordVectors:
    """Embeddings of a model with their words, without the specials `<unk>` and `<eos>`.

    Args:
        model: A `SkipGram`, or another model with `embedding_matrices`.
        vocabulary: Its words; of a model with a source language, those of the target language.

    Attributes:
        model: The `keras.Model`.
        vocabulary: The words of the model.
        words: The words that have vectors.
        matrices: Vectors `float32 [V, H]` of `words` by role, for example `input` and `output`, or `tied`.

    Raises:
        ValueError: If model and vocabulary differ in size.

    Example:

    >>> import keras_tying as kt
    >>> words = kt.data.Vocabulary(["king", "queen", "tulip", "<unk>", "<eos>"])
    >>> vectors = kt.inference.TrainedWordVectors(kt.zoo.skip_gram(5, units=8), words)
    >>> vectors.vector(["king", "tulip"]).shape
    (2, 8)
    >>> len(vectors.similar_words("king", k=2))
    2
    """

    def __init__(self, model: keras.Model, vocabulary: Vocabulary):
        matrices = model.embedding_matrices()
        matrices.pop("source", None)  # words of another language
        vocabulary.check_size(next(iter(matrices.values())).shape[0])
        self.model = model
        self.vocabulary = vocabulary
        self.matrices: dict[str, np.ndarray] = {}
        for role, matrix in matrices.items():
            rows = keras.ops.convert_to_numpy(matrix).astype(np.float32)
            self.words, self.matrices[role] = without_special_words(vocabulary, rows)
        self._rows = {word: row for row, word in enumerate(self.words)}

    def vector(self, words: Sequence[str], role: str | None = None) -> np.ndarray:
        """Vectors `float32 [N, H]` of words.

        Args:
            words: List of `N` words.
            role: A key of `matrices`. Default: the input embedding, or the tied one.

        Raises:
            ValueError: If a word has no vector, or there is no such role.
        """
        check_sentences(words, "words")
        return self._matrix(role)[[self._row(word) for word in words]]

    def similar_words(self, word: str, k: int = 5, role: str | None = None) -> list[tuple[str, float]]:
        """The `k` words with the largest cosines to a word, and these cosines, most similar first.

        Raises:
            ValueError: If the word has no vector, `k` is below 1, or there is no such role.
        """
        check_integer("k", k)
        nearest, cosines = nearest_neighbours(self._matrix(role), np.array([self._row(word)]), k)
        return [(self.words[i], float(cosine)) for i, cosine in zip(nearest[0], cosines[0], strict=True)]

    def _matrix(self, role: str | None) -> np.ndarray:
        if role is None:
            return next(iter(self.matrices.values()))
        if role not in self.matrices:
            raise ValueError(f"`role` must be one of {list(self.matrices)}. Received: role={role!r}")
        return self.matrices[role]

    def _row(self, word: str) -> int:
        if not isinstance(word, str) or word not in self._rows:
            near = get_close_matches(word, self.words, 3) if isinstance(word, str) else []
            hint = f" Words like it: {', '.join(near)}" if near else ""
            raise ValueError(f"The vectors have no word {word!r} among their {len(self.words):,}.{hint}")
        return self._rows[word]
