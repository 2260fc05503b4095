"""Downloads: the points of a session as a table or in COCO's format, and the picture."""

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from PIL import Image as Pillow

from geco import propagation, viz
from geco.data import named
from geco.demo import runs
from geco.demo.answers import Answer, as_matches
from geco.demo.board import Spot
from geco.demo.sheet import Sheet
from geco.demo.uploads import SessionImage
from geco.errors import InputError
from geco.propagation import HIDDEN, VISIBLE, Animal, LabelledImage, LabelSet

ENDINGS = {"csv": ".csv", "coco": ".json"}

Found = tuple[SessionImage, Sequence[Answer]]  # a target, and where each of the points is in it


def labels(source: SessionImage, spots: Sequence[Spot], found: Sequence[Found]) -> LabelSet:
    """The points on the source image and on every target, as labels of keypoints."""
    if not spots:
        raise InputError("there is no point yet; click in the left image first")
    points = torch.tensor([(spot.x, spot.y) for spot in spots])
    animals = [(source, Animal(points, torch.full((len(spots),), VISIBLE)))]
    for target, answers in found:
        visible = torch.tensor([answer.visible for answer in answers])
        places = torch.tensor([(answer.x, answer.y) for answer in answers]).where(visible[:, None], torch.nan)
        score = torch.tensor([answer.score for answer in answers])
        animals.append((target, Animal(places, torch.where(visible, VISIBLE, HIDDEN), score=score)))
    names = _distinct([image.name for image, _ in animals])
    labelled = [
        LabelledImage(Path(name), (animal,), size=image.size)
        for name, (image, animal) in zip(names, animals, strict=True)
    ]
    return LabelSet(named([spot.name for spot in spots]), labelled)


def labels_of_many(images: Mapping[str, SessionImage], sheet: Sheet) -> LabelSet:
    """The keypoints of all images that have any, set by hand or found."""
    shown = {identity: image for identity, image in images.items() if sheet.of(identity).places}
    if not shown:
        raise InputError("no image is labelled yet; click points in one first")
    names = _distinct([image.name for image in shown.values()])
    labelled = [
        LabelledImage(Path(name), (runs.animal(sheet.of(identity), sheet.numbers),), size=image.size)
        for name, (identity, image) in zip(names, shown.items(), strict=True)
    ]
    return LabelSet(named([keypoint.name for keypoint in sheet.keypoints]), labelled)


def table(label_set: LabelSet, kind: str) -> bytes:
    """Labels as a file, "csv" or "coco"; images go by their names."""
    with tempfile.TemporaryDirectory() as folder:
        # Names are only written: paths inside the folder of the labels are written relative to it, and never opened.
        inside = [
            LabelledImage(Path(folder) / image.path, image.animals, size=image.size) for image in label_set.images
        ]
        output = Path(folder) / f"points{ENDINGS[kind]}"
        relative = LabelSet(label_set.skeleton, inside)
        return propagation.write_annotations(relative, output, format=kind).read_bytes()


def picture(source: SessionImage, spots: Sequence[Spot], found: Sequence[Found], *, title: str) -> bytes:
    """The images with their points as a PNG file, one row for each target."""
    if not found:
        raise InputError("there is no image on the right yet; choose one first")
    rows: list[Pillow.Image] = []
    for target, answers in found:
        pair = source, target
        figure = viz.draw_transfer(
            source.pixels,
            target.pixels,
            as_matches(pair, spots, answers),
            names=[spot.name for spot in spots],
            title="" if rows else title,
            labels=(source.name, target.name),
        )
        rows.append(Pillow.open(io.BytesIO(viz.png(figure))).convert("RGB"))
    sheet = Pillow.new("RGB", (max(row.width for row in rows), sum(row.height for row in rows)), "white")
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number before those that repeat: two images may be called the same."""
    distinct: list[str] = []
    for number, name in enumerate(names, 1):
        distinct.append(f"{number} {name}" if name in distinct else name)
    return distinct
