"""Samples of aligned text: a target word, its history and its source window."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class JointSamples:
    """Ids of an aligned text. Inputs are made batch by batch, so a sample takes five integers of memory.

    Sample `t` predicts target word `t`; ends of sentences are target words too. A history that reaches before the
    start of its sentence is padded with the end id, and so is a source window that reaches beyond its sentence.

    Attributes:
        source_ids: Source word ids, with the end id after each sentence, `int32 [M]`.
        target_ids: Target word ids, with the end id after each sentence, `int32 [N]`.
        affiliations: Position of each target word's source word in `source_ids`, `int64 [N]`.
        source_first: First position of each target word's source sentence, `int64 [N]`.
        source_last: Position of the end of that sentence, `int64 [N]`.
        target_first: First position of each target word's sentence, `int64 [N]`.
        source_end_id: Id of the end of a source sentence.
        target_end_id: Id of the end of a target sentence.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> starts = np.array([0, 3])  # one sentence of two words and its end, with the id 0
    >>> text = np.array([3, 4, 0]), starts, np.array([5, 6, 0]), starts, np.array([0, 1, 2])
    >>> samples = kt.data.JointSamples.join([text], source_end_id=0, target_end_id=0)
    >>> {name: ids.tolist() for name, ids in samples.inputs(np.arange(3), history=2, window=3).items()}
    {'history': [[0, 0], [0, 5], [5, 6]], 'window': [[0, 3, 4], [3, 4, 0], [4, 0, 0]]}
    """

    source_ids: np.ndarray
    target_ids: np.ndarray
    affiliations: np.ndarray
    source_first: np.ndarray
    source_last: np.ndarray
    target_first: np.ndarray
    source_end_id: int
    target_end_id: int

    @classmethod
    def join(cls, parts: list, source_end_id: int, target_end_id: int) -> "JointSamples":
        """Concatenates parts of a text.

        Args:
            parts: For each part: source ids, starts of the source sentences `[S + 1]`, target ids, starts
                of the target sentences `[S + 1]` and affiliations. Positions are counted within the part.
            source_end_id: Id of the end of a source sentence.
            target_end_id: Id of the end of a target sentence.
        """
        columns: list[list[np.ndarray]] = [[] for _ in range(6)]
        source_length = target_length = 0
        for source_ids, source_starts, target_ids, target_starts, affiliations in parts:
            lengths = np.diff(target_starts)
            positions = (
                affiliations + source_length,
                np.repeat(source_starts[:-1] + source_length, lengths),
                np.repeat(source_starts[1:] + source_length - 1, lengths),
                np.repeat(target_starts[:-1] + target_length, lengths),
            )
            for column, values in zip(columns, (source_ids, target_ids, *positions), strict=True):
                column.append(values)
            source_length += len(source_ids)
            target_length += len(target_ids)
        source, target, affiliations, first, last, target_first = (np.concatenate(column) for column in columns)
        return cls(source, target, affiliations, first, last, target_first, source_end_id, target_end_id)

    def __len__(self) -> int:
        return len(self.target_ids)

    @property
    def part_lengths(self) -> list[int]:
        """Number of samples of each part of the text. It is in memory as one part."""
        return [len(self)]

    def part(self, index: int) -> "JointSamples":
        """The samples of a part of the text."""
        if index:
            raise IndexError(index)
        return self

    @property
    def longest_source(self) -> int:
        """Length of the longest source sentence, including its end."""
        return int((self.source_last - self.source_first).max()) + 1

    def histories(self, samples: np.ndarray, length: int) -> np.ndarray:
        """The `length` target words before each sample, oldest first, `int32 [B, length]`."""
        positions = samples[:, None] + np.arange(-length, 0)
        inside = positions >= self.target_first[samples, None]
        return np.where(inside, self.target_ids[np.maximum(positions, 0)], np.int32(self.target_end_id))

    def windows(self, samples: np.ndarray, window: int) -> np.ndarray:
        """The `window` source words around the affiliated word of each sample, `int32 [B, window]`."""
        positions = self.affiliations[samples, None] + np.arange(-(window // 2), window // 2 + 1)[:window]
        inside = (positions >= self.source_first[samples, None]) & (positions <= self.source_last[samples, None])
        ids = self.source_ids[np.clip(positions, 0, len(self.source_ids) - 1)]
        return np.where(inside, ids, np.int32(self.source_end_id))

    def sentences(self, samples: np.ndarray, length: int) -> np.ndarray:
        """The source sentence of each sample, truncated to `length` or padded with -1, `int32 [B, length]`."""
        positions = self.source_first[samples, None] + np.arange(length)
        inside = positions <= self.source_last[samples, None]
        return np.where(inside, self.source_ids[np.minimum(positions, len(self.source_ids) - 1)], np.int32(-1))

    def inputs(self, samples: np.ndarray, history: int, window: int = 0, sentence: int = 0) -> dict[str, np.ndarray]:
        """Inputs of a `JointLanguageModel`.

        Args:
            samples: Indices of the samples, `[B]`.
            history: Number of target words in the history.
            window: Number of source words around the affiliated word; 0 for no window.
            sentence: Length of the source sentences; 0 for no sentences.
        """
        inputs = {"history": self.histories(samples, history)}
        if window:
            inputs["window"] = self.windows(samples, window)
        if sentence:
            inputs["sentence"] = self.sentences(samples, sentence)
        return inputs
