"""PASCAL-Part (Chen et al. 2014): part masks for the 10,103 train and val images of PASCAL VOC 2010.

    root/Parts/Annotations_Part/<image>.mat                 root/VOCdevkit/VOC2010/JPEGImages/<image>.jpg
    root/VOCdevkit/VOC2010/ImageSets/Main/{train,val}.txt   (root may be the folder above PASCAL-VOC)

Views, not pairs: images with exactly one object, with its mask and its part map. VOC's train list is the
training split and its val list the test split, so no image is in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from geco import checks
from geco.data import choose, hashed_split, matlab, read_text, tolerating
from geco.datasets.pascal_part.parts import CATEGORIES, part_table
from geco.errors import InputError, MissingFileError
from geco.types import Size, Skeleton, View

__all__ = ["CATEGORIES", "PUBLISHED", "SPLITS", "PartViews", "load", "part_table"]

SPLITS = ("train", "test")
PUBLISHED = {"train": {"listed": 4998}, "test": {"listed": 5105}}


@dataclass(frozen=True)
class _Object:
    annotation: Path
    image: Path
    category: str
    size: Size


class PartViews(Sequence[View]):
    """Views with `parts`: 0 is no part, i the part `skeletons[category].names[i − 1]`; read when asked for.

    `categories[i]` is the category of view i; `listed` counts the images of the split before the choice of
    those with one object.
    """

    def __init__(self, objects: Sequence[_Object], listed: int) -> None:
        self._objects = tuple(objects)
        self.listed = listed
        self.categories = tuple(entry.category for entry in objects)

    @property
    def skeletons(self) -> Mapping[str, Skeleton]:
        """Part names and counterparts of the categories of these views."""
        return {category: part_table(category) for category in sorted(set(self.categories))}

    def __len__(self) -> int:
        return len(self._objects)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> "PartViews": ...
    def __getitem__(self, index: int | slice) -> "View | PartViews":
        if isinstance(index, slice):
            return PartViews(self._objects[index], self.listed)
        return _view(self._objects[index])

    def __repr__(self) -> str:
        return f"PartViews({len(self)} views of {self.listed} images, {len(set(self.categories))} categories)"


def load(
    root: str | Path,
    split: str,
    *,
    lists: str = "voc",
    categories: str | Sequence[str] | None = None,
    faults: list[str] | None = None,
) -> PartViews:
    """The images of a split that show exactly one object, sorted by name.

    `lists="hash"` splits the images that exist in two halves by a hash of their names, where VOC's lists are
    missing. `categories`: only these (a list, or names with commas). `faults`: collects what is wrong, which
    is left out. Every annotation is opened once here, about 20 ms each.
    """
    choose(split, SPLITS, what="split")
    wanted = categories.split(",") if isinstance(categories, str) else categories
    for category in wanted or ():
        part_table(category)
    root = Path(root)
    root = root / "PASCAL-VOC" if (root / "PASCAL-VOC").is_dir() else root
    objects = []
    names = _listed(root, split, choose(lists, ("voc", "hash"), what="lists"))
    for name in names:
        with tolerating(faults):
            single = _single_object(root, name)
            if single is not None and (wanted is None or single.category in wanted):
                objects.append(single)
    return PartViews(objects, len(names))


def _listed(root: Path, split: str, lists: str) -> list[str]:
    if lists == "hash":
        folder = root / "Parts" / "Annotations_Part"
        if not folder.is_dir():
            raise MissingFileError(f"{folder}: no such folder; expected the .mat files of PASCAL-Part")
        names = sorted(path.stem for path in folder.glob("*.mat"))
        return [name for name in names if hashed_split(name, {"train": 0.5, "test": 0.5}) == split]
    file = "train.txt" if split == "train" else "val.txt"
    path = root / "VOCdevkit" / "VOC2010" / "ImageSets" / "Main" / file
    text = read_text(path, what="VOC 2010's list of images (or load with lists='hash', which needs none)")
    return sorted(line.split()[0] for line in text.splitlines() if line.strip())


def _objects(path: Path) -> list[Any]:
    annotation = matlab(path, "anno", structs=True)
    if not hasattr(annotation, "objects"):
        raise InputError(f"{path}: anno has no field 'objects'")
    return list(np.atleast_1d(annotation.objects))


def _single_object(root: Path, name: str) -> _Object | None:
    """The image's object, if there is only one."""
    path = root / "Parts" / "Annotations_Part" / f"{name}.mat"
    objects = _objects(path)
    if len(objects) != 1:
        return None
    _check_object(objects[0], path)
    image = root / "VOCdevkit" / "VOC2010" / "JPEGImages" / f"{name}.jpg"
    if not checks.is_file(image):
        raise MissingFileError(f"{image}: no such file; {path.name} describes it")
    kind = str(getattr(objects[0], "class"))
    category = {"table": "diningtable"}.get(kind, kind)
    if category not in CATEGORIES:
        raise InputError(f"{path}: class should be one of {', '.join(CATEGORIES)}, got {checks.shown(kind)}")
    _part_map(objects[0], category, path)
    height, width = objects[0].mask.shape
    return _Object(path, image, category, (height, width))


def _check_object(annotated: Any, path: Path) -> None:
    """Raise unless the object has a class, a mask with an area, and parts that are masks of its size."""
    for key in ("class", "mask", "parts"):
        if not hasattr(annotated, key):
            raise InputError(f"{path}: the object has no field {key!r}")
    _check_mask(annotated.mask, path, what="the object")
    for part in np.atleast_1d(annotated.parts):
        if not hasattr(part, "part_name") or not hasattr(part, "mask"):
            raise InputError(f"{path}: a part should have part_name and mask, got {checks.shown(part)}")
        _check_mask(part.mask, path, what=f"the part {checks.shown(part.part_name)}")
        if part.mask.shape != annotated.mask.shape:
            shapes = f"{part.mask.shape}, the object's {annotated.mask.shape}"
            raise InputError(f"{path}: the mask of the part {checks.shown(part.part_name)} is {shapes}")


def _check_mask(mask: Any, path: Path, *, what: str) -> None:
    if not isinstance(mask, np.ndarray) or mask.ndim != 2 or not mask.size or mask.dtype.kind not in "biuf":
        kind = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else checks.shown(mask)
        raise InputError(f"{path}: the mask of {what} should be a matrix of 0 and 1, got {kind}")


def _view(entry: _Object) -> View:
    annotated = _objects(entry.annotation)[0]
    mask = torch.from_numpy(annotated.mask.astype(bool))
    parts = _part_map(annotated, entry.category, entry.annotation)
    rows, columns = mask.any(1).nonzero()[:, 0], mask.any(0).nonzero()[:, 0]
    box = None
    if len(rows):
        box = torch.tensor([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], dtype=torch.float32)
    return View(entry.image, entry.size, box=box, mask=mask, parts=parts, name=entry.image.stem)


def _part_map(annotated: Any, category: str, path: Path) -> Int[Tensor, "h w"]:
    """Label of the last part in the table that covers each pixel; object pixels may have none."""
    names = part_table(category).names
    if names == ("fg",):
        return torch.from_numpy(annotated.mask.astype(np.int64))
    labels = np.zeros(annotated.mask.shape, dtype=np.int64)
    for part in np.atleast_1d(annotated.parts):
        if str(part.part_name) not in names:
            part_name = checks.shown(part.part_name)
            raise InputError(f"{path}: a {category} has no part {part_name}; it has {', '.join(names)}")
        np.maximum(labels, part.mask.astype(np.int64) * (names.index(str(part.part_name)) + 1), out=labels)
    return torch.from_numpy(labels)
