"""Mask files: one PNG per annotated object, written once, evaluated against the annotation, attached to views.

An instance is an image and a box in it, and so is its file's name: two animals in an image have two masks.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from jaxtyping import Bool
from PIL import Image as Pillow
from torch import Tensor

from geco import geometry, images
from geco.errors import InputError, MissingFileError
from geco.masks.segmenters import Segmenter
from geco.system import files
from geco.types import MaskFile, View

FOLDER = Path("masks")  # where `geco masks` writes, unless it is told otherwise
RECORD = "masks.json"  # beside the masks: what made them
LONGEST_NAME = 200  # bytes; file systems end at 255
ANY_SIZE = images.ImageLimits(megapixels=math.inf, shortest_side=1)  # the view's own size is the only right one


@dataclass(frozen=True)
class Quality:
    """What the annotation says about one instance's mask."""

    inside: int  # visible keypoints on the mask …
    visible: int  # … of this many
    box: float | None  # share of the box that the mask covers; None: there is no box
    empty: bool


@dataclass(frozen=True)
class Summary:
    """All masks of a folder. Some clicks lie a pixel or two off the outline: 0.95 inside is very good."""

    instances: int
    made: int  # in this run; the others existed
    empty: int
    keypoints_inside: float | None  # share of all visible keypoints
    box_covered: float | None  # mean share over instances
    failures: tuple[str, ...] = ()


def default_folder(dataset: str, maker: str) -> Path:
    """Where `geco masks` writes the masks of a dataset."""
    return FOLDER / f"{dataset}-{maker}"


def made_folders(dataset: str) -> list[Path]:
    """The folders that `geco masks` has made for a dataset in the default place, sorted."""
    records = FOLDER.glob(f"*/{RECORD}")
    return sorted(path.parent for path in records if path.parent.name.rpartition("-")[0] == dataset)


def instances(views: Iterable[View]) -> dict[str, View]:
    """Every annotated object once, by the name of its mask file."""
    by_name: dict[str, View] = {}
    for view in views:
        by_name.setdefault(file_name(view), view)
    return by_name


def file_name(view: View) -> str:
    """`<name>@<x0>-<y0>-<x1>-<y1>.png`, the box in whole pixels; special characters are escaped."""
    if not isinstance(view.name, str) or not view.name:
        raise InputError(f"{view.label} has no name to file its mask under; a loader must give View.name")
    box = "" if view.box is None else "@" + "-".join(str(round(edge)) for edge in view.box.tolist())
    stem = quote(view.name, safe=" ", errors="backslashreplace")
    if len(stem) > LONGEST_NAME:
        raise InputError(f"the name {view.name[:40]}… is too long for a mask's file ({len(stem)} > {LONGEST_NAME})")
    return f"{stem}{box}.png"


# --- making ---------------------------------------------------------------------------------------


def make(
    views: Iterable[View],
    segment: Segmenter,
    folder: str | Path,
    *,
    record: dict[str, Any],
    done: Callable[[str, Quality | None], None] = lambda name, quality: None,
) -> Summary:
    """Write the masks that do not exist yet, one PNG per instance, and evaluate all of them.

    `record` says how masks are made and is stored beside them: a folder made otherwise is refused. `done` is told of
    every instance, None for one that failed; a failure is in the summary and does not stop the others.
    """
    folder = Path(folder)
    _claim(folder, record)
    qualities: list[Quality] = []
    failures: list[str] = []
    written = 0
    for name, view in instances(views).items():
        try:
            mask = read(folder / name, view)
            if mask is None:
                mask = segment(images.load_view(view))
                _write(folder / name, mask)
                written += 1
            qualities.append(quality(view, mask))
            done(name, qualities[-1])
        except (ValueError, OSError) as error:
            failures.append(" ".join(str(error).split()))
            done(name, None)
    return _summary(qualities, written, failures)


