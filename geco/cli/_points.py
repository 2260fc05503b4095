"""Points on a command line: `x,y` pairs, or a CSV file of them, also one that a command of ours has written."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

from geco.cli._options import OptionError
from geco.errors import InputError
from geco.system import documents

EXPECTED = "a CSV with the columns x, y and perhaps name, image, visible"
COLUMNS = (("x", "y"), ("target_x", "target_y"))  # the latter are what `geco transfer --csv` prints
HIDDEN = ("0", "false", "no")


class Named(NamedTuple):
    """Points (x, y) in pixels, and their names, if they have any."""

    places: list[tuple[float, float]]
    names: list[str]


def read_points(points: list[str], file: Path | None, *, image: Path | None = None) -> Named:
    """The points of `--points x,y` options, or of a CSV file, which may also be given as `--points FILE.csv`.

    Of a file that names images, those of `image`; points that it calls hidden are left out.
    """
    files = [Path(text) for text in points if text.lower().endswith(".csv")]
    if len(files) + (file is not None) > 1 or ((files or file) and len(points) > len(files)):
        raise OptionError("give points with --points x,y or with one file of them, not both")
    if files or file:
        return _from_csv(file or files[0], image)
    if not points:
        raise OptionError("no points: give --points x,y (several times, or several pairs), or --points-file points.csv")
    return Named([_pair(text) for option in points for text in option.split()], [])


def _pair(text: str) -> tuple[float, float]:
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"a point is x,y in pixels, like 120,80, got {text!r}") from None
    return x, y


def _from_csv(file: Path, image: Path | None) -> Named:
    rows = _rows(file)
    columns = next((pair for pair in COLUMNS if rows and set(pair) <= set(rows[0][1])), None)
    if columns is None:
        raise InputError(f"{file} must start with a header line that has x and y, and hold at least one point")
    if image is not None and "image" in rows[0][1]:
        rows = _of_image(rows, file, image)
    rows = [(number, row) for number, row in rows if str(row.get("visible", "")).strip().lower() not in HIDDEN]
    if not rows:
        raise InputError(f"{file} calls all of its points hidden; expected at least one with visible 1")
    places = []
    for number, row in rows:
        try:
            places.append((float(row[columns[0]]), float(row[columns[1]])))
        except (TypeError, ValueError):
            got = f"{row[columns[0]]!r}, {row[columns[1]]!r}"
            raise InputError(f"{file}, line {number}: x and y must be numbers, got {got}") from None
    return Named(places, [row.get("name") or "" for _, row in rows] if "name" in rows[0][1] else [])


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by the names of its columns, each with the number of its line."""
    text = documents.read_text(file, expected=EXPECTED)
    try:
        return list(enumerate(csv.DictReader(io.StringIO(text, newline="")), start=2))
    except csv.Error as error:
        raise InputError(f"{file} is not a CSV text file: {error}") from None


def _of_image(rows: list[tuple[int, dict[str, str]]], file: Path, image: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows that are about an image: by its path, seen from here or from the file's folder, or by its name alone."""
    named = {str(row.get("image") or "") for _, row in rows}
    same = {
        name for name in named if name and any(_is_same(place, image) for place in (Path(name), file.parent / name))
    }
    same = same or {name for name in named if name and Path(name).name == image.name}
    if len(same) != 1:
        known = ", ".join(sorted(named)[:3])
        problem = "has no points of" if not same else "has several images called"
        raise InputError(f"{file} {problem} {image.name}; its images are {known}")
    return [(number, row) for number, row in rows if row.get("image") in same]


def _is_same(place: Path, image: Path) -> bool:
    try:
        return place.exists() and image.exists() and place.samefile(image)
    except (OSError, ValueError):  # a name that no file system takes
        return False
