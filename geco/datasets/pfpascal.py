"""PF-PASCAL (Ham et al. 2018): pairs of PASCAL VOC images of 20 classes, in the usual 2,940/308/299 split.

    root/{train,val,test}_pairs_pf_pascal.csv    root/JPEGImages/<image>.jpg
    root/Annotations/<class>/<image>.mat         (root may be the folder above PF-dataset-PASCAL)

Rows that carry keypoints (columns XA, YA, XB, YB) are taken as they are; for the others the points are those
of the .mat files, where row i is the same point in every image of a class. The points have no names: none has
a counterpart, and augmentation flips nothing. A row with flip = 1 shows both images mirrored.

The points were marked on images whose longest side is 300 pixels, as the release has them. Copies of the
dataset with the larger images of PASCAL VOC exist; there the points are scaled with the image.
"""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import checks, geometry, images
from geco.data import (
    MATLAB_CENTRE,
    VOC_CLASSES,
    PairBuilder,
    Pairs,
    benchmark_images,
    choose,
    keypoints,
    mask_file,
    matrix,
    number,
    numbers,
    read_text,
    tolerating,
)
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, View, Window

SPLITS = ("train", "val", "test")
PUBLISHED = {"train": {"pairs": 2940}, "val": {"pairs": 308}, "test": {"pairs": 299}}
MARKED_SIDE = 300  # pixels: the longest side of the images on which the points were marked
_COLUMNS = ("source_image", "target_image", "class")
_POINTS = ("XA", "YA", "XB", "YB")


def load(
    root: str | Path,
    split: str,
    *,
    masks: str | Path | None = None,
    spare_benchmarks: bool = True,
    faults: list[str] | None = None,
) -> Pairs:
    """Pairs in the order of the csv file; one image has the same name in all its pairs.

    `masks`: a folder of VOC class masks, `<image>.png`. `spare_benchmarks`: the training split leaves out pairs
    with an image that a validation or test list has, of this or another dataset (`data.benchmark_lists`).
    `faults`: collects what is wrong and leaves those pairs out, instead of raising.
    """
    root = Path(root)
    choose(split, SPLITS, what="split")
    root = root / "PF-dataset-PASCAL" if (root / "PF-dataset-PASCAL").is_dir() else root
    builder = PairBuilder(partial(_view, root, Path(masks) if masks else None), faults)
    spared = benchmark_images() if split == "train" and spare_benchmarks else frozenset()
    with tolerating(faults):
        for where, cells in _rows(root / f"{split}_pairs_pf_pascal.csv"):
            with tolerating(faults):
                category = _category(cells, where)
                _check_points(cells, where)
                flip = cells.get("flip", "0").strip()
                source, target = (
                    (category, Path(cells[image]).name, flip, cells.get(x, ""), cells.get(y, ""))
                    for image, x, y in (("source_image", "XA", "YA"), ("target_image", "XB", "YB"))
                )
                if spared.isdisjoint(Path(cells[image]).stem for image in ("source_image", "target_image")):
                    builder.add(source, target, category)
    return builder.pairs()


def variants(split: str) -> list[dict[str, Any]]:
    """The options that `geco data check` counts a split with: all that was published."""
    return [{"spare_benchmarks": False}]


