"""Parts of Markdown pages: titles, tables, plots, and where results come from."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_tying.tables import Table
from keras_tying.version import NOT_RECORDED

NOT_MEASURED = "not measured"
MISSING = f"{NOT_MEASURED.capitalize()}."
"""The paragraph of a section that has no results."""
DASH = "—"
"""The cell of a table for a number that does not exist."""

SPELLINGS = {"skip_gram": "skip-gram", "bleu": "BLEU", "chrf": "chrF"}
"""Words in the names of tasks and metrics that pages spell in another way."""

PAPERS = {
    "Press and Wolf": "https://arxiv.org/abs/1608.05859",
    "Inan, Khosravi and Socher": "https://arxiv.org/abs/1611.01462",
    "Melis, Dyer and Blunsom": "https://arxiv.org/abs/1707.05589",
    "Melis, Kocisky and Blunsom": "https://arxiv.org/abs/1909.01792",
    "Merity, Keskar and Socher": "https://arxiv.org/abs/1708.02182",
}
"""Where papers are, by their authors."""


class Section(Table):
    """Title and text of a page, or of a section of one, as a file in `zoo/studies` has them."""

    title: str
    text: str = ""


def page(content: Section, parts: Iterable[str]) -> str:
    """A Markdown page: title, text and parts, separated by blank lines; empty parts are left out.

    >>> page(Section(title="Title", text="Text."), section(Section(title="Section"), "Part."))
    '# Title\\n\\nText.\\n\\n## Section\\n\\nPart.\\n'
    """
    return "\n\n".join(filter(None, map(str.strip, [f"# {content.title}", content.text, *parts]))) + "\n"


def section(content: Section, *parts: str) -> list[str]:
    """Title, text and parts of a section, as parts of a page."""
    return [f"## {content.title}", content.text, *parts]


def table(columns: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    Args:
        columns: Titles of the columns.
        alignment: The line below the titles.
        rows: The cells of each row.

    >>> print(table(["model", "perplexity"], "|---|--:|", [["small", "110.4"]]))
    | model | perplexity |
    |---|--:|
    | small | 110.4 |
    """
    titles, *lines = (f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|" for cells in [columns, *rows])
    return "\n".join([titles, alignment, *lines])


def number(value: float | None, form: str = ".1f", absent: str = DASH) -> str:
    """A number as a table shows it."""
    return absent if value is None else format(value, form)


def mean_and_range(values: Sequence[float], form: str = ".1f", count: bool = False, note: str = "") -> str:
    """The mean of several seeds and, in brackets, the lowest and the highest, as a table shows them.

    Args:
        values: One value per seed.
        form: Format of the numbers.
        count: Whether the number of seeds is shown too.
        note: Text that ends the brackets.

    >>> mean_and_range([38.0, 39.0]), mean_and_range([38.0]), mean_and_range([])
    ('38.5 (38.0 to 39.0)', '38.0', 'not measured')
    >>> mean_and_range([38.0, 39.0], count=True), mean_and_range([38.0], count=True)
    ('38.5 (38.0 to 39.0, 2 seeds)', '38.0 (1 seed)')
    >>> mean_and_range([38.0, 39.0], note="seeds 1, 2"), mean_and_range([38.0], note="seed 1")
    ('38.5 (38.0 to 39.0; seeds 1, 2)', '38.0 (seed 1)')
    """
    if not values:
        return NOT_MEASURED
    spread = [f"{min(values):{form}} to {max(values):{form}}"] if len(values) > 1 else []
    spread += [f"{len(values)} seed{'s' if len(values) > 1 else ''}"] if count else []
    brackets = "; ".join(part for part in (", ".join(spread), note) if part)
    return f"{statistics.mean(values):{form}}" + (f" ({brackets})" if brackets else "")


def spelled(name: str) -> str:
    """The name of a task or metric in a sentence.

    >>> spelled("skip_gram"), spelled("validation_bleu"), spelled("language_model")
    ('skip-gram', 'validation BLEU', 'language model')
    """
    for word, spelling in SPELLINGS.items():
        name = name.replace(word, spelling)
    return name.replace("_", " ")


def names_text(names: Iterable[str]) -> str:
    """Names as code, in a sentence.

    >>> names_text(["one", "two"])
    '`one` and `two`'
    """
    return " and ".join(f"`{name}`" for name in names)


def between_marks(text: str, name: str, content: str, command: str = "make zoo") -> str:
    """Replaces the text between two marks of a page.

    Args:
        text: The page.
        name: What is between the marks: `<!-- NAME, made by `COMMAND` -->` and `<!-- end of NAME -->`.
        content: What is to be there.
        command: The command that makes it.

    Raises:
        ValueError: If the page lacks a mark.
    """
    start, end = f"<!-- {name}, made by `{command}` -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"Expected the marks {start} and {end}. Received a page without them. Add both.")
    return "\n".join([before + start, content, end + after])


def origin(results: Mapping[str, Any]) -> str:
    """Device, versions and commit of results; results of earlier versions of this project have no commit."""
    packages = ", ".join(f"{package} {version}" for package, version in results["versions"].items())
    return f"{results['device']}; {packages}; commit {results.get('commit') or NOT_RECORDED}"


def made_by(results: Mapping[str, Any]) -> str:
    """Where results come from and the command that made them, as a paragraph below a table.

    >>> made_by({"device": "a processor", "versions": {"python": 3}, "commit": "5e1f", "command": "make it"})
    'a processor; python 3; commit 5e1f: `make it`.'
    """
    return f"{origin(results)}: `{results['command']}`."


def cited(source: str) -> str:
    """A paper and its table, with a link if the paper is one of `PAPERS`.

    >>> cited("Press and Wolf, table 6"), cited("A book, table 1")
    ('[Press and Wolf](https://arxiv.org/abs/1608.05859), table 6', 'A book, table 1')
    """
    for authors, address in PAPERS.items():
        if source.startswith(authors):
            return f"[{authors}]({address}){source.removeprefix(authors)}"
    return source


def code(text: str, language: str = "") -> str:
    """A Markdown block of code or commands."""
    return f"```{language}\n{text}\n```"


def plot(path: Path, caption: str) -> str:
    """A recorded plot, for a page in the folder above; empty if there is no such file."""
    return f"![{caption}]({path.parent.name}/{path.name})" if path.exists() else ""


def provenance(path: Path, results: dict[str, Any]) -> list[str]:
    """Device, versions, commit, file and command of recorded results, for a page in the folder above them."""
    place = f"{path.parent.name}/{path.name}"
    return [f"Measured on {origin(results)}. All metrics: [{place}]({place}).", code(results["command"])]
