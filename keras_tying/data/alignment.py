"""Word alignments for text that comes without, computed by eflomal."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from keras_tying.data.bitext import Bitext
from keras_tying.files import write_atomically

LONGEST = 1024
"""Tokens of the longest sentence eflomal aligns."""


def align(texts: Sequence[Bitext], folder: str | Path) -> list[Bitext]:
    """Aligns texts with each other's help and writes a file of `i-j` pairs for each.

    Links are those of the direction in which every target word has at most one, as each needs one to
    be affiliated. The aligner draws samples: another call may link some words otherwise.

    Args:
        texts: Splits of one corpus. They are aligned together, so that small ones profit.
        folder: Receives `0.align`, `1.align`, ...; made if it is not there.

    Returns:
        The texts, each with its new file of links.

    Raises:
        ModuleNotFoundError: If eflomal is not installed.
        ValueError: If the files of a text differ in length.

    Reference:
        Östling and Tiedemann, Efficient Word Alignment with Markov Chain Monte Carlo.
    """
    try:
        from eflomal import Aligner
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Text without an alignment needs eflomal: pip install keras-tying[align]. Or name files of `i-j` pairs."
        ) from None
    pairs = [pair for text in texts for pair in text.pairs()]
    # A pair eflomal would leave out, an empty or a very long one, gets a stand-in and no links.
    usable = [all(0 < len(side) <= LONGEST for side in pair) for pair in pairs]
    sides = [
        [" ".join(pair[i]) + "\n" if use else "-\n" for pair, use in zip(pairs, usable, strict=True)] for i in (0, 1)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(temporary) / "links"
        Aligner().align(*sides, links_filename_fwd=str(found))
        lines = found.read_text().splitlines()
    links = iter([line if use else "" for line, use in zip(lines, usable, strict=True)])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    aligned = []
    for i, text in enumerate(texts):
        path = folder / f"{i}.align"
        write_atomically(path, "".join(f"{next(links)}\n" for _ in text.pairs()).encode())
        aligned.append(text.aligned(path))
    return aligned
