"""Runs what the README shows of trained models, and writes it with its output: python -m studies.transcript"""

import contextlib
import io
import shlex
import sys
from pathlib import Path

from keras_tying.commands import main
from keras_tying.files import write_atomically
from keras_tying.zoo.recipes import recipe_folder
from studies.pages import between_marks, code

PYTHON = """
import keras_tying as kt
tied, untied = kt.load("ptb_small_tied"), kt.load("ptb_small_untied")  # trained models, or folders of runs
tied.model.count_params(), untied.model.count_params()
[(word, round(probability, 2)) for word, probability in tied.next_words("the company said it will", 4)]
[round(score.perplexity) for score in tied.score(["the company said it will pay", "pay will it said company the"])]
[word for word, _ in kt.load("word2vec").similar_words("football", 5)]
"""
SHELL = """
echo "A man is riding a bike." | keras-tying nmt --translate multi30k_en_fr_three_way
"""


def with_transcript(readme: str) -> str:
    """The README with what its trained models give now."""
    return between_marks(readme, "transcript", transcript(), "python -m studies.transcript")


def transcript() -> str:
    """Python and shell sessions with their output, as Markdown."""
    names: dict[str, object] = {}
    sessions = [_python(line, names) for line in PYTHON.strip().splitlines()]
    commands = [_shell(line) for line in SHELL.strip().splitlines()]
    return f"{code(chr(10).join(sessions), 'pycon')}\n\n{code(chr(10).join(commands))}"


def _python(line: str, names: dict[str, object]) -> str:
    """A line of Python as the interpreter shows it, with the value of an expression."""
    try:
        expression = compile(line, "README.md", "eval")
    except SyntaxError:
        exec(line, names)
        return f">>> {line}"
    return f">>> {line}\n{eval(expression, names)!r}"


def _shell(line: str) -> str:
    """A line `echo TEXT | keras-tying ...` as a shell shows it."""
    echo, command = map(shlex.split, line.split(" | "))
    output = io.StringIO()
    text = io.TextIOWrapper(io.BytesIO(f"{' '.join(echo[1:])}\n".encode()))
    with contextlib.redirect_stdout(output), _standard_input(text):
        main(command[1:])
    return f"$ {line}\n{output.getvalue().rstrip()}"


@contextlib.contextmanager
def _standard_input(file: io.TextIOWrapper):
    before, sys.stdin = sys.stdin, file
    try:
        yield
    finally:
        sys.stdin = before


if __name__ == "__main__":
    path: Path = recipe_folder().parent / "README.md"
    write_atomically(path, with_transcript(path.read_text(encoding="utf-8")).encode())
