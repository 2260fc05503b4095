"""COCO keypoints: one JSON file of images, annotations and categories.

COCO's keypoints are indices of pixels: 0 is the centre of the first one (Detectron2's documentation says so, and adds
0.5 as we do); boxes count from the corner. A file that says `"keypoint_origin": "corner"` in its `info` is believed.
v is 0 for a point that is not labelled, 1 for a hidden and 2 for a visible one; files that never say 2 mean visible by
1. Ours also have lists `score`, `visible` and `uncertainty`, one entry per keypoint; null is what is not known.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geco import checks
from geco.data import PIXEL_CENTRE, field, image_size, numbers
from geco.errors import InputError
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelSet
from geco.propagation.formats.contract import (
    DIGITS,
    Entry,
    Mark,
    Marked,
    Source,
    assemble,
    box_of,
    extent,
    marks_of,
    one_kind,
    size_of,
    written_name,
)
from geco.system import documents

NAME, ENDINGS = "coco", (".json",)
EXPECTED = "COCO keypoints: an object with images, annotations and categories"
ORIGINS = {"index": PIXEL_CENTRE, "corner": 0.0}
ADDED = ("score", "uncertainty")


def recognises(document: Any) -> bool:
    """Whether this JSON is meant to be COCO's."""
    return isinstance(document, dict) and {"images", "annotations", "categories"} <= set(document)


def read(source: Source) -> LabelSet:
    """The labels in a file of COCO keypoints."""
    document = source.document or documents.read(source.path, expected=EXPECTED, finite=False)
    where = str(source.path)
    kinds = _kinds(document, where)
    entries = _images(document, where)
    used, marked = _annotations(document, kinds, entries, source)
    category, names = one_kind({kinds[key][0]: kinds[key][1] for key in used}, source)
    edges = next(kinds[key][2] for key in used if kinds[key][1] == names)
    seen = {mark.state for animal in marked for mark in animal.marks.values()}
    if VISIBLE not in seen and not any("visible" in record for record in document["annotations"]):
        for animal in marked:
            animal.marks = {name: _visible(mark) for name, mark in animal.marks.items()}
    return assemble(
        source,
        names,
        entries.values(),
        shift=_shift(document, where),
        bases=(source.path.parent, source.path.parent / "images", source.path.parent.parent / "images"),
        edges=edges,
        category=category,
        format=NAME,
    )


def _visible(mark: Mark) -> Mark:
    marked = mark.state == HIDDEN and mark.placed
    return Mark(mark.x, mark.y, VISIBLE, mark.score, mark.uncertainty) if marked else mark


def _shift(document: Mapping[str, Any], where: str) -> float:
    info = document.get("info")
    origin = info.get("keypoint_origin", "index") if isinstance(info, dict) else "index"
    if not isinstance(origin, str) or origin not in ORIGINS:
        raise InputError(f"{where}: keypoint_origin should be index or corner, got {checks.shown(origin)}")
    return ORIGINS[origin]


def _kinds(document: Any, where: str) -> dict[Any, tuple[str, tuple[str, ...], tuple[tuple[int, int], ...]]]:
    """Name, keypoints and edges of each category that has keypoints, by its id."""
    kinds = {}
    for number, record in enumerate(field(document, "categories", list, where)):
        place = f"{where}: categories[{number}]"
        key = field(record, "id", (int, str), place)
        if record.get("keypoints"):
            names = tuple(field(record, "keypoints", list, place))
            if not all(isinstance(name, str) for name in names):
                raise InputError(f"{place}: keypoints should be a list of names, got {checks.shown(list(names))}")
            kinds[key] = (field(record, "name", str, place), names, _edges(record, len(names), place))
    if not kinds:
        raise InputError(f"{where}: no category has keypoints; expected {EXPECTED}")
    return kinds


def _edges(record: Mapping[str, Any], count: int, where: str) -> tuple[tuple[int, int], ...]:
    lines = record.get("skeleton") or []
    if not isinstance(lines, list):
        raise InputError(f"{where}: skeleton should be a list of pairs, got {checks.shown(lines)}")
    edges = []
    for line in lines:
        ends = [int(end) - 1 for end in numbers(line, 2, f"{where}: skeleton", form="pairs of keypoints, from 1")]
        if not all(0 <= end < count for end in ends):
            raise InputError(f"{where}: skeleton joins {checks.shown(line)}, but keypoints go from 1 to {count}")
        edges.append((ends[0], ends[1]))
    return tuple(edges)


def _images(document: Any, where: str) -> dict[Any, Entry]:
    entries: dict[Any, Entry] = {}
    for number, record in enumerate(field(document, "images", list, where)):
        place = f"{where}: images[{number}]"
        key, name = field(record, "id", (int, str), place), field(record, "file_name", str, place)
        if key in entries:
            raise InputError(f"{place}: the id {checks.shown(key)} stands there twice")
        height, width = record.get("height"), record.get("width")
        size = image_size(height, width, place) if height and width else None
        frame = None if record.get("frame") is None else checks.whole(record["frame"], f"{place}: frame", least=0)
        entries[key] = Entry(name, frame=frame, size=size)
    if not entries:
        raise InputError(f"{where} holds no images; expected {EXPECTED}")
    return entries


