"""Tables of text with commas: the rows of a CSV file, or one line that says what is wrong with it."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from geco.data import number
from geco.errors import InputError
from geco.system import documents

EMPTY = ("", "nan", "na", "none", "null")  # how tables write that there is nothing


def read(path: Path, *, expected: str) -> list[list[str]]:
    """The rows of a CSV file, empty ones left out."""
    text = documents.read_text(path, expected=expected)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if any(row)]
    except csv.Error as error:
        raise InputError(f"{path} is not a table with commas: {error}; expected {expected}") from None
    if not rows:
        raise InputError(f"{path} is empty; expected {expected}")
    return rows


def cell(text: str, where: str, *, what: str) -> float:
    """The number in a cell; NaN if it is empty."""
    return math.nan if text.strip().lower() in EMPTY else number(text, where, what=what)


def write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """The rows as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def append(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Add rows to the end of a CSV file, in one piece: a process that is stopped leaves no half row."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    with path.open("a", newline="", encoding="utf-8") as file:
        file.write(text.getvalue())


def shown(value: float, digits: int) -> str:
    """A number as a cell shows it: no more digits than it has; empty for NaN."""
    return "" if value != value else f"{value:.{digits}f}".rstrip("0").rstrip(".")
