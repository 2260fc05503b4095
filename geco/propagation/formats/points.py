"""Our own table of points: image, name, x, y, visible, and perhaps animal, track, score, uncertainty, frame, box.

`visible` is 1 or 0 (hidden); where it and the place are empty, the point is not labelled. Also read is what
`geco transfer --csv` prints, and any table with x, y and perhaps name, if the user says of which image it is.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from geco import checks
from geco.errors import InputError
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelSet
from geco.propagation.formats import tables
from geco.propagation.formats.contract import (
    DIGITS,
    Entry,
    Mark,
    Marked,
    Source,
    assemble,
    box_of,
    check_names,
    marks_of,
    written_name,
)

NAME, ENDINGS, SHIFT = "csv", (".csv",), 0.0
EXPECTED = "a table of points with the columns image, name, x, y, visible"
KNOWN = ("image", "frame", "animal", "track", "box", "name", "x", "y", "visible", "score", "uncertainty")
TRACKED = tuple(column for column in KNOWN if column not in ("track", "box"))  # of frames that are added one by one
TARGET = {"target_x": "x", "target_y": "y"}  # what `geco transfer` found
TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")


def recognises(header: list[str]) -> bool:
    """Whether the first row of a table is that of a table of points."""
    columns = {TARGET.get(name, name) for name in _columns(header)}
    return {"x", "y"} <= columns


def read(source: Source) -> LabelSet:
    """The labels in a table of points."""
    rows = tables.read(source.path, expected=EXPECTED)
    header = [TARGET.get(name, name) for name in _columns(rows[0])]
    _check_header(header, source)
    names: dict[str, None] = {}
    entries: dict[tuple[str, int | None], Entry] = {}
    animals: dict[tuple[str, int | None, str], Marked] = {}
    for number, row in enumerate(rows[1:], 2):
        where = f"{source.path}, line {number}"
        if len(row) != len(header):
            raise InputError(f"{where}: {len(row)} cells, but the first line names {len(header)} columns")
        cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
        image = cells.get("image") or (str(source.images.name) if source.images and "image" not in header else "")
        if not image:
            raise InputError(f"{where}: no image is named; expected its path")
        key = (image, _frame(cells.get("frame", ""), where))
        entry = entries.setdefault(key, Entry(*key[:1], frame=key[1]))
        if not any(cells.get(column) for column in ("name", "x", "y", "visible", "animal")) and "name" in header:
            continue  # an image without animals
        place = (*key, cells.get("animal", ""))
        if place not in animals:
            animals[place] = Marked(box=_box(cells.get("box", ""), where), track=_track(cells))
            entry.animals.append(animals[place])
        marks = animals[place].marks
        name = cells["name"] if "name" in header else f"point {len(marks) + 1}"
        if name in marks:
            raise InputError(f"{where}: {image} has {checks.shown(name)} twice; number its animals in a column animal")
        names.setdefault(name)
        marks[name] = _mark(cells, where)
    if not names:
        raise InputError(f"{source.path} holds no points; expected {EXPECTED}")
    base = source.images.parent if "image" not in header and source.images else source.path.parent
    inside = Source(source.path, None if "image" not in header else source.images, faults=source.faults)
    return assemble(
        inside, check_names(list(names), str(source.path)), entries.values(), shift=SHIFT, bases=(base,), format=NAME
    )


def _columns(header: list[str]) -> list[str]:
    return [name.strip().lower() for name in header]


def _check_header(header: list[str], source: Source) -> None:
    for column in ("x", "y"):
        if header.count(column) != 1:
            found = checks.shown(header)
            raise InputError(f"{source.path}: expected one column {column!r} in the first line, got {found}")
    if "image" not in header and (source.images is None or not checks.is_file(source.images)):
        raise InputError(
            f"{source.path} does not say of which image its points are; add a column image, or name the file with "
            "images="
        )


def _mark(cells: dict[str, str], where: str) -> Mark:
    x, y = (tables.cell(cells[axis], where, what=axis) for axis in ("x", "y"))
    if (x != x) != (y != y):
        raise InputError(f"{where}: expected both x and y or neither, got {cells['x']!r}, {cells['y']!r}")
    score, uncertainty = (tables.cell(cells.get(key, ""), where, what=key) for key in ("score", "uncertainty"))
    visible = cells.get("visible", "").lower()
    if visible in TRUE and x == x:
        state = VISIBLE
    elif visible in FALSE:
        state = HIDDEN
    elif visible in tables.EMPTY:
        state = VISIBLE if x == x and "visible" not in cells else UNKNOWN
        if x == x and "visible" in cells:
            raise InputError(f"{where}: there is a place, but visible is empty; expected 1 (visible) or 0 (hidden)")
    elif visible in TRUE:
        raise InputError(f"{where}: the point is visible, but x and y are empty")
    else:
        raise InputError(f"{where}: visible should be 1 or 0, got {checks.shown(cells['visible'])}")
    return Mark(x, y, state, score, uncertainty)


def _frame(text: str, where: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{where}: frame should be the number of a frame, from 0, got {checks.shown(text)}")
    return int(text)


def _box(text: str, where: str) -> tuple[float, float, float, float] | None:
    if not text:
        return None
    corners = [tables.cell(part, where, what="box") for part in text.split()]
    if len(corners) != 4 or any(math.isnan(corner) for corner in corners):
        raise InputError(f"{where}: box should be `x0 y0 x1 y1`, got {checks.shown(text)}")
    return box_of(corners)


def _track(cells: dict[str, str]) -> str:
    """Which individual: the column track or, without one, what stands in `animal` and is not just a number."""
    animal = cells.get("animal", "")
    return cells["track"] if "track" in cells else "" if animal.isdigit() else animal


# --- writing ----------------------------------------------------------------------------------------------------------


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write a table of points; columns without any value are left out."""
    animals = [animal for image in labels.images for animal in image.animals]
    needed = {
        "frame": any(image.frame is not None for image in labels.images),
        "track": any(animal.track for animal in animals),
        "box": any(animal.box is not None for animal in animals),
        "score": any(animal.score is not None for animal in animals),
        "uncertainty": any(animal.uncertainty is not None for animal in animals),
    }
    columns = [column for column in KNOWN if needed.get(column, True)]
    tables.write(path, [columns, *([row[column] for column in columns] for row in _rows(labels, output))])


