"""Runs the notebooks of docs/ and saves them with their outputs: python -m studies.notebooks [NAME ...]"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbclient
import nbformat

from keras_tying.files import write_atomically

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
SECONDS_PER_CELL = 600


def executed(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of its cells, run from top to bottom; without warnings and times.

    Args:
        path: The notebook.
        folder: The working directory of its code.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        coalesce_streams=True,  # one output for all that a cell prints
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)  # the version of Python
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.ipynb"))]:
        with TemporaryDirectory() as folder:
            notebook = executed(FOLDER / f"{name}.ipynb", folder)
        write_atomically(FOLDER / f"{name}.ipynb", (nbformat.writes(notebook) + "\n").encode())
