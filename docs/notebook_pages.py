"""A hook of mkdocs: each notebook of the tutorials becomes a page of the site, which links to the file.

    NOTEBOOKS=run mkdocs build

executes the notebooks and shows their outputs, as CI does. Without the variable the pages have text and code alone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parent / "tutorials").glob("*.ipynb"))
LIST = "tutorials/notebooks.md"
"""The page that links to the notebooks: on the site to their pages, elsewhere to the files."""
OBJECT, ESCAPES = re.compile(r"<\S+ at 0x"), re.compile(r"\x1b\[[\d;]*m")
LIMIT = 600
"""Seconds that a cell may take."""


def on_files(files: Any, config: Any) -> Any:
    """Add a page per notebook."""
    import nbformat
    from mkdocs.structure.files import File

    for path in NOTEBOOKS:
        notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]  # nbformat has it so
        if os.environ.get("NOTEBOOKS") == "run":
            execute(notebook)
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=page(notebook, path.name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Let the list of notebooks link to their pages."""
    return markdown.replace(".ipynb)", ".md)") if page.file.src_uri == LIST else markdown


def execute(notebook: Any) -> None:
    """Run the cells of a notebook in a temporary folder, and keep their outputs in `notebook`."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": folder}}).execute()


def page(notebook: Mapping[str, Any], name: str) -> str:
    """Return a notebook as Markdown."""
    parts = list[str]()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
        else:
            parts += [block(cell["source"], "python"), *outputs(cell)]
    parts[0] += f"\n\n[Download the notebook]({name})."
    return "\n\n".join(parts) + "\n"


def outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a cell printed and returned, as one block; an object without a text is only named."""
    texts = list[str]()
    for each in cell["outputs"]:
        texts.append(each["text"] if each.get("name") == "stdout" else each.get("data", {}).get("text/plain", ""))
    has_object = any(map(OBJECT.match, texts))
    text = ESCAPES.sub("", "".join(f"{text.rstrip()}\n" for text in texts if text.strip() and not OBJECT.match(text)))
    if text:
        yield block(text, "text")
    if has_object:
        yield "*The notebook shows a page here.*"


def block(code: str, language: str) -> str:
    """Return a block of code, with a fence that is longer than any in it."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"
