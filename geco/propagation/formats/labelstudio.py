"""Label Studio: the JSON of tasks with keypoint regions, in per cent of the image, counted from its corner.

Keypoints belong to the rectangle that a relation (or `parentID`) connects them with, else to the only one they lie in,
else to the one animal of the image. A keypoint is hidden if a choice on its region says hidden, occluded or invisible.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from re import sub
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from geco import checks
from geco.data import PIXEL_CENTRE, field, image_size, numbers
from geco.errors import InputError
from geco.propagation.annotations import HIDDEN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.formats.contract import (
    Box,
    Entry,
    Mark,
    Marked,
    Source,
    assemble,
    box_of,
    extent,
    marks_of,
    refuse_frames,
    size_of,
    written_name,
)
from geco.system import documents
from geco.types import Size

NAME, ENDINGS, SHIFT = "labelstudio", (".json",), 0.0
EXPECTED = "Label Studio's export as JSON: a list of tasks with data and annotations"
RESULTS = ("annotations", "completions", "predictions")  # completions: before release 1.0
UNSEEN = ("hidden", "occluded", "not visible", "invisible", "0")
UPLOADED = r"^[0-9a-f]{8}-"  # what Label Studio puts before the name of an uploaded file
TRACK, OUT_OF_SIGHT, POINTS_ONLY = "track: ", "hidden: ", "box: of the keypoints"  # our notes on an animal's region


def recognises(document: Any) -> bool:
    """Whether this JSON is meant to be Label Studio's."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and any(key in first for key in RESULTS) and ("data" in first or "meta" in first)


def read(source: Source) -> LabelSet:
    """The labels in an export of Label Studio."""
    document = source.document or documents.read(source.path, expected=EXPECTED, kind=object)
    tasks = document if isinstance(document, list) else [document]
    key = next((key for key in RESULTS if any(_results(task, key) for task in tasks)), RESULTS[0])
    names: dict[str, None] = {}
    entries, categories = [], set()
    for number, task in enumerate(tasks):
        where = f"{source.path}: task {number + 1}"
        entry, told = _image(task, where)
        names |= dict.fromkeys(told)
        regions = _Regions(entry, where, of_sleap=_video(task) is not None)
        for result in _results(task, key):
            regions.add(result)
        entry.animals, entry.size = regions.animals(), regions.size
        names |= dict.fromkeys(name for animal in entry.animals for name in animal.marks)
        categories |= regions.categories
        entries.append(entry)
    if not names:
        raise InputError(f"{source.path} holds no keypoints; expected regions of the type keypointlabels in {EXPECTED}")
    category = categories.pop() if len(categories) == 1 else "animal"
    bases = (source.path.parent, source.path.parent / "images")
    return assemble(source, list(names), entries, shift=SHIFT, bases=bases, category=category, format=NAME)


def _results(task: Any, key: str) -> list[Any]:
    """The regions of a task: those of the annotation marked as ground truth, else of the first that was finished."""
    answers = task.get(key) if isinstance(task, dict) else None
    if not isinstance(answers, list):
        return []
    finished = [answer for answer in answers if isinstance(answer, dict) and not answer.get("was_cancelled")]
    best = next((answer for answer in finished if answer.get("ground_truth") is True), finished[0] if finished else {})
    regions = best.get("result", [])
    return regions if isinstance(regions, list) else []


def _image(task: Any, where: str) -> tuple[Entry, list[str]]:
    """The image of a task, and the names of keypoints that our own files have with it."""
    if not isinstance(task, dict) or not any(key in task for key in RESULTS):
        raise InputError(f"{where}: expected {EXPECTED}, got {checks.shown(task)}")
    given = task.get("data")
    data: dict[str, Any] = given if isinstance(given, dict) else {}
    told = data.get("keypoints")
    told = told if isinstance(told, list) and all(isinstance(name, str) for name in told) else []
    if (video := _video(task)) is not None:
        frame = checks.whole(video.get("frame_idx"), f"{where}: frame_idx", least=0)
        names = video.get("filename")
        if isinstance(names, list) and frame < len(names) and isinstance(names[frame], str):
            return Entry(names[frame]), told
        return Entry(field(video, "filename", str, where), frame=frame), told
    addresses = [value for value in data.values() if isinstance(value, str)]
    if not addresses:
        raise InputError(f"{where} names no image; expected its address in data, got {checks.shown(given)}")
    preferred = next((data[key] for key in ("image", "img", "photo") if isinstance(data.get(key), str)), addresses[0])
    return Entry(preferred, aliases=tuple(_files(preferred))), told


