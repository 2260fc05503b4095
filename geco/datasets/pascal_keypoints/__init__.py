"""PASCAL keypoints (Bourdev et al. 2010): objects of the 20 categories of PASCAL VOC, 6 to 23 keypoints each.

    root/JPEGImages/<image>.jpg    root/annotations/<category>/<image>_<number>.xml    one file per object
    root/SegmentationObject/<image>.png    VOC's masks of objects, used where they are

There are no published splits or pairs. Ours: 92/8 % of the images by a hash of VOC's image id; pairs are drawn
with a seed, within a category. Images of the validation and test lists of other datasets are left out.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import torch
from jaxtyping import Float
from torch import Tensor

from geco import geometry, images
from geco.data import (
    PIXEL_CENTRE,
    Pairs,
    benchmark_images,
    choose,
    draw,
    hashed_split,
    keypoints,
    number,
    on_image,
    read_xml,
    sharing,
    squared,
    tolerating,
)
from geco.datasets.pascal_keypoints.tables import CATEGORIES, skeleton
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, MaskFile, Size, View

__all__ = ["CATEGORIES", "N_PAIRS", "SHARES", "SPLITS", "load", "skeleton", "variants"]

SPLITS = ("train", "val")
SHARES = {"train": 0.92, "val": 0.08}
N_PAIRS = {"train": 30_000, "val": 1_500}
_FILE_NAME = re.compile(r"(\d{4}_\d{6})_(\d+)")
_NO_OBJECT = (0, 255)  # background, and the border between objects


@dataclass(frozen=True)
class _Record:
    path: Path  # of the annotation
    image: str  # VOC's id
    category: str


def load(
    root: str | Path,
    split: str,
    *,
    n_pairs: int | None = None,
    seed: int = 0,
    categories: str = "",
    crop: str = "none",
    margin: float = 0.1,
    min_keypoints: int = 3,
    min_shared: int = 3,
    min_box: float = 0.0,
    outlined: bool = False,
    spare_benchmarks: bool = True,
    faults: list[str] | None = None,
) -> Pairs:
    """Pairs of objects of one category in different images, with at least `min_shared` common keypoints.

    `categories`: only these, with commas in between. `crop="square"` shows only a square around each object's box and
    a margin (a share of the box). Left out are objects with fewer than `min_keypoints` visible or a box whose longer
    side is below `min_box` pixels, with `outlined` those that VOC has no mask of and, with `spare_benchmarks`, images
    that a validation or test list of another dataset has (`data.benchmark_lists`). `faults`: collects what is wrong and
    leaves it out.
    """
    choose(split, SPLITS, what="split")
    choose(crop, ("none", "square"), what="crop")
    wanted = [name.strip() for name in categories.split(",") if name.strip()]
    for category in wanted:
        skeleton(category)
    spared = benchmark_images(besides="pascal_keypoints val" if split == "val" else "")
    views: list[View] = []
    members: dict[str, list[int]] = {}
    with tolerating(faults):
        for record in _records(Path(root), wanted or CATEGORIES, faults):
            if hashed_split(record.image, SHARES) != split or (spare_benchmarks and record.image in spared):
                continue
            with tolerating(faults):
                view = _view(Path(root), record)
                if _usable(view, min_keypoints=min_keypoints, min_box=min_box, outlined=outlined):
                    members.setdefault(record.category, []).append(len(views))
                    views.append(squared(view, margin=margin) if crop == "square" else view)
    count = N_PAIRS[split] if n_pairs is None else n_pairs
    rows = draw(list(members.values()), count=count, seed=seed, fits=sharing(views, shared=min_shared))
    category_of = {i: category for category, group in members.items() for i in group}
    chosen = [category_of[i] for i, _ in rows]
    return Pairs(tuple(views), rows, chosen, [skeleton(category) for category in chosen])


def variants(split: str) -> list[dict[str, Any]]:
    """The options that `geco data check` counts a split with: every annotation."""
    return [{"spare_benchmarks": False, "min_keypoints": 0}]


def _records(root: Path, categories: tuple[str, ...] | list[str], faults: list[str] | None) -> Iterator[_Record]:
    """The annotation files of these categories, sorted by category, image and number."""
    folder = root / "annotations"
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder; expected annotations/<category>/<image>_<number>.xml")
    for unknown in sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in CATEGORIES):
        with tolerating(faults):
            raise InputError(f"{unknown}: no category of the PASCAL keypoints; they have {', '.join(CATEGORIES)}")
    for category in sorted(categories):
        numbered = []
        for path in (folder / category).glob("*.xml"):
            with tolerating(faults):
                match = _FILE_NAME.fullmatch(path.stem)
                if match is None:
                    raise InputError(f"{path}: expected a name <image>_<number>.xml, such as 2008_000585_1.xml")
                numbered.append((match[1], int(match[2]), path))
        yield from (_Record(path, image, category) for image, _, path in sorted(numbered))


# --- one annotation -----------------------------------------------------------------------------------


def _view(root: Path, record: _Record) -> View:
    annotation = read_xml(record.path, what="an annotation of the PASCAL keypoints")
    for key, expected in (("image", record.image), ("category", record.category)):
        if _text(annotation, key) != expected:
            raise InputError(f"{record.path}: <{key}> should be {expected}, got {_text(annotation, key)}")
    image = root / "JPEGImages" / f"{record.image}.jpg"
    if not image.is_file():
        raise MissingFileError(f"{image}: no such file; {record.path.name} describes it")
    size = images.size_of(image)
    points = on_image(_keypoints(annotation, record), size)
    number_in_voc = _text(annotation, "voc_id")
    likely = int(number_in_voc) if number_in_voc and number_in_voc.isdecimal() else None
    mask = _mask(root / "SegmentationObject" / f"{record.image}.png", points, size, likely=likely)
    return View(image, size, points, _box(annotation, record.path), mask, name=record.image)


def _text(annotation: Element, key: str) -> str | None:
    text = annotation.findtext(key)
    return None if text is None else text.strip()


def _numbers(attributes: Mapping[str, str], keys: tuple[str, ...], where: str) -> list[float]:
    missing = [key for key in keys if key not in attributes]
    if missing:
        raise InputError(f"{where}: attribute {missing[0]!r} is missing; found: {', '.join(attributes) or 'nothing'}")
    return [number(attributes[key], where, what=key) for key in keys]


def _keypoints(annotation: Element, record: _Record) -> Keypoints:
    """All keypoints of the category; those that are not listed, or listed as hidden, are not visible."""
    names = skeleton(record.category).names
    xy = [(0.0, 0.0)] * len(names)
    visible = [False] * len(names)
    listed = set()
    for point in annotation.iterfind("keypoints/keypoint"):
        name = point.get("name", "")
        where = f"{record.path}: keypoint {name!r}"
        if name not in names:
            raise InputError(f"{where} is not one of a {record.category}: {', '.join(names)}")
        if name in listed:
            raise InputError(f"{where} is listed twice")
        listed.add(name)
        x, y, flag = _numbers(point.attrib, ("x", "y", "visible"), where)
        xy[names.index(name)], visible[names.index(name)] = (x, y), flag > 0
    return keypoints(xy, visible, shift=PIXEL_CENTRE)  # counted from 0


def _box(annotation: Element, path: Path) -> Float[Tensor, "4"]:
    bounds = annotation.find("visible_bounds")
    if bounds is None:
        raise InputError(f"{path}: <visible_bounds> is missing")
    x, y, width, height = _numbers(bounds.attrib, ("xmin", "ymin", "width", "height"), f"{path}: visible_bounds")
    if width <= 0 or height <= 0:
        raise InputError(f"{path}: visible_bounds should have an area, got width {width:g} and height {height:g}")
    return torch.tensor([x, y, x + width, y + height])


def _mask(path: Path, points: Keypoints, size: Size, *, likely: int | None) -> MaskFile | None:
    """The object that most visible keypoints lie on (between equals the likely one, then the first), if any."""
    if not path.is_file():
        return None
    labels = images.read_labels(path)
    if tuple(labels.shape) != size:
        height, width = labels.shape
        raise InputError(f"{path}: {height}×{width} (height×width), but its image is {size[0]}×{size[1]}")
    cells = geometry.cells(points.xy[points.visible], size=size, grid=size)
    counts = Counter(label for label in labels.flatten()[cells].tolist() if label not in _NO_OBJECT)
    if not counts:
        return None
    return MaskFile(path, min(counts, key=lambda label: (-counts[label], label != likely, label)))


def _usable(view: View, *, min_keypoints: int, min_box: float, outlined: bool) -> bool:
    assert view.box is not None
    side = float((view.box[2:] - view.box[:2]).max())
    has_mask = view.mask is not None or not outlined
    return int(view.points.visible.sum()) >= min_keypoints and side >= min_box and has_mask
