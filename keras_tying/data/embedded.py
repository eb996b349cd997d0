"""The Python language reference, which CPython includes for `help()`."""

import re


def python_reference() -> dict[str, list[str]]:
    """Paragraphs of the Python language reference in three splits, one paragraph per line.

    Of every ten paragraphs, the ninth is in `valid`, the tenth in `test` and the others in `train`. Duplicates are
    removed, so that no paragraph is in two splits. The text depends on the version of Python.
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    paragraphs = list(dict.fromkeys(block for block in blocks if _is_prose(block)))
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for i, paragraph in enumerate(paragraphs):
        splits[{8: "valid", 9: "test"}.get(i % 10, "train")].append(paragraph)
    return splits


def _is_prose(block: str) -> bool:
    """Whether more than half of a block is letters. Tables drawn with dashes are not."""
    return sum(c.isalpha() for c in block) > len(block) / 2
