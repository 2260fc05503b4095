"""Boxes around the animals of images: a CSV, COCO's annotations, or what MegaDetector wrote."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geco import checks, data
from geco.data import field, numbers
from geco.errors import InputError
from geco.propagation.formats import tables
from geco.system import documents

Box = tuple[float, float, float, float]
COLUMNS = ("image", "x0", "y0", "x1", "y1")
EXPECTED = f"boxes: a CSV with the columns {', '.join(COLUMNS)}, COCO's JSON, or MegaDetector's"
FORM = "bbox to be [x, y, width, height]"
ANIMAL, SURE = "1", 0.2  # MegaDetector's category of animals, and the confidence its authors advise for a start


class Boxes:
    """The boxes of each image that a file has some for, in pixels (x0, y0, x1, y1)."""

    def __init__(self, named: Mapping[str, Sequence[Box]], path: Path, *, relative: bool = False) -> None:
        self._named, self.path = dict(named), path
        self._relative = relative  # as shares of the image's sides
        self._short: dict[str, list[str]] = defaultdict(list)
        for name in named:
            self._short[Path(name).name].append(name)

    def __len__(self) -> int:
        return len(self._named)

    def digest(self) -> str:
        """Equal for the same boxes."""
        return hashlib.sha256(repr(sorted(self._named.items())).encode()).hexdigest()

    def of(self, image: Path, size: tuple[int, int]) -> tuple[Box, ...]:
        """The boxes of an image of this (height, width): those under its path, or under its name if only one has it."""
        found = self._named.get(str(image))
        if found is None:
            alike = [name for name in self._short.get(image.name, ()) if _ends(image, name)]
            if len(alike) > 1:
                raise InputError(f"{self.path} has {len(alike)} images that could be {image}; name them with folders")
            found = self._named[alike[0]] if alike else ()
        height, width = size
        scale = (width, height, width, height) if self._relative else (1, 1, 1, 1)
        return tuple(tuple(v * s for v, s in zip(box, scale, strict=True)) for box in found)


def read_boxes(path: str | Path) -> Boxes:
    """The boxes in a file."""
    path = checks.path(path, "the file of boxes")
    text = documents.read_text(path, expected=EXPECTED)
    if not text.lstrip().startswith("{"):
        return Boxes(_grouped(_table(path)), path)
    document = documents.parse(text, name=str(path), finite=True)
    if "annotations" in document:
        return Boxes(_grouped(_coco(document, str(path))), path)
    if "detection_categories" in document:
        return Boxes(_grouped(_detections(document, str(path))), path, relative=True)
    raise InputError(f"{path} is an object with {documents.listed(map(str, document))}; expected {EXPECTED}")


def _ends(image: Path, name: str) -> bool:
    """Whether the path ends as the name does, as far as both go."""
    shared = min(len(image.parts), len(Path(name).parts))
    return image.parts[-shared:] == Path(name).parts[-shared:]


def _grouped(found: Iterator[tuple[str, Box]]) -> dict[str, list[Box]]:
    named: dict[str, list[Box]] = {}
    for name, box in found:
        named.setdefault(name, []).append(box)
    return named


def _table(path: Path) -> Iterator[tuple[str, Box]]:
    header, *rows = tables.read(path, expected=EXPECTED)
    if not set(COLUMNS) <= set(header):
        raise InputError(f"{path} is a table with {checks.shown(header)}; expected {EXPECTED}")
    for number, row in enumerate(rows, 2):
        where = f"{path}, row {number}"
        if len(row) != len(header):
            raise InputError(f"{where} has {len(row)} cells, the first row {len(header)}")
        cells = dict(zip(header, row, strict=True))
        corners = [data.number(cells[name], where, what=name) for name in COLUMNS[1:]]
        yield cells["image"], _checked(corners, where)


def _coco(document: Mapping[str, Any], where: str) -> Iterator[tuple[str, Box]]:
    names = {}
    for number, image in enumerate(field(document, "images", list, where)):
        at = f"{where}: image {number}"
        names[field(image, "id", int, at)] = field(image, "file_name", str, at)
    for number, annotation in enumerate(field(document, "annotations", list, where)):
        at = f"{where}: annotation {number}"
        key = field(annotation, "image_id", int, at)
        if key not in names:
            raise InputError(f"{at} is of the image {key}, which is not there")
        x, y, width, height = numbers(annotation.get("bbox"), 4, at, form=FORM)
        yield names[key], _checked([x, y, x + width, y + height], at)


def _detections(document: Mapping[str, Any], where: str) -> Iterator[tuple[str, Box]]:
    for number, image in enumerate(field(document, "images", list, where)):
        at = f"{where}: image {number}"
        name = field(image, "file", str, at)
        detections = image.get("detections") or []
        if not isinstance(detections, list):
            raise InputError(f"{at}: detections should be a list, got {checks.shown(detections)}")
        for detection in detections:
            confidence = field(detection, "conf", (int, float), at)
            if str(detection.get("category")) == ANIMAL and confidence >= SURE:
                x, y, width, height = numbers(detection.get("bbox"), 4, at, form=FORM)
                yield name, _checked([x, y, x + width, y + height], at)


def _checked(corners: Sequence[float], where: str) -> Box:
    x0, y0, x1, y1 = corners
    if not all(abs(side) < 1e6 for side in corners) or not (x0 < x1 and y0 < y1):
        raise InputError(f"{where}: a box is x0 < x1 and y0 < y1 in pixels, got {x0:g}, {y0:g}, {x1:g}, {y1:g}")
    return x0, y0, x1, y1