def _claim(folder: Path, record: dict[str, Any]) -> None:
    path = folder / RECORD
    if not path.exists():
        files.replace_text(path, json.dumps(record, indent=2) + "\n")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is damaged; remove the folder, or choose another with --out") from None
    if not isinstance(before, dict):
        raise InputError(f"{path} should say how the masks were made; remove the folder, or choose another with --out")
    if before != record:
        raise InputError(
            f"{folder} holds masks made with {_brief(before)}, now asked for {_brief(record)}; "
            "choose another folder with --out"
        )


def _brief(record: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in record.items())[:80]


def _write(path: Path, mask: Bool[Tensor, "h w"]) -> None:
    picture = Pillow.fromarray((mask.to(torch.uint8) * 255).numpy())
    files.replace(path, lambda draft: picture.save(draft, format="PNG", optimize=True))


def _summary(qualities: list[Quality], written: int, failures: list[str]) -> Summary:
    visible = sum(entry.visible for entry in qualities)
    boxes = [entry.box for entry in qualities if entry.box is not None]
    return Summary(
        instances=len(qualities) + len(failures),
        made=written,
        empty=sum(entry.empty for entry in qualities),
        keypoints_inside=sum(entry.inside for entry in qualities) / visible if visible else None,
        box_covered=sum(boxes) / len(boxes) if boxes else None,
        failures=tuple(failures),
    )


def to_look_at(qualities: Mapping[str, Quality], count: int) -> list[str]:
    """Up to `count` names: half of them spread evenly, the others of the masks that miss most of their keypoints."""
    names = list(qualities)
    half = min(count // 2, len(names))
    spread = [names[i * len(names) // half] for i in range(half)]
    worst = sorted(names, key=lambda name: qualities[name].inside / max(1, qualities[name].visible))
    return (spread + [name for name in worst if name not in spread])[:count]


# --- reading --------------------------------------------------------------------------------------


def read(path: Path, view: View) -> Bool[Tensor, "h w"] | None:
    """The view's mask in this file, or None if there is none or a damaged one; one of another size is an error."""
    try:
        mask = images.read_mask(MaskFile(path), limits=ANY_SIZE)
    except (FileNotFoundError, ValueError):
        return None
    if tuple(mask.shape) != view.size:
        raise InputError(
            f"{path}: the mask is {mask.shape[0]}×{mask.shape[1]} (height×width), but its view is "
            f"{view.size[0]}×{view.size[1]}; it was made from another copy of the image: remove it to have it "
            "made again, or use the copy that it fits"
        )
    return mask


def quality(view: View, mask: Bool[Tensor, "h w"]) -> Quality:
    """How well the mask agrees with the view's keypoints and box."""
    inside = visible = 0
    if view.keypoints is not None:
        points = view.keypoints.xy[view.keypoints.visible]
        pixels = geometry.cells(points, size=view.size, grid=view.size)
        inside, visible = int(mask.flatten()[pixels].sum()), len(points)
    box = None
    if view.box is not None:
        height, width = view.size
        x0, y0, x1, y1 = (round(edge) for edge in view.box.tolist())
        covered = mask[max(0, y0) : min(height, y1), max(0, x0) : min(width, x1)]
        box = float(covered.float().mean()) if covered.numel() else 0.0
    return Quality(inside, visible, box, empty=not bool(mask.any()))


# --- attaching ------------------------------------------------------------------------------------


def attach(view: View, folder: Path, *, keep_own: bool = False) -> View:
    """The view with its mask of this folder; with `keep_own`, only if it has none of its own."""
    if keep_own and view.mask is not None:
        return view
    return replace(view, mask=MaskFile(folder / file_name(view), whole=False))


def check_folder(views: Iterable[View], folder: Path, *, keep_own: bool = False) -> None:
    """Raise unless the folder holds the masks of all these views; with `keep_own`, of those without their own."""
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder; make the masks with `geco masks`")
    existing = {entry.name for entry in os.scandir(folder)}
    needed = {file_name(view) for view in views if not (keep_own and view.mask is not None)}
    if missing := sorted(needed - existing):
        raise MissingFileError(
            f"{folder} has no mask for {len(missing)} of {len(needed)} instances, {missing[0]} for one; "
            "make them with `geco masks`"
        )
