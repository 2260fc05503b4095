"""Your own animals or things: a COCO-keypoints file, a folder of images, and (if need be) a left/right table.

    root/annotations/<split>.json, root/<split>.json or, for all splits together, root/annotations.json
    root/images/<file_name>, root/<split>/<file_name> or root/<file_name>
    root/twins.json    {"left ear": "right ear", …}; without it guessed from left/right in the names

With one file for all splits, 70/15/15 % of the photographs go to train/val/test, by a hash of their names.
Masks come from `segmentation`, from a field "mask" that names a file in root/masks, or from `geco masks`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import images as image_files
from geco.data import (
    PIXEL_CENTRE,
    OutlinedViews,
    Pairs,
    choose,
    draw,
    field,
    guess_twins,
    hashed_split,
    involution,
    keypoints,
    mask_file,
    numbers,
    on_image,
    read_json,
    sharing,
    squared,
    tolerating,
)
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, MaskFile, Skeleton, View

SPLITS = ("train", "val", "test")
SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}


@dataclass(frozen=True)
class _Instance:
    where: str
    image: dict[str, Any]
    category: str
    record: dict[str, Any]
    names: tuple[str, ...]


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
    """Random pairs of instances in different photographs, of one category or (`categories="any"`) of any.

    `annotations`, `images` and `twins` name other places than the usual ones. `origin` says what a coordinate
    means: "index" of a pixel, distance from the image's "corner", or "auto": index if all are whole numbers.
    `crop="square"` shows only a square around each box and a margin (a share of the box). `split="all"` takes
    every photograph. `faults`: collects what is wrong, which is left out, instead of raising.
    """
    root = Path(root)
    choose(split, (*SPLITS, "all"), what="split")
    choose(categories, ("same", "any"), what="categories")
    choose(origin, ("auto", "index", "corner"), what="origin")
    choose(crop, ("none", "square"), what="crop")
    path, shared_file = _annotation_file(root, split, annotations)
    content = read_json(path, what="COCO keypoint annotations")
    instances = []
    for instance in _instances(content, path, faults):
        name = str(instance.image["file_name"])
        if not shared_file or split == "all" or hashed_split(name, SHARES) == split:
            instances.append(instance)
    marks = _Marks.of(instances, origin)
    views: list[View] = []
    used: list[_Instance] = []
    outlines: dict[int, tuple[Any, str]] = {}
    for instance in instances:
        with tolerating(faults):
            view = _view(root, split, images, instance, marks)
            if int(view.points.visible.sum()) < max(1, min_keypoints):
                continue
            if view.mask is None and instance.record.get("segmentation"):
                outlines[len(views)] = (instance.record["segmentation"], instance.where)
            views.append(squared(view, margin=margin) if crop == "square" else view)
            used.append(instance)
    skeletons = _skeletons(used, _twin_table(root, twins))
    rows = draw(_groups(used, categories), count=n_pairs, seed=seed, fits=sharing(views, shared=min_shared))
    labels = ["any" if categories == "any" else used[i].category for i, _ in rows]
    return Pairs(OutlinedViews(views, outlines), rows, labels, [skeletons[used[i].category] for i, _ in rows])


# --- the file ---------------------------------------------------------------------------------------


def _annotation_file(root: Path, split: str, given: str | Path | None) -> tuple[Path, bool]:
    """The annotation file, and whether it holds all splits together."""
    if given is not None:
        path = root / str(given).replace("{split}", split)
        if not path.is_file():
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
    photographs = {}
    for number, image in enumerate(field(content, "images", list, str(path))):
        where = f"{path}: images[{number}]"
        field(image, "file_name", str, where)
        photographs[field(image, "id", (int, str), where)] = image
    kinds = {}
    for number, kind in enumerate(field(content, "categories", list, str(path))):
        where = f"{path}: categories[{number}]"
        names = tuple(str(name) for name in field(kind, "keypoints", list, where))
        kinds[field(kind, "id", (int, str), where)] = (field(kind, "name", str, where), names)
    for number, record in enumerate(field(content, "annotations", list, str(path))):
        where = f"{path}: annotations[{number}]"
        with tolerating(faults):
            if record.get("iscrowd") or not record.get("keypoints"):
                continue
            image, kind = (field(record, key, (int, str), where) for key in ("image_id", "category_id"))
            if image not in photographs:
                raise InputError(f"{where}: image_id {image!r} is not among the file's images")
            if kind not in kinds:
                raise InputError(f"{where}: category_id {kind!r} is not among the file's categories")
            yield _Instance(where, photographs[image], kinds[kind][0], record, kinds[kind][1])


# --- keypoints --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Marks:
    """How this file writes points: what is added to a coordinate, and from which flag on a point is visible."""

    shift: float
    visible_from: float

    @staticmethod
    def of(instances: list[_Instance], origin: str) -> "_Marks":
        values = [v for instance in instances for v in instance.record["keypoints"] if isinstance(v, int | float)]
        whole = all(float(v).is_integer() for v in values)
        # COCO: 0 not marked, 1 marked but hidden, 2 visible. Files that never say 2 mean visible by 1.
        flags = {v for i in instances for v in i.record["keypoints"][2::3]}
        is_index = origin == "index" or (origin == "auto" and whole)
        return _Marks(PIXEL_CENTRE if is_index else 0.0, 2 if 2 in flags else 1)


def _view(root: Path, split: str, images: str | Path | None, instance: _Instance, marks: _Marks) -> View:
    record, where = instance.record, instance.where
    file = instance.image["file_name"]
    path = _image_file(root, split, images, file, where)
    width, height = instance.image.get("width"), instance.image.get("height")
    size = (int(height), int(width)) if width and height else image_files.size_of(path)
    form = f"{len(instance.names)} × (x, y, v) in one list"
    flat = numbers(record["keypoints"], 3 * len(instance.names), f"{where}: keypoints", form=form)
    xy = list(zip(flat[0::3], flat[1::3], strict=True))
    points = on_image(keypoints(xy, [v >= marks.visible_from for v in flat[2::3]], shift=marks.shift), size)
    mask = _mask(root, record.get("mask"), where)
    return View(path, size, points, _box(record, points, where), mask, name=str(Path(file).with_suffix("").as_posix()))


def _image_file(root: Path, split: str, images: str | Path | None, file: str, where: str) -> Path:
    folders = [root / images] if images is not None else [root / "images", root / split, root]
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    raise MissingFileError(f"{folders[0] / file}: no such file; {where} needs it")


def _box(record: dict[str, Any], points: Keypoints, where: str) -> Float[Tensor, "4"]:
    """The box as (x0, y0, x1, y1); without one, the extent of the visible keypoints."""
    if "bbox" in record:
        x, y, width, height = numbers(record["bbox"], 4, f"{where}: bbox", form="[x, y, width, height]")
        return torch.tensor([x, y, x + width, y + height])
    visible = points.xy[points.visible]
    return torch.cat([visible.amin(0), visible.amax(0)]) if len(visible) else torch.zeros(4)


def _mask(root: Path, name: str | None, where: str) -> MaskFile | None:
    if name is None:
        return None
    mask = mask_file(root / "masks", name)
    if mask is None:
        raise MissingFileError(f"{root / 'masks' / name}: no such file; {where}: key 'mask' names it")
    return mask


# --- counterparts -----------------------------------------------------------------------------------


def _twin_table(root: Path, given: str | Path | None) -> tuple[Path, dict[str, dict[str, str]]] | None:
    """The tables "twin" and "mirror" of the left/right file, if there is one; a flat table is both."""
    path = root / (given or "twins.json")
    if given is None and not path.is_file():
        return None
    form = 'a table {"left ear": "right ear", …} or {"twin": {…}, "mirror": {…}}'
    table = read_json(path, what=form)
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected {form}, got {type(table).__name__}")
    tables = table if table and set(table) <= {"twin", "mirror"} else {"twin": table, "mirror": table}
    return path, {label: tables.get(label, {}) for label in ("twin", "mirror")}


def _skeletons(instances: list[_Instance], given: tuple[Path, dict[str, dict[str, str]]] | None) -> dict[str, Skeleton]:
    return {category: _skeleton(names, given) for category, names in {i.category: i.names for i in instances}.items()}


def _skeleton(names: tuple[str, ...], given: tuple[Path, dict[str, dict[str, str]]] | None) -> Skeleton:
    if given is None:
        pairs = guess_twins(names)
        table = involution(len(names), pairs)
        # Without any left/right in the names nobody knows what a flip exchanges, so there is none.
        return Skeleton(names, table, table if pairs else None)
    path, tables = given
    twin, mirror = (involution(len(names), _named_pairs(names, tables[label], path)) for label in ("twin", "mirror"))
    return Skeleton(names, twin, mirror)


def _named_pairs(names: tuple[str, ...], table: dict[str, str], path: Path) -> list[tuple[int, int]]:
    for name in (*table, *table.values()):
        if name not in names:
            raise InputError(f"{path}: there is no keypoint {name!r}; the keypoints are {', '.join(names)}")
    pairs = sorted({tuple(sorted((names.index(a), names.index(b)))) for a, b in table.items()})
    rows = [row for pair in pairs for row in pair]
    twice = next((names[row] for row in rows if rows.count(row) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: {twice!r} has two counterparts, or is its own; give each keypoint one")
    return [(i, j) for i, j in pairs]


def _groups(instances: list[_Instance], categories: str) -> list[list[int]]:
    if categories == "any":
        if len({instance.names for instance in instances}) > 1:
            raise InputError("categories='any' needs the same keypoints in every category; use categories='same'")
        return [list(range(len(instances)))]
    kinds = [instance.category for instance in instances]
    return [[i for i, kind in enumerate(kinds) if kind == wanted] for wanted in sorted(set(kinds))]
