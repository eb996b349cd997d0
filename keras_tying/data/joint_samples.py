"""Aligned text as samples: a target word, what came before it, and what stands around its source word."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class JointSamples:
    """Ids of an aligned text; inputs are cut from them batch by batch, so a sample costs five integers.

    Sample `t` predicts target word `t`, a sentence's end included. Where a history reaches over the
    start of its sentence, or a source window over either edge, the id of the sentence's end stands.

    Attributes:
        source_ids: Word ids of the source, each sentence closed by its end, `int32 [M]`.
        target_ids: The same of the target, `int32 [N]`.
        affiliations: Each target word's position in `source_ids`, `int64 [N]`.
        source_first: Where the source sentence of each target word starts, `int64 [N]`.
        source_last: Where it has its end, `int64 [N]`.
        target_first: Where the target sentence of each target word starts, `int64 [N]`.
        source_end_id: Id of a source sentence's end.
        target_end_id: Id of a target sentence's end.
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
        """Puts pieces of a text together.

        Args:
            parts: For each piece source ids, starts of its source sentences `[S + 1]`, target ids, starts
                of its target sentences `[S + 1]` and affiliations, all counted within the piece.
            source_end_id: Id of a source sentence's end.
            target_end_id: Id of a target sentence's end.
        """
        columns: list[list[np.ndarray]] = [[] for _ in range(6)]
        source_length = target_length = 0
        for source_ids, source_starts, target_ids, target_starts, affiliations in parts:
            lengths = np.diff(target_starts)
            places = (
                affiliations + source_length,
                np.repeat(source_starts[:-1] + source_length, lengths),
                np.repeat(source_starts[1:] + source_length - 1, lengths),
                np.repeat(target_starts[:-1] + target_length, lengths),
            )
            for column, piece in zip(columns, (source_ids, target_ids, *places), strict=True):
                column.append(piece)
            source_length += len(source_ids)
            target_length += len(target_ids)
        source, target, affiliations, first, last, target_first = (np.concatenate(column) for column in columns)
        return cls(source, target, affiliations, first, last, target_first, source_end_id, target_end_id)

    def __len__(self) -> int:
        return len(self.target_ids)

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source sentence, its end included."""
        return int((self.source_last - self.source_first).max()) + 1

    def histories(self, samples: np.ndarray, length: int) -> np.ndarray:
        """The `length` target words before each sample, oldest first: `int32 [B, length]`."""
        places = samples[:, None] + np.arange(-length, 0)
        inside = places >= self.target_first[samples, None]
        return np.where(inside, self.target_ids[np.maximum(places, 0)], np.int32(self.target_end_id))

    def windows(self, samples: np.ndarray, window: int) -> np.ndarray:
        """The `window` source words around each sample's own: `int32 [B, window]`."""
        places = self.affiliations[samples, None] + np.arange(-(window // 2), window // 2 + 1)[:window]
        inside = (places >= self.source_first[samples, None]) & (places <= self.source_last[samples, None])
        ids = self.source_ids[np.clip(places, 0, len(self.source_ids) - 1)]
        return np.where(inside, ids, np.int32(self.source_end_id))

    def sentences(self, samples: np.ndarray, length: int) -> np.ndarray:
        """Each sample's source sentence, cut to `length` or filled up with -1: `int32 [B, length]`."""
        places = self.source_first[samples, None] + np.arange(length)
        inside = places <= self.source_last[samples, None]
        return np.where(inside, self.source_ids[np.minimum(places, len(self.source_ids) - 1)], np.int32(-1))

    def inputs(self, samples: np.ndarray, history: int, window: int = 0, sentence: int = 0) -> dict[str, np.ndarray]:
        """What a `JointLanguageModel` takes.

        Args:
            samples: Which samples, `[B]`.
            history: Target words.
            window: Source words around the affiliated one; 0 leaves them out.
            sentence: Source words of the whole sentence; 0 leaves them out.
        """
        inputs = {"history": self.histories(samples, history)}
        if window:
            inputs["window"] = self.windows(samples, window)
        if sentence:
            inputs["sentence"] = self.sentences(samples, sentence)
        return inputs
