"""Tutorials: Python scripts in percent format → pages and notebooks, with what their cells print and draw.

A cell begins with a line `# %%`, one of text with `# %% [markdown]`. A picture that a cell writes is shown below it.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parent / "tutorials"
WIDEST = 900  # pixels of a picture on a page


@dataclass(frozen=True)
class Cell:
    """A cell of text or of code, and what it gave when it was executed."""

    text: str
    is_code: bool
    printed: str = ""
    pictures: tuple[str, ...] = field(default=())


def scripts() -> list[Path]:
    """The tutorials, in alphabetical order."""
    return sorted(FOLDER.glob("*.py"))


def cells(script: str) -> list[Cell]:
    """The cells of a script in percent format."""
    parts = re.split(r"(?m)^# %%(.*)$", script)
    found = []
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        is_code = "[markdown]" not in heading
        text = body.strip("\n")
        found.append(Cell(text if is_code else re.sub(r"(?m)^# ?", "", text), is_code))
    return found


def execute(script: Path) -> list[Cell]:
    """The cells with what they print; the pictures they write are copied beside the script."""
    names: dict[str, object] = {"__name__": "__main__"}
    done = []
    with _elsewhere():
        for number, cell in enumerate(cells(script.read_text()), 1):
            if not cell.is_code:
                done.append(cell)
                continue
            before = _pictures()
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(cell.text, f"{script.name}, cell {number}", "exec"), names)
            new = [path for path, age in _pictures().items() if before.get(path) != age]
            pictures = tuple(_shown(path, f"{script.stem}-{number}-{path.stem}.jpg") for path in new)
            text = printed.getvalue().replace(f"{Path.cwd()}{os.sep}", "")  # nobody else has this folder
            done.append(Cell(cell.text, True, text, pictures))
    return done


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Within it, the current folder is a new one, and the scripts of docs/figures can be imported."""
    here = Path.cwd()
    sys.path.append(str(FOLDER.parent / "figures"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)
            sys.path.pop()


def _pictures() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(Path().glob("*.png"))}


def _shown(path: Path, name: str) -> str:
    with Image.open(path) as picture:
        small = picture.convert("RGB")
    small.thumbnail((WIDEST, WIDEST))
    target = FOLDER / "pictures" / name
    target.parent.mkdir(exist_ok=True)
    small.save(target, quality=85)
    return f"pictures/{name}"


def page(stem: str, done: list[Cell]) -> str:
    """The tutorial as Markdown."""
    parts = []
    for cell in done:
        if not cell.is_code:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        if cell.printed.strip():
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        parts += [f"![{Path(picture).stem}]({picture})" for picture in cell.pictures]
    note = f"This page is made by executing `docs/tutorials/{stem}.py`; [the same as a notebook]({stem}.ipynb)."
    return "\n\n".join([*parts, "---", note]) + "\n"


def notebook(done: list[Cell]) -> str:
    """The tutorial as a Jupyter notebook (nbformat 4.5)."""
    made = []
    for number, cell in enumerate(done):
        entry: dict[str, object] = {
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.text.splitlines(keepends=True),
        }
        if cell.is_code:
            stream = {"output_type": "stream", "name": "stdout", "text": cell.printed.splitlines(keepends=True)}
            entry |= {"cell_type": "code", "execution_count": None, "outputs": [stream] if cell.printed else []}
        else:
            entry["cell_type"] = "markdown"
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def pages() -> dict[Path, str]:
    """Path → content of every page and notebook; executes the tutorials."""
    made = {}
    for script in scripts():
        done = execute(script)
        made[script.with_suffix(".md")] = page(script.stem, done)
        made[script.with_suffix(".ipynb")] = notebook(done)
    return made
