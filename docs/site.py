"""Hook of MkDocs: the site has the pages of the whole repository, at their paths in the repository.

Relative links between pages then work on the site as they do in the repository. Notebooks become pages with the
outputs that they were saved with.
"""

import json
from pathlib import Path

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).parents[1]
PATTERNS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"),
    *(f"docs/**/*.{ending}" for ending in ("md", "ipynb", "css", "png", "svg")),
    *(f"{folder}/**/*.{ending}" for folder in ("zoo", "benchmarks") for ending in ("md", "json", "png", "toml", "csv")),
)


def on_files(files, config):
    """The files of the theme and of the repository, and a page for each notebook."""
    own = []
    for path in sorted(path for pattern in PATTERNS for path in REPOSITORY.glob(pattern)):
        place = path.relative_to(REPOSITORY).as_posix()
        own.append(File.generated(config, place, abs_src_path=str(path)))
        if path.suffix == ".ipynb":
            page = Path(place).with_suffix(".md").as_posix()
            own.append(File.generated(config, page, content=notebook_page(path)))
    of_theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*of_theme, *own])


def on_page_markdown(markdown, page, config, files):
    """Links to a notebook go to its page. The home page is alone in its section."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    return markdown.replace(".ipynb)", ".md)")


def notebook_page(path):
    """A notebook as Markdown: text, code and text outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, *parts = (part for cell in cells for part in cell_parts(cell))
    download = f'<a href="{path.name}" download>Download this notebook</a>'
    return "\n\n".join([title, download, *parts]) + "\n"


def cell_parts(cell):
    """The Markdown of a cell and of its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        text = "".join(output.get("text") or output.get("data", {}).get("text/plain", "")).rstrip()
        if text:
            yield f"```{{.text .output}}\n{text}\n```"