def append(labels: LabelSet, path: Path, *, output: Path, begin: bool) -> None:
    """Write frames of a video to the end of a table, or to a new one."""
    rows = [[row[column] for column in TRACKED] for row in _rows(labels, output)]
    tables.append(path, [TRACKED, *rows] if begin else rows)


def _rows(labels: LabelSet, output: Path) -> Iterator[dict[str, str]]:
    for image in labels.images:
        place = dict.fromkeys(KNOWN, "")
        place |= {"image": written_name(image.path, output)}
        place |= {"frame": "" if image.frame is None else str(image.frame)}
        if not image.animals:
            yield place
        for number, animal in enumerate(image.animals, 1):
            yield from _animal_rows(animal, labels.skeleton.names, place | {"animal": str(number)})


def _animal_rows(animal: Animal, names: tuple[str, ...], place: dict[str, str]) -> Iterator[dict[str, str]]:
    box = " ".join(tables.shown(edge, DIGITS) for edge in animal.box) if animal.box else ""
    flags = {VISIBLE: "1", HIDDEN: "0", UNKNOWN: ""}
    for name, mark in zip(names, marks_of(animal, shift=SHIFT), strict=True):
        yield place | {
            "track": animal.track,
            "box": box,
            "name": name,
            "x": tables.shown(mark.x, DIGITS),
            "y": tables.shown(mark.y, DIGITS),
            "visible": flags[mark.state],
            "score": tables.shown(mark.score, 6),
            "uncertainty": tables.shown(mark.uncertainty, 6),
        }
