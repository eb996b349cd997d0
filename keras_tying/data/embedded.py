"""A text that every user has: the language reference that CPython carries for `help()`."""

import re


def python_reference() -> dict[str, list[str]]:
    """Paragraphs of Python's language reference, one a line, in three splits.

    Of each ten paragraphs the ninth goes to `valid` and the tenth to `test`; a paragraph that occurs
    twice is kept once, so nothing that is tested was trained on. The text varies a little from one
    Python to the next.
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    paragraphs = list(dict.fromkeys(block for block in blocks if _is_prose(block)))
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for place, paragraph in enumerate(paragraphs):
        splits[{8: "valid", 9: "test"}.get(place % 10, "train")].append(paragraph)
    return splits


def _is_prose(block: str) -> bool:
    """Tables drawn with dashes and rulers are left out: they are easy to predict and teach nothing."""
    return sum(c.isalpha() for c in block) > len(block) / 2