def _annotations(
    document: Any, kinds: Mapping[Any, tuple[str, tuple[str, ...], Any]], entries: Mapping[Any, Entry], source: Source
) -> tuple[list[Any], list[Marked]]:
    """Ids of the categories that are used, and the animals, which are put into their images' entries."""
    used: dict[Any, None] = {}
    animals = []
    for number, record in enumerate(field(document, "annotations", list, str(source.path))):
        where = f"{source.path}: annotations[{number}]"
        image, kind = (field(record, key, (int, str), where) for key in ("image_id", "category_id"))
        if record.get("iscrowd") or record.get("keypoints") in (None, []) or kind not in kinds:
            continue  # boxes and outlines of other objects
        if image not in entries:
            raise InputError(f"{where}: image_id {checks.shown(image)} is not among the file's images")
        name, names, _ = kinds[kind]
        if source.category not in (None, name):
            continue
        used.setdefault(kind)
        animals.append(Marked(_marks(record, names, where), _box(record, where), _track(record)))
        entries[image].animals.append(animals[-1])
    return list(used or kinds), animals


def _marks(record: Mapping[str, Any], names: Sequence[str], where: str) -> dict[str, Mark]:
    count = len(names)
    flat = record["keypoints"]
    if isinstance(flat, list) and flat and all(isinstance(mark, list) and len(mark) == 3 for mark in flat):
        flat = [value for mark in flat for value in mark]
    if isinstance(flat, list) and len(flat) == 3 * count:
        # Where nothing is labelled, some files write NaN.
        flat = [0 if flat[i // 3 * 3 + 2] == 0 and value != value else value for i, value in enumerate(flat)]
    values = numbers(flat, 3 * count, f"{where}: keypoints", form=f"{count} × (x, y, v) in one list")
    added = [_added(record, key, count, where) for key in ADDED]
    marks = {}
    for row, name in enumerate(names):
        x, y, flag = values[3 * row : 3 * row + 3]
        if flag not in (0, 1, 2):
            raise InputError(f"{where}: the v of {checks.shown(name)} should be 0, 1 or 2, got {flag:g}")
        state = (UNKNOWN, HIDDEN, VISIBLE)[int(flag)]
        if state == HIDDEN and x == y == 0:  # hidden, at an unknown place
            x = y = math.nan
        marks[name] = Mark(x, y, state, *(column[row] for column in added))
    return marks


def _added(record: Mapping[str, Any], key: str, count: int, where: str) -> list[float]:
    values = record.get(key)
    if not isinstance(values, list):  # COCO's results have one score for the whole object
        return [math.nan] * count
    known = numbers(
        [0 if value is None else value for value in values], count, f"{where}: {key}", form=f"{count} numbers"
    )
    return [math.nan if value is None else number for value, number in zip(values, known, strict=True)]


def _box(record: Mapping[str, Any], where: str) -> tuple[float, float, float, float] | None:
    if not record.get("bbox") or record.get("bbox_of_keypoints") is True:
        return None
    x, y, width, height = numbers(record["bbox"], 4, f"{where}: bbox", form="[x, y, width, height]")
    return box_of((x, y, x + width, y + height))


def _track(record: Mapping[str, Any]) -> str:
    attributes = record.get("attributes")
    records = [record, attributes] if isinstance(attributes, dict) else [record]
    for key in ("track_id", "object_id", "instance_id"):
        for place in records:
            if isinstance(place.get(key), str | int) and not isinstance(place[key], bool):
                return str(place[key])
    return ""


# --- writing ----------------------------------------------------------------------------------------------------------


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write a file of COCO keypoints."""
    pictures = []
    for number, image in enumerate(labels.images, 1):
        record: dict[str, Any] = {"id": number, "file_name": written_name(image.path, output)}
        size = size_of(image)
        record |= {"height": size[0], "width": size[1]} if size else {}
        record |= {"frame": image.frame} if image.frame is not None else {}
        pictures.append(record)
    document = {
        "info": {"description": "Keypoints written by geco", "keypoint_origin": "index"},
        "images": pictures,
        "annotations": list(_records(labels)),
        "categories": [
            {
                "id": 1,
                "name": labels.category,
                "supercategory": "animal",
                "keypoints": list(labels.skeleton.names),
                "skeleton": [[start + 1, end + 1] for start, end in labels.edges],
            }
        ],
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False, allow_nan=False)


def _records(labels: LabelSet) -> Iterator[dict[str, Any]]:
    identity = 0
    for number, image in enumerate(labels.images, 1):
        for animal in image.animals:
            identity += 1
            record = {"id": identity, "image_id": number, "category_id": 1, "iscrowd": 0}
            yield record | _record(animal)


def _record(animal: Animal) -> dict[str, Any]:
    marks = marks_of(animal, shift=PIXEL_CENTRE)
    flat: list[float] = []
    for mark in marks:
        flat += [mark.x, mark.y, mark.state] if mark.placed else [0, 0, mark.state]
    corners = animal.box or extent(marks_of(animal, shift=0.0)) or (0, 0, 0, 0)
    x0, y0, x1, y1 = (round(edge, DIGITS) for edge in corners)
    record: dict[str, Any] = {
        "keypoints": flat,
        "num_keypoints": sum(mark.state != UNKNOWN for mark in marks),
        "bbox": [x0, y0, round(x1 - x0, DIGITS), round(y1 - y0, DIGITS)],
        "area": round((x1 - x0) * (y1 - y0), DIGITS),
        "visible": [None if mark.state == UNKNOWN else mark.state == VISIBLE for mark in marks],
    }
    record |= {"bbox_of_keypoints": True} if animal.box is None else {}
    record |= {"track_id": animal.track} if animal.track else {}
    for key in ADDED:
        values = [getattr(mark, key) for mark in marks]
        if any(value == value for value in values):
            record[key] = [None if value != value else round(value, 6) for value in values]
    return record