def _video(task: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The frame of a video that sleap-io writes into a task."""
    meta = task.get("meta")
    video = meta.get("video") if isinstance(meta, dict) else None
    return video if isinstance(video, dict) else None


def _files(address: str) -> Iterator[str]:
    """Names that the file of an address may have: of local storage, of a bucket, of an upload."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    for path in (*parse_qs(parts.query).get("d", []), parts.path):
        plain = PurePosixPath(unquote(path))
        yield str(plain)
        yield sub(UPLOADED, "", plain.name)


class _Regions:
    """Regions of one image, put together to animals."""

    def __init__(self, entry: Entry, where: str, *, of_sleap: bool) -> None:
        self.entry, self.where, self.of_sleap = entry, where, of_sleap
        self.size: Size | None = None
        self.points: dict[str, tuple[str, Mark]] = {}
        self.boxes: dict[str, Marked] = {}
        self.owners: dict[str, str] = {}
        self.choices: dict[str, list[str]] = {}
        self.links: dict[str, set[str]] = defaultdict(set)
        self.categories: set[str] = set()

    def add(self, result: Any) -> None:
        if not isinstance(result, dict):
            raise InputError(f"{self.where}: a region should be an object, got {checks.shown(result)}")
        kind = result.get("type")
        if kind == "relation":
            ends = [field(result, key, str, self.where) for key in ("from_id", "to_id")]
            self.links[ends[0]].add(ends[1])
            self.links[ends[1]].add(ends[0])
        elif kind in ("keypointlabels", "rectanglelabels", "rectangle"):
            key = field(result, "id", str, self.where)
            value = field(result, "value", dict, self.where)
            if result.get("image_rotation"):
                raise InputError(f"{self.where}: the image was rotated in Label Studio; undo that, and export again")
            self._add_size(result)
            self.points.update({key: self._point(value, result)} if kind == "keypointlabels" else {})
            self.boxes.update({key: self._animal(value, result)} if kind != "keypointlabels" else {})
            if isinstance(result.get("parentID"), str):
                self.owners[key] = result["parentID"]
        elif kind == "choices" and isinstance(result.get("id"), str):
            chosen = result["value"].get("choices") if isinstance(result.get("value"), dict) else None
            choices = chosen if isinstance(chosen, list) else []
            self.choices[result["id"]] = [choice.lower() for choice in choices if isinstance(choice, str)]

    def _add_size(self, result: Mapping[str, Any]) -> None:
        sides = (result.get("original_height"), result.get("original_width"))
        size = image_size(*sides, f"{self.where}: original_height and original_width")
        if self.size not in (None, size):
            raise InputError(f"{self.where}: regions of images of different sizes, {self.size} and {size}")
        self.size = size

    def _pixels(self, value: Mapping[str, Any], *keys: str) -> list[float]:
        height, width = self.size or (0, 0)
        given = numbers(
            [value.get(key) for key in keys], len(keys), self.where, form=f"{' and '.join(keys)} in per cent"
        )
        sides = (height if key in ("y", "height") else width for key in keys)
        return [share * side / 100 for share, side in zip(given, sides, strict=True)]

    def _point(self, value: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, Mark]:
        labels = field(value, "keypointlabels", list, self.where)
        if len(labels) != 1 or not isinstance(labels[0], str):
            raise InputError(f"{self.where}: a keypoint should have one label, got {checks.shown(labels)}")
        x, y = self._pixels(value, "x", "y")
        # sleap-io writes SLEAP's coordinates as they are, which count from the centre of the first pixel.
        shift = PIXEL_CENTRE if self.of_sleap else 0.0
        score = result.get("score")
        known = math.nan if score is None else checks.number(score, f"{self.where}: score")
        return labels[0], Mark(x + shift, y + shift, VISIBLE, known)

    def _animal(self, value: Mapping[str, Any], result: Mapping[str, Any]) -> Marked:
        meta = result.get("meta")
        notes = meta.get("text") if isinstance(meta, dict) else None
        texts = [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []
        animal = Marked(track=next((note[len(TRACK) :] for note in texts if note.startswith(TRACK)), ""))
        unseen = [note[len(OUT_OF_SIGHT) :] for note in texts if note.startswith(OUT_OF_SIGHT)]
        animal.marks = {name: Mark(state=HIDDEN) for name in unseen}
        if not self.of_sleap:  # whose rectangles are placeholders
            x, y, width, height = self._pixels(value, "x", "y", "width", "height")
            animal.box = None if POINTS_ONLY in texts else box_of((x, y, x + width, y + height))
            labels = value.get("rectanglelabels")
            self.categories |= {name for name in labels if isinstance(name, str)} if isinstance(labels, list) else set()
        return animal

    def animals(self) -> list[Marked]:
        """The animals, each with its keypoints."""
        alone = Marked()
        for key, (name, mark) in self.points.items():
            animal = self._owner(key, mark) or alone
            if name in animal.marks and animal.marks[name].placed:
                about = "connect each with its animal's rectangle by a relation"
                raise InputError(f"{self.where}: {self.entry.name} has {checks.shown(name)} twice; {about}")
            unseen = any(choice in UNSEEN for choice in self.choices.get(key, ()))
            animal.marks[name] = Mark(mark.x, mark.y, HIDDEN if unseen else VISIBLE, mark.score)
        return [*self.boxes.values(), *([alone] if alone.marks else [])]

    def _owner(self, key: str, mark: Mark) -> Marked | None:
        named = [*self.links.get(key, ()), self.owners.get(key, "")]
        known = [self.boxes[owner] for owner in named if owner in self.boxes]
        if known:
            return known[0]
        around = [animal for animal in self.boxes.values() if animal.box and _holds(animal.box, mark)]
        return around[0] if len(around) == 1 else None


def _holds(box: Box, mark: Mark) -> bool:
    return box[0] <= mark.x <= box[2] and box[1] <= mark.y <= box[3]


# --- writing ----------------------------------------------------------------------------------------------------------


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write tasks for Label Studio: predictions, to be corrected there, if there are scores, else annotations."""
    refuse_frames(labels, "Label Studio's format")
    predicted = any(animal.score is not None for image in labels.images for animal in image.animals)
    tasks = []
    for number, image in enumerate(labels.images, 1):
        answer: dict[str, Any] = {"result": list(_written(image, labels, number))}
        answer |= {"model_version": "geco"} if predicted else {"was_cancelled": False, "ground_truth": False}
        data = {"image": written_name(image.path, output), "keypoints": list(labels.skeleton.names)}
        answers = {"annotations": [], "predictions": [answer]} if predicted else {"annotations": [answer]}
        tasks.append({"id": number, "data": data, **answers})
    with path.open("w", encoding="utf-8") as file:
        json.dump(tasks, file, indent=1, ensure_ascii=False, allow_nan=False)


def _written(image: LabelledImage, labels: LabelSet, number: int) -> Iterator[dict[str, Any]]:
    size = size_of(image)
    if size is None and image.animals:
        raise InputError(f"{image.path} cannot be read, and Label Studio's format needs the size of every image")
    for place, animal in enumerate(image.animals, 1):
        assert size is not None
        yield from _regions(animal, labels, size, f"{number}-{place}")


def _regions(animal: Animal, labels: LabelSet, size: Size, key: str) -> Iterator[dict[str, Any]]:
    height, width = size
    marks = marks_of(animal, shift=SHIFT)
    common = {"original_width": width, "original_height": height, "image_rotation": 0, "to_name": "image"}
    x0, y0, x1, y1 = animal.box or extent(marks) or (0.0, 0.0, 0.0, 0.0)
    notes = [f"{TRACK}{animal.track}"] if animal.track else []
    notes += [POINTS_ONLY] if animal.box is None else []
    named = list(zip(labels.skeleton.names, marks, strict=True))
    notes += [f"{OUT_OF_SIGHT}{name}" for name, mark in named if mark.state == HIDDEN and not mark.placed]
    place = {"x": x0 / width, "y": y0 / height, "width": (x1 - x0) / width, "height": (y1 - y0) / height}
    value: dict[str, Any] = {axis: round(100 * share, 6) for axis, share in place.items()}
    value |= {"rotation": 0, "rectanglelabels": [labels.category]}
    yield {
        **common,
        "id": key,
        "from_name": "animal",
        "type": "rectanglelabels",
        "value": value,
        **({"meta": {"text": notes}} if notes else {}),
    }
    for row, (name, mark) in enumerate(named, 1):
        if not mark.placed:
            continue
        point = {"x": round(100 * mark.x / width, 6), "y": round(100 * mark.y / height, 6), "width": 0.5}
        region: dict[str, Any] = {**common, "id": f"{key}-{row}", "from_name": "keypoint", "type": "keypointlabels"}
        region |= {"value": {**point, "keypointlabels": [name]}}
        region |= {"score": round(mark.score, 6)} if mark.score == mark.score else {}
        yield region
        if mark.state == HIDDEN:
            seen = {"type": "choices", "from_name": "visibility", "value": {**point, "choices": ["hidden"]}}
            yield {**common, "id": f"{key}-{row}", **seen}
        yield {"type": "relation", "from_id": f"{key}-{row}", "to_id": key, "direction": "right"}
