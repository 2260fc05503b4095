"""Your own animals or objects: a COCO-keypoints file, a folder of images, and (if need be) a left/right table.

    root/annotations/<split>.json, root/<split>.json or, for all splits together, root/annotations.json
    root/images/<file_name>, root/<split>/<file_name> or root/<file_name>
    root/twins.json    {"left ear": "right ear", …}; without it guessed from left/right in the names

With one file for all splits, 70/15/15 % of the images go to train/val/test, by a hash of their names.
Masks come from `segmentation`, from a field "mask" that names a file in root/masks, or from `geco masks`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from geco import checks
from geco import images as image_files
from geco.data import (
    PIXEL_CENTRE,
    OutlinedViews,
    Pairs,
    box_on,
    check_outline,
    choose,
    draw,
    field,
    hashed_split,
    image_size,
    keypoints,
    named_mask,
    numbers,
    on_image,
    read_json,
    sharing,
    squared,
    tolerating,
)
from geco.datasets.coco.counterparts import skeleton, twin_table
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, MaskFile, Size, View

__all__ = ["SPLITS", "load"]

_T = TypeVar("_T")

SPLITS = ("train", "val", "test")
SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}


@dataclass(frozen=True)
class _Instance:
    where: str
    image: dict[str, Any]
    category: str
    record: dict[str, Any]
    names: tuple[str, ...]
    marks: tuple[float, ...]  # x, y, v of each name, one after the other


def load(
    root: str | Path,
    split: str,
    *,
    annotations: str | Path | None = None,
    images: str | Path | None = None,
    twins: str | Path | None = None,
    n_pairs: int = 10_000,
    seed: int = 0,
    categories: str = "same",
    origin: str = "auto",
    crop: str = "none",
    margin: float = 0.1,
    min_keypoints: int = 3,
    min_shared: int = 3,
    faults: list[str] | None = None,
) -> Pairs:
    """Random pairs of instances in different images, of one category or (`categories="any"`) of any.

    `annotations`, `images` and `twins` name other places than the usual ones. `origin` says what a coordinate
    means: "index" of a pixel, distance from the image's "corner", or "auto": what the file says in its
    `info` under `keypoint_origin`, else index if all are whole numbers.
    `crop="square"` shows only a square around each box and a margin (a share of the box). `split="all"` takes
    every image. `faults`: collects what is wrong, which is left out, instead of raising.
    """
    root = Path(root)
    choose(split, (*SPLITS, "all"), what="split")
    choose(categories, ("same", "any"), what="categories")
    choose(origin, ("auto", "index", "corner"), what="origin")
    choose(crop, ("none", "square"), what="crop")
    checks.whole(min_keypoints, "min_keypoints", least=0)
    path, shared_file = _annotation_file(root, split, annotations)
    content = read_json(path, what="COCO keypoint annotations")
    instances = []
    for instance in _instances(content, path, faults):
        name = str(instance.image["file_name"])
        if not shared_file or split == "all" or hashed_split(name, SHARES) == split:
            instances.append(instance)
    marks = _Marks.of(instances, _origin(content, origin))
    views: list[View] = []
    used: list[_Instance] = []
    outlines: dict[int, tuple[Any, str]] = {}
    for instance in instances:
        with tolerating(faults):
            view = _view(root, split, images, instance, marks)
            if int(view.points.visible.sum()) < max(1, min_keypoints):
                continue
            if view.mask is None and instance.record.get("segmentation"):
                check_outline(instance.record["segmentation"], view.size, instance.where)
                outlines[len(views)] = (instance.record["segmentation"], instance.where)
            views.append(squared(view, margin=margin) if crop == "square" else view)
            used.append(instance)
    names = {instance.category: instance.names for instance in used}
    table = twin_table(root, twins)
    skeletons = {category: skeleton(points, table) for category, points in names.items()}
    rows = draw(_groups(used, categories), count=n_pairs, seed=seed, fits=sharing(views, shared=min_shared))
    labels = ["any" if categories == "any" else used[i].category for i, _ in rows]
    return Pairs(OutlinedViews(views, outlines), rows, labels, [skeletons[used[i].category] for i, _ in rows])


# --- the file ---------------------------------------------------------------------------------------


def _annotation_file(root: Path, split: str, given: str | Path | None) -> tuple[Path, bool]:
    """The annotation file, and whether it holds all splits together."""
    if given is not None:
        path = root / str(given).replace("{split}", split)
        if not checks.is_file(path):
            raise MissingFileError(f"{path}: no such file; expected COCO keypoint annotations")
        return path, "{split}" not in str(given)
    for place in (f"annotations/{split}.json", f"{split}.json"):
        if (root / place).is_file():
            return root / place, False
    if (root / "annotations.json").is_file():
        return root / "annotations.json", True
    raise MissingFileError(
        f"{root}: found none of annotations/{split}.json, {split}.json, annotations.json; "
        "put the COCO keypoint annotations there, or say where they are with `annotations`"
    )


def _instances(content: Any, path: Path, faults: list[str] | None) -> Iterator[_Instance]:
    records = _by_id(content, "images", path, faults, _image_record)
    kinds = _by_id(content, "categories", path, faults, _kind)
    for number, record in enumerate(field(content, "annotations", list, str(path))):
        where = f"{path}: annotations[{number}]"
        with tolerating(faults):
            image, kind = (field(record, key, (int, str), where) for key in ("image_id", "category_id"))
            if record.get("iscrowd", 0) not in (0, 1, None):
                raise InputError(f"{where}: iscrowd should be 0 or 1, got {checks.shown(record['iscrowd'])}")
            if record.get("iscrowd") or record.get("keypoints") in (None, []):
                continue
            if image not in records:
                raise InputError(f"{where}: image_id {checks.shown(image)} is not among the file's images")
            if kind not in kinds:
                raise InputError(f"{where}: category_id {checks.shown(kind)} is not among the file's categories")
            name, names = kinds[kind]
            marks = _flat(record["keypoints"], len(names), f"{where}: keypoints")
            yield _Instance(where, records[image], name, record, names, marks)


def _by_id(
    content: Any, key: str, path: Path, faults: list[str] | None, read: Callable[[Any, str], _T]
) -> dict[int | str, _T]:
    """What `read` makes of each entry of a list, by its id; an id that another entry has already is a fault."""
    entries: dict[int | str, _T] = {}
    for number, record in enumerate(field(content, key, list, str(path))):
        where = f"{path}: {key}[{number}]"
        with tolerating(faults):
            identity, entry = field(record, "id", (int, str), where), read(record, where)
            if identity in entries:
                raise InputError(f"{where}: the id {checks.shown(identity)} stands there twice")
            entries[identity] = entry
    return entries


def _image_record(record: Any, where: str) -> dict[str, Any]:
    field(record, "file_name", str, where)
    return dict(record)


def _kind(record: Any, where: str) -> tuple[str, tuple[str, ...]]:
    names = tuple(str(name) for name in field(record, "keypoints", list, where))
    return field(record, "name", str, where), names


# --- keypoints --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Marks:
    """How this file writes points: what is added to a coordinate, and from which flag on a point is visible."""

    shift: float
    visible_from: float

    @staticmethod
    def of(instances: list[_Instance], origin: str) -> "_Marks":
        whole = all(value.is_integer() for instance in instances for value in instance.marks)
        # COCO: 0 not marked, 1 marked but hidden, 2 visible. Files that never say 2 mean visible by 1.
        flags = {value for instance in instances for value in instance.marks[2::3]}
        is_index = origin == "index" or (origin == "auto" and whole)
        return _Marks(PIXEL_CENTRE if is_index else 0.0, 2 if 2 in flags else 1)


def _origin(content: Any, given: str) -> str:
    """What the user says, or the file in its `info`, as those that geco writes do."""
    info = content.get("info") if isinstance(content, dict) else None
    told = info.get("keypoint_origin") if isinstance(info, dict) else None
    return told if given == "auto" and told in ("index", "corner") else given


def _flat(marks: Any, count: int, where: str) -> tuple[float, ...]:
    """x, y, v of every keypoint in one list; [[x, y, v], …] is understood as well."""
    if isinstance(marks, list) and marks and all(isinstance(mark, list) and len(mark) == 3 for mark in marks):
        marks = [value for mark in marks for value in mark]
    if isinstance(marks, list) and len(marks) == 3 * count:
        # Where nothing is marked, some files write NaN.
        marks = [0 if marks[i // 3 * 3 + 2] == 0 and mark != mark else mark for i, mark in enumerate(marks)]
    return tuple(numbers(marks, 3 * count, where, form=f"{count} × (x, y, v) in one list"))


def _view(root: Path, split: str, images: str | Path | None, instance: _Instance, marks: _Marks) -> View:
    record, where = instance.record, instance.where
    file = instance.image["file_name"]
    path = _image_file(root, split, images, file, where)
    width, height = instance.image.get("width"), instance.image.get("height")
    size = image_size(height, width, f"{where}: its image") if width and height else image_files.size_of(path)
    flat = instance.marks
    xy = list(zip(flat[0::3], flat[1::3], strict=True))
    points = on_image(keypoints(xy, [v >= marks.visible_from for v in flat[2::3]], shift=marks.shift), size)
    mask = named_mask(root / "masks", record.get("mask"), where)
    box = _box(record, points, size, where)
    return View(path, size, points, box, mask, name=str(Path(file).with_suffix("").as_posix()))


def _image_file(root: Path, split: str, images: str | Path | None, file: str, where: str) -> Path:
    folders = [root / images] if images is not None else [root / "images", root / split, root]
    for folder in folders:
        if checks.is_file(folder / file):
            return folder / file
    raise MissingFileError(f"{folders[0] / file}: no such file; {where} needs it")


def _box(record: dict[str, Any], points: Keypoints, size: Size, where: str) -> Float[Tensor, "4"]:
    """The box as (x0, y0, x1, y1); without one, the extent of the visible keypoints."""
    if "bbox" in record:
        x, y, width, height = numbers(record["bbox"], 4, f"{where}: bbox", form="[x, y, width, height]")
        return box_on(size, (x, y, x + width, y + height), where)
    visible = points.xy[points.visible]
    return torch.cat([visible.amin(0), visible.amax(0)]) if len(visible) else torch.zeros(4)


def _groups(instances: list[_Instance], categories: str) -> list[list[int]]:
    if categories == "any":
        if len({instance.names for instance in instances}) > 1:
            raise InputError("categories='any' needs the same keypoints in every category; use categories='same'")
        return [list(range(len(instances)))]
    kinds = [instance.category for instance in instances]
    return [[i for i, kind in enumerate(kinds) if kind == wanted] for wanted in sorted(set(kinds))]
