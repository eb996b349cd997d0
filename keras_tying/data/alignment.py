"""Word alignment with eflomal."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from keras_tying.data.bitext import Bitext
from keras_tying.files import write_atomically

MAXIMUM_LENGTH = 1024
"""Maximum number of tokens in a sentence that eflomal aligns."""


def align(texts: Sequence[Bitext], folder: str | Path) -> list[Bitext]:
    """Aligns the words of texts and writes one file of `i-j` pairs per text.

    The links are those of the direction in which each target word has at most one. The aligner is not
    deterministic: repeated calls may return different links.

    Args:
        texts: Splits of one corpus. They are aligned together, which helps small splits.
        folder: Folder for the files `0.align`, `1.align`, ...; created if missing.

    Returns:
        The texts with their new alignment files.

    Raises:
        ModuleNotFoundError: If eflomal is not installed.
        ValueError: If the files of a text have different numbers of lines.

    Example:

    >>> # Needs eflomal: pip install ".[align]" in a clone
    >>> import keras_tying as kt
    >>> from pathlib import Path
    >>> text = kt.data.Bitext(Path("train.en"), Path("train.de"))
    >>> (aligned,) = kt.data.align([text], "links")  # doctest: +SKIP
    >>> aligned.alignment.name  # doctest: +SKIP
    '0.align'

    Reference:
        Östling and Tiedemann, Efficient Word Alignment with Markov Chain Monte Carlo.
    """
    try:
        from eflomal import Aligner
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'Word alignment needs eflomal: pip install ".[align]" in a clone. Or give files of `i-j` pairs.'
        ) from None
    pairs = [pair for text in texts for pair in text.pairs()]
    # eflomal skips empty and very long sentences: their pairs get a placeholder and no links.
    usable = [all(0 < len(side) <= MAXIMUM_LENGTH for side in pair) for pair in pairs]
    sides = [
        [" ".join(pair[i]) + "\n" if use else "-\n" for pair, use in zip(pairs, usable, strict=True)] for i in (0, 1)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "links"
        Aligner().align(*sides, links_filename_fwd=str(output))
        lines = output.read_text().splitlines()
    links = iter([line if use else "" for line, use in zip(lines, usable, strict=True)])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    aligned = []
    for i, text in enumerate(texts):
        path = folder / f"{i}.align"
        write_atomically(path, "".join(f"{next(links)}\n" for _ in text.pairs()).encode())
        aligned.append(text.aligned(path))
    return aligned
