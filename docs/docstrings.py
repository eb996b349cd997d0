"""Extension of griffe: the docstrings of keras_tying as the API pages show them.

Griffe reads the sections `Args`, `Raises` and `Attributes`. The others become Markdown here. The page of a module says
what is in it, so its docstring is left out.
"""

import re
from textwrap import dedent

from griffe import Extension

SECTION = re.compile(
    r"^((?:Example|Input shape|Output shape|Reference|Returns)[^\n:]*):\n"  # the title
    r"((?:(?: {4}.*)?\n)*(?: {4}.*)?)",  # lines that are indented or empty
    re.MULTILINE,
)
SESSION = re.compile(r"^(>>> .*(?:\n.+)*)", re.MULTILINE)


class Sections(Extension):
    """Makes further sections of docstrings Markdown."""

    def on_object(self, *, obj, **kwargs):
        if obj.is_module:
            obj.docstring = None
        elif obj.docstring:
            obj.docstring.value = markdown_of(obj.docstring.value)


def markdown_of(docstring):
    """A docstring whose further sections are Markdown: a bold title, then text; examples are code."""
    text = docstring.replace("::\n", ":\n").replace("Call arguments:\n", "Other Parameters: Call arguments\n")
    text = SECTION.sub(lambda section: f"**{section[1]}**\n\n{dedent(section[2]).strip()}\n\n", text)
    return SESSION.sub(r"```pycon\n\1\n```", text)
