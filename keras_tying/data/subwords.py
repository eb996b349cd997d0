"""Subwords learnt on both languages together, and their ids."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_tying.extras import require
from keras_tying.files import write_atomically

SENTENCES_LEARNT_FROM = 10_000_000
"""Sentences held in memory while subwords are learnt."""


class Subwords:
    """A sentencepiece model: sentences to ids and back.

    Source and target of a translation model may use the same ones. The tokenizer in an exported graph,
    `tensorflow_text.SentencepieceTokenizer`, reads the same model.

    Args:
        model: The bytes of a sentencepiece model that has an end of sentence and an unknown subword.

    Raises:
        ValueError: If they are no such model.

    Example:

    >>> subwords = Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=30)
    >>> ids = subwords.encode("eine Rose")
    >>> subwords.decode(ids), int(ids[-1]) == subwords.end_id
    ('eine Rose', True)

    Reference:
        Sennrich, Haddow and Birch, Neural Machine Translation of Rare Words with Subword Units; Press and
        Wolf, Using the Output Embedding to Improve Language Models, section 3.1.
    """

    def __init__(self, model: bytes):
        self.model = model
        self._processor = require("sentencepiece", "translation").SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise ValueError(f"This is not a sentencepiece model: {error}") from None
        self.end_id = self._processor.eos_id()
        self.unknown_id = self._processor.unk_id()
        if self.end_id < 0:
            raise ValueError("The sentencepiece model has no end of sentence. Train it with eos_id=1 or another id.")

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int) -> "Subwords":
        """Learns byte pair encoding; every character seen is kept.

        Args:
            sentences: Text of all languages, read once; of more than `SENTENCES_LEARNT_FROM`, so many at random.
            size: Subwords, `<unk>` and `</s>` included.

        Raises:
            ValueError: If there is no text, or not enough for so many subwords.
        """
        model = io.BytesIO()
        try:
            require("sentencepiece", "translation").SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                character_coverage=1.0,
                input_sentence_size=SENTENCES_LEARNT_FROM,
                unk_id=0,
                eos_id=1,
                bos_id=-1,
                pad_id=-1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(
                f"{size} subwords cannot be learnt from this text: {str(error).strip()} Use more text or another size."
            ) from None
        return cls(model.getvalue())

    def __len__(self) -> int:
        return self._processor.GetPieceSize()

    @property
    def words(self) -> list[str]:
        """The subwords in order of ids; `▁` stands for a space."""
        return [self._processor.IdToPiece(i) for i in range(len(self))]

    def pieces(self, sentence: str) -> list[str]:
        """The subwords of a sentence, its end left out."""
        return self._processor.EncodeAsPieces(sentence)

    def encode(self, sentence: str) -> np.ndarray:
        """Ids `int32 [T]` of a sentence, its end included."""
        return np.array([*self._processor.EncodeAsIds(sentence), self.end_id], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The sentence of ids, up to its first end; negative ids are passed over."""
        kept = []
        for i in map(int, ids):
            if i == self.end_id:
                break
            if i >= 0:
                kept.append(i)
        return self._processor.DecodeIds(kept)

    @property
    def sha256(self) -> str:
        """Fingerprint of the model."""
        return hashlib.sha256(self.model).hexdigest()

    def save(self, path: str | Path) -> None:
        write_atomically(path, self.model)

    @classmethod
    def load(cls, path: str | Path) -> "Subwords":
        """Reads a model that `save` or sentencepiece wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is no sentencepiece model with an end of sentence.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}. Expected a sentencepiece model.")
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def sentences_of(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Both sides of sentence pairs, one after another."""
    for pair in pairs:
        yield from pair
