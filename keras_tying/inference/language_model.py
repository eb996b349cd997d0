"""Trained language models: text in, scores, words and text out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_tying.checks import check_integer, check_string
from keras_tying.data import PreparedText, Vocabulary, tokenize
from keras_tying.data.batching import rows_of
from keras_tying.data.text import check_tokenization, tokens
from keras_tying.ids import check_ids
from keras_tying.inference.sentences import by_length, check_sentences, checked_lines, most_probable
from keras_tying.metrics.perplexity import perplexity_of

POSITIONS_PER_CALL = 4000
"""Words that are scored per call. It does not change the result."""


class SentenceScore(NamedTuple):
    """How probable a sentence is.

    Attributes:
        tokens: Number of words, including the end of the sentence.
        log_probability: Natural logarithm of the probability of the sentence.
        perplexity: `exp(-log_probability / tokens)`.

    Example:

    >>> import keras_tying as kt
    >>> words = kt.data.Vocabulary(["the", "cat", "sat", "<unk>", "<eos>"])
    >>> lm = kt.inference.TrainedLanguageModel(kt.zoo.recurrent_language_model(5, 8), words)
    >>> score = lm.score(["The cat sat."])[0]
    >>> score.tokens, score.log_probability < 0, score.perplexity > 1
    (5, True, True)
    """

    tokens: int
    log_probability: float
    perplexity: float


class TrainedLanguageModel:
    """A language model with its words: text in, text out, on every backend of Keras.

    Words outside the vocabulary are replaced by `<unk>`. The methods give what the signatures of the SavedModel give,
    except that the same seed draws other words there, and as closely as the precision of the model allows: in bfloat16,
    a long text that is read word by word rounds its state after each word.

    Args:
        model: A `LanguageModel`.
        vocabulary: Its words.
        tokenization: How its text was split, see `keras_tying.data.tokenize`.

    Attributes:
        model: The `keras.Model`.
        vocabulary: The words.
        tokenization: Name of the tokenization.

    Raises:
        ValueError: If model and vocabulary differ in size, or there is no such tokenization.

    Example:

    >>> import keras_tying as kt
    >>> words = kt.data.Vocabulary(["the", "cat", "sat", "<unk>", "<eos>"])
    >>> lm = kt.inference.TrainedLanguageModel(kt.zoo.recurrent_language_model(5, 8), words)
    >>> lm.score(["The cat sat."])[0].tokens
    5
    >>> len(lm.generate("the cat", length=3).split())
    3
    """

    def __init__(self, model: keras.Model, vocabulary: Vocabulary, tokenization: str = "words"):
        vocabulary.check_size(model.vocabulary_size)
        check_tokenization(tokenization)
        self.model = model
        self.vocabulary = vocabulary
        self.tokenization = tokenization

    def score(self, sentences: Sequence[str]) -> list[SentenceScore]:
        """Scores sentences, each from a zero state, as after the end of a sentence.

        Args:
            sentences: Texts. An empty one consists of its end only.

        Raises:
            ValueError: If `sentences` is not a list of strings, or a word pads in the model (`mask_zero`).
        """
        check_sentences(sentences)
        end = [self.vocabulary.end_id]
        encoded = [check_text(self.model, np.concatenate([end, self._encode(sentence), end])) for sentence in sentences]
        scores: dict[int, SentenceScore] = {}
        for batch, ids in by_length(encoded, POSITIONS_PER_CALL, self.vocabulary.end_id):
            log_probabilities = self.model.score(ids[:, :-1], ids[:, 1:])
            for row, i in enumerate(batch):
                count = len(encoded[i]) - 1
                total = float(np.sum(log_probabilities[row, :count], dtype=np.float64))
                scores[i] = SentenceScore(count, total, perplexity_of(-total / count))
        return [scores[i] for i in range(len(encoded))]

    def perplexity(self, lines: Iterable[str]) -> float:
        """Exact perplexity of a text, with the recurrent state carried from line to line, as papers report it.

        A model that does not read word by word is measured in windows, see `stream_perplexity`.

        Args:
            lines: The text, one sentence per item, read once.

        Raises:
            ValueError: If the text has less than two words, or a word pads in the model (`mask_zero`).
        """
        return stream_perplexity(self.model, self.vocabulary.encode(tokens(checked_lines(lines), self.tokenization)))

    def next_words(self, prefix: str, k: int = 5) -> list[tuple[str, float]]:
        """The `k` most probable next words (all, if there are fewer) and their probabilities, most probable first.

        Raises:
            ValueError: If `prefix` is not a string, or `k` is below 1.
        """
        check_integer("k", k)
        hidden, _ = self.model.hidden_states(self._prefix(prefix), training=False)
        return most_probable(self.model.next_word_scores(hidden[:, -1]), self.vocabulary, k)

    def generate(
        self,
        prefix: str,
        length: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """Continues a text by `length` words; `<eos>` ends a sentence. For the options see `LanguageModel.generate`.

        Returns:
            The new words, separated by spaces.

        Raises:
            ValueError: If `prefix` is not a string, a word of it pads in the model (`mask_zero`), or another argument
                is outside its range.
        """
        ids = self.model.generate(self._prefix(prefix), length, temperature, top_k, top_p, seed)
        return " ".join(self.vocabulary.decode(ids[0]))

    def with_vocabulary(self, words: Iterable[str]) -> "TrainedLanguageModel":
        """The same model for other words, to train on from here.

        Words that the model knows keep their row. New words start with the row of `<unk>`, which stood for them so far,
        and share its probability; see `LanguageModel.with_rows`. The specials `<unk>` and `<eos>` are always kept.

        Args:
            words: The new vocabulary, in order of ids.

        Raises:
            ValueError: If a word is not valid, or occurs twice.

        Example:

        >>> import keras_tying as kt
        >>> words = kt.data.Vocabulary(["the", "cat", "<unk>", "<eos>"])
        >>> lm = kt.inference.TrainedLanguageModel(kt.zoo.recurrent_language_model(4, 8), words)
        >>> lm.with_vocabulary([*words.words, "dog"]).model.vocabulary_size
        5
        """
        words = list(checked_lines(words, "words"))
        specials = [self.vocabulary.words[i] for i in (self.vocabulary.unknown_id, self.vocabulary.end_id)]
        vocabulary = Vocabulary([*words, *(word for word in specials if word not in words)])
        rows = self.vocabulary.encode(vocabulary.words)
        return TrainedLanguageModel(self.model.with_rows(rows), vocabulary, self.tokenization)

    def _encode(self, text: str) -> np.ndarray:
        return self.vocabulary.encode(tokenize(text, self.tokenization))

    def _prefix(self, prefix: str) -> np.ndarray:
        """Ids `[1, T]` of a text after the end of a sentence."""
        check_string("prefix", prefix)
        return check_text(self.model, np.append(np.int32(self.vocabulary.end_id), self._encode(prefix)))[None]


def stream_perplexity(model, ids: np.ndarray | PreparedText, batch_size: int = 1, sequence_length: int = 500) -> float:
    """Exact perplexity of a text under a language model, with the recurrent state carried through all of it.

    With one row every token but the first is predicted, once. With more rows the text is cut into that
    many contiguous pieces, which is faster and leaves out the first token of each and the few tokens
    that do not divide evenly.

    Layers that need earlier words, such as causal convolutions, see those of the window only. So the perplexity of a
    model that does not read word by word (`LanguageModel.reads_word_by_word`) depends on the length of the windows.

    Args:
        model: A `LanguageModel`.
        ids: Word ids `[N]`, in memory or on disk.
        batch_size: Number of rows.
        sequence_length: Tokens per window. It bounds the memory. It does not change the result of a model that reads
            word by word.

    Returns:
        `exp` of the mean negative log-likelihood.

    Raises:
        ValueError: As `read_windows`.
    """
    total, count = 0.0, 0
    for log_probabilities in _stream(model, ids, batch_size, sequence_length):
        total -= float(np.sum(log_probabilities, dtype=np.float64))
        count += log_probabilities.size
    return perplexity_of(total / count)


def mc_perplexity(
    model, ids: np.ndarray | PreparedText, passes: int, batch_size: int = 1, sequence_length: int = 35
) -> float:
    """Perplexity under the mean probabilities of several passes with dropout (Monte Carlo dropout).

    Args:
        model: A `LanguageModel` with dropout.
        ids: Word ids `[N]`, in memory or on disk.
        passes: Number of passes over the text.
        batch_size: Number of rows, as of `stream_perplexity`.
        sequence_length: Tokens per call. Variational dropout draws new masks for each call: use the window of training.

    Raises:
        ValueError: As `read_windows`; or if `passes` is not positive.

    Reference:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, section 5.1.
    """
    check_integer("passes", passes)
    summed = np.array(-np.inf)  # log of the sum of the probabilities of each token
    for _ in range(passes):
        parts = _stream(model, ids, batch_size, sequence_length, stochastic=True)
        log_probabilities = np.concatenate([part.astype(np.float64) for part in parts], axis=1)
        summed = np.logaddexp(summed, log_probabilities)
    return perplexity_of(np.log(passes) - float(np.mean(summed)))


def _stream(model, ids, batch_size, sequence_length, **options) -> Iterator[np.ndarray]:
    """Log-probabilities `[batch_size, sequence_length]` of a text read from start to end."""
    states = None
    for inputs, targets in read_windows(model, ids, batch_size, sequence_length):
        log_probabilities, states = model.token_log_probabilities(inputs, targets, states, **options)
        yield ops.convert_to_numpy(log_probabilities)


def read_windows(
    model, ids: np.ndarray | PreparedText, batch_size: int = 1, sequence_length: int = 500
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Inputs and targets `[batch_size, sequence_length]` of a text read from start to end; the last ones are shorter.

    Raises:
        ValueError: If the text is too short to predict anything, or as `check_text`.
    """
    check_integer("batch_size", batch_size)
    check_integer("sequence_length", sequence_length)
    check_length(ids, batch_size)
    length = len(ids) // batch_size
    for start in range(0, length - 1, sequence_length):
        rows = check_text(model, rows_of(ids, batch_size, start, min(start + sequence_length + 1, length)))
        yield rows[:, :-1], rows[:, 1:]


def check_text(model, ids: np.ndarray) -> np.ndarray:
    """The word ids of a text for a `LanguageModel`, as `int32`.

    Raises:
        ValueError: If an id is outside the vocabulary, or is 0 and the embedding has `mask_zero=True`: such a word is
            padding, and would count as one of probability 1.
    """
    ids = check_ids(ids, model.vocabulary_size)
    if model.embedding.mask_zero and not np.all(ids):
        raise ValueError(
            "A text must not contain id 0, which is padding in a model with mask_zero=True: remove it, or measure "
            "padded sentences with `evaluate`. Received: a text with id 0"
        )
    return ids


def check_length(ids: np.ndarray | PreparedText, batch_size: int, what: str = "A text") -> None:
    """Raises ValueError if a text is too short to be measured in `batch_size` rows; `what` names it."""
    if len(ids) < 2 * batch_size:
        raise ValueError(
            f"{what} needs at least {2 * batch_size} tokens for {batch_size} rows. Received: {len(ids)} tokens."
        )