# --- the table --------------------------------------------------------------------------------------


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(where it stands, cells by column) of each pair."""
    reader = csv.DictReader(read_text(path, what="a table source_image,target_image,class,…").splitlines())
    try:
        columns = reader.fieldnames or ()
        for column in _COLUMNS:
            if column not in columns:
                raise InputError(
                    f"{path}:1: column {column!r} is missing; found {', '.join(columns)[:80] or 'nothing'}"
                )
        for cells in reader:
            yield f"{path}:{reader.line_num}", cells
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not a table ({error}); get the file again") from None


def _category(cells: dict[str, str], where: str) -> str:
    if None in cells or None in cells.values():
        raise InputError(f"{where}: expected {len(cells)} cells ({', '.join(map(str, cells))}); is the line cut short?")
    kind = cells["class"].strip()
    if not kind.isdecimal() or not 1 <= int(kind[:9]) <= len(VOC_CLASSES):
        raise InputError(f"{where}: class should be a number from 1 to {len(VOC_CLASSES)}, got {checks.shown(kind)}")
    return VOC_CLASSES[int(kind) - 1]


def _check_points(cells: dict[str, str], where: str) -> None:
    """Whether the row's points, if the table has columns for them, are numbers and equally many."""
    existing = [column for column in _POINTS if column in cells]
    if not existing:
        return
    if len(existing) < len(_POINTS):
        raise InputError(
            f"{where}: expected the columns {', '.join(_POINTS)} or none of them, got {', '.join(existing)}"
        )
    lengths = [len([number(v, where, what=column) for v in cells[column].split(";")]) for column in _POINTS]
    if len(set(lengths)) > 1:
        raise InputError(f"{where}: XA, YA, XB, YB differ in length: {', '.join(map(str, lengths))}")


# --- one image --------------------------------------------------------------------------------------


def _view(root: Path, masks: Path | None, category: str, file: str, flip: str, x: str, y: str) -> View:
    """The view with the csv's points or, if there are none, those of its .mat file.

    The box is the .mat file's; where there is only the csv, the extent of its points.
    """
    path = root / "JPEGImages" / file
    if not checks.is_file(path):
        raise MissingFileError(f"{path}: no such file; the list of pairs names it")
    size = images.size_of(path)
    has_annotation = checks.is_file(_annotation(root, category, file))
    if x:
        xy = list(zip(map(float, x.split(";")), map(float, y.split(";")), strict=True))
        # Marked in MATLAB, where the centre of the first pixel is (1, 1).
        points = keypoints(xy, [True] * len(xy), shift=MATLAB_CENTRE)
        extent = torch.cat([points.xy.amin(0), points.xy.amax(0)])
        box = _marked(root, category, file)[1] if has_annotation else extent
    else:
        points, box = _marked(root, category, file)
    scale = max(1.0, max(size) / MARKED_SIDE)  # images smaller than that were marked as they are
    points = Keypoints(points.xy * scale, points.visible)
    mask = mask_file(masks, f"{path.stem}.png", label=VOC_CLASSES.index(category) + 1)
    box = box * scale
    view = View(path, size, points, box, mask, name=path.stem)
    return _mirrored(view, box) if flip == "1" else view


def _annotation(root: Path, category: str, file: str) -> Path:
    return root / "Annotations" / category / Path(file).with_suffix(".mat").name


def _marked(root: Path, category: str, file: str) -> tuple[Keypoints, Float[Tensor, "4"]]:
    """All points of the image's class, those not marked in this image invisible, and its box."""
    path = _annotation(root, category, file)
    rows, box = matrix(path, "kps"), matrix(path, "bbox")
    if rows.ndim != 2 or rows.shape[1] != 2 or box.size != 4:
        raise InputError(f"{path}: expected kps n×2 and bbox 1×4, got {rows.shape} and {box.shape}")
    visible = [bool(marked) for marked in (rows == rows).all(1)]  # NaN: not marked in this image
    corners = numbers(box.reshape(4).tolist(), 4, f"{path}: bbox", form="[x0, y0, x1, y1]")
    for row, marked in zip(rows.tolist(), visible, strict=True):
        if marked:
            numbers(row, 2, f"{path}: kps", form="[x, y] or NaN")
    return keypoints(rows.tolist(), visible, shift=MATLAB_CENTRE), torch.tensor(corners)


def _mirrored(view: View, box: Float[Tensor, "4"]) -> View:
    """The view in a mirror, when it is read. Both images of the row are, so row i still is the same point."""
    height, width = view.size
    same = tuple(range(len(view.points.visible)))
    return replace(
        view,
        keypoints=geometry.flip_keypoints(view.points, width=width, mirror=same),
        box=torch.stack([width - box[2], box[1], width - box[0], box[3]]),
        name=f"{view.name}@mirrored",
        window=Window((0, 0, width, height), view.size, flipped=True),
    )
