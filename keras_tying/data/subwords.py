"""Subword tokenization with sentencepiece."""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_tying.checks import check_integer
from keras_tying.data.text import LONGEST_LINE, WHITESPACE
from keras_tying.extras import require
from keras_tying.files import write_atomically

SENTENCES_LEARNT_FROM = 10_000_000
"""Maximum number of sentences that are in memory while subwords are learnt."""

LONGEST_SENTENCE = 512
"""Maximum number of subwords of a sentence that is translated. The rest of a longer sentence is not read."""


class Subwords:
    """A sentencepiece model, which converts sentences to ids and back.

    White space of any kind separates words, and the number of spaces is not kept: sentencepiece normalizes text, in an
    exported graph as in Python.

    The source and target of a translation model can share one model. The tokenizer in an exported graph,
    `tensorflow_text.SentencepieceTokenizer`, reads the same model.

    Args:
        model: Bytes of a sentencepiece model that has an end of sentence and an unknown subword.

    Raises:
        ValueError: If the bytes are not such a model.

    Example:

    >>> import keras_tying as kt
    >>> subwords = kt.data.Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=30)
    >>> ids = subwords.encode("eine Rose")
    >>> subwords.decode(ids), int(ids[-1]) == subwords.end_id
    ('eine Rose', True)

    Reference:
        Sennrich, Haddow and Birch, Neural Machine Translation of Rare Words with Subword Units; Press and
        Wolf, Using the Output Embedding to Improve Language Models, section 4.3.
    """

    def __init__(self, model: bytes):
        self.model = model
        self._processor = require("sentencepiece", "translation").SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError:
            raise ValueError("This is not a sentencepiece model, or it was altered.") from None
        self.end_id = self._processor.eos_id()
        self.unknown_id = self._processor.unk_id()
        if self.end_id < 0:
            raise ValueError("The sentencepiece model has no end of sentence. Train it with eos_id=1 or another id.")

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int) -> "Subwords":
        """Learns byte pair encoding. All characters of the text are kept.

        Args:
            sentences: Text of all languages, read once. If there are more than `SENTENCES_LEARNT_FROM` sentences, a
                random sample of this size is used.
            size: Number of subwords, including `<unk>` and `</s>`.

        Raises:
            ValueError: If the text is empty, or not made for this number of subwords. The message gives the least or
                the largest number.
        """
        check_integer("size", size)
        model = io.BytesIO()
        failures: list[BaseException] = []
        try:
            require("sentencepiece", "translation").SentencePieceTrainer.train(
                sentence_iterator=_noting(map(_encodable, sentences), failures),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                character_coverage=1.0,
                input_sentence_size=SENTENCES_LEARNT_FROM,
                max_sentence_length=LONGEST_LINE,  # sentencepiece would leave out those above 4,192 bytes
                unk_id=0,
                eos_id=1,
                bos_id=-1,
                pad_id=-1,
                minloglevel=2,
            )
        except RuntimeError as error:
            if failures:  # sentencepiece hides an error of the text in one of its own
                raise failures[0] from None
            raise ValueError(f"{size:,} subwords cannot be learnt from this text: {_reason(str(error))}") from None
        return cls(model.getvalue())

    def __len__(self) -> int:
        return self._processor.GetPieceSize()

    def check_sizes(self, source_size: int, target_size: int) -> None:
        """Raises ValueError unless a model has as many source and target subwords."""
        if (source_size, target_size) != (len(self), len(self)):
            raise ValueError(f"The model has {source_size} and {target_size} subwords. Received: {len(self)} for both.")

    @property
    def words(self) -> list[str]:
        """The subwords in order of ids; `▁` stands for a space."""
        return [self._processor.IdToPiece(i) for i in range(len(self))]

    def pieces(self, sentence: str) -> list[str]:
        """The subwords of a sentence, without its end."""
        return self._processor.EncodeAsPieces(_encodable(sentence))

    def encode(self, sentence: str) -> np.ndarray:
        """Ids of a sentence, including its end, `int32 [T]`."""
        return np.array([*self._processor.EncodeAsIds(_encodable(sentence)), self.end_id], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The sentence of the ids before the first end. Negative ids are skipped."""
        kept = []
        for i in map(int, ids):
            if i == self.end_id:
                break
            if i >= 0:
                kept.append(i)
        return self._processor.DecodeIds(kept)

    @property
    def sha256(self) -> str:
        """SHA-256 of the model."""
        return hashlib.sha256(self.model).hexdigest()

    def save(self, path: str | Path) -> None:
        write_atomically(path, self.model)

    @classmethod
    def load(cls, path: str | Path) -> "Subwords":
        """Reads a model written by `save` or sentencepiece.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not a sentencepiece model with an end of sentence.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}. Expected a sentencepiece model.")
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _encodable(sentence: str) -> str:
    """The sentence with spaces for all white space, of which sentencepiece deletes some.

    Halves of surrogate pairs, which UTF-8 lacks, become U+FFFD, which sentencepiece reads as a space.
    """
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub(WHITESPACE, " ", sentence))


def _noting(sentences: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """The same sentences. An error on the way, or Ctrl-C, is also put into `failures`."""
    try:
        yield from sentences
    except BaseException as error:
        failures.append(error)
        raise


def _reason(message: str) -> str:
    """What a message of sentencepiece says to the user."""
    if found := re.search(r"value <= (\d+)", message):
        return f"it has enough for {int(found[1]):,}. Use at most this number (data.vocabulary_size), or more text."
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return f"it needs {int(found[1]):,} for its characters. Use at least this number (data.vocabulary_size)."
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return "expected words. Received only empty sentences."
    return " ".join(message.split())


def sentences_of(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Source and target sentences of pairs, in order.

    Example:

    >>> import keras_tying as kt
    >>> list(kt.data.sentences_of([("a rose", "eine Rose"), ("roses", "Rosen")]))
    ['a rose', 'eine Rose', 'roses', 'Rosen']
    """
    for pair in pairs:
        yield from pair
