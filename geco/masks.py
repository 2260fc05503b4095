"""Foreground masks: made once per instance, kept as PNG files, attached to the pairs of a dataset.

An instance is an image and a box in it, and so is its file's name: two animals in a photograph, two masks.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from jaxtyping import Bool
from PIL import Image as Pillow
from torch import Tensor

from geco import geometry, images
from geco.segmenters import Segmenter
from geco.types import MaskFile, Pair, View

RECORD = "masks.json"  # beside the masks: what made them
LONGEST_NAME = 200  # bytes; file systems end at 255


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
    made: int  # in this run; the others were there
    empty: int
    keypoints_inside: float | None  # share of all visible keypoints
    box_covered: float | None  # mean share over instances
    failures: tuple[str, ...] = ()


def instances(data: Sequence[Pair] | Sequence[View]) -> dict[str, View]:
    """Every annotated object of the data once, by the name of its mask file."""
    found: dict[str, View] = {}
    for view in _views(data):
        found.setdefault(file_name(view), view)
    return found


def file_name(view: View) -> str:
    """`<name>@<x0>-<y0>-<x1>-<y1>.png`, the box in whole pixels; special characters are escaped."""
    if not isinstance(view.name, str) or not view.name:
        raise ValueError(f"{view.image} has no name to file its mask under; a loader must give View.name")
    box = "" if view.box is None else "@" + "-".join(str(round(edge)) for edge in view.box.tolist())
    stem = quote(view.name, safe=" ")
    if len(stem) > LONGEST_NAME:
        raise ValueError(f"the name {view.name[:40]}… is too long for a mask's file ({len(stem)} > {LONGEST_NAME})")
    return f"{stem}{box}.png"


def make(
    data: Sequence[Pair] | Sequence[View],
    segment: Segmenter,
    folder: str | Path,
    *,
    record: dict[str, Any],
    done: Callable[[str, Quality | None], None] = lambda name, quality: None,
) -> Summary:
    """Write the masks that are not there yet, one PNG per instance, and judge all of them.

    `record` says how masks are made and is kept beside them: a folder made otherwise is refused. `done` hears
    of every instance, None for one that failed; a failure is told in the summary and stops no other.
    """
    folder = Path(folder)
    _claim(folder, record)
    judged: list[Quality] = []
    failures: list[str] = []
    made = 0
    for name, view in instances(data).items():
        try:
            mask = read(folder / name, view)
            if mask is None:
                mask = segment(images.load_view(view))
                _write(folder / name, mask)
                made += 1
            judged.append(quality(view, mask))
            done(name, judged[-1])
        except (ValueError, OSError) as error:
            failures.append(" ".join(str(error).split()))
            done(name, None)
    return _summary(judged, made, failures)


def attach(pairs: Sequence[Pair], folder: str | Path, *, keep_own: bool = False) -> "Masked":
    """The pairs with the masks of this folder; with `keep_own`, only where the dataset ships none."""
    return Masked(pairs, Path(folder), keep_own=keep_own)


class Masked(Sequence[Pair]):
    """Pairs of a dataset whose views name the masks of a folder; as lazy and picklable as the dataset is."""

    def __init__(self, pairs: Sequence[Pair], folder: Path, *, keep_own: bool) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder; make the masks with `geco masks`")
        self.pairs, self.folder, self.keep_own = pairs, folder, keep_own
        self.categories: Sequence[str] | None = getattr(pairs, "categories", None)
        there = frozenset(entry.name for entry in os.scandir(folder))
        needed = {name for name, view in instances(pairs).items() if not (keep_own and view.mask is not None)}
        if missing := sorted(needed - there):
            raise FileNotFoundError(
                f"{folder} has no mask for {len(missing)} of {len(needed)} instances, {missing[0]} for one; "
                "make them with `geco masks`"
            )

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]
        pair = self.pairs[index]
        return replace(pair, source=self._masked(pair.source), target=self._masked(pair.target))

    def _masked(self, view: View) -> View:
        if self.keep_own and view.mask is not None:
            return view
        return replace(view, mask=MaskFile(self.folder / file_name(view), whole=False))


# --- one mask -----------------------------------------------------------------------------------------


def read(path: Path, view: View) -> Bool[Tensor, "h w"] | None:
    """The mask in this file, or None if there is none, or a damaged one, or one of another size."""
    try:
        mask = images.read_mask(MaskFile(path))
    except (FileNotFoundError, ValueError):
        return None
    return mask if tuple(mask.shape) == view.size else None


def quality(view: View, mask: Bool[Tensor, "h w"]) -> Quality:
    """How well the mask agrees with the view's keypoints and box."""
    inside = visible = 0
    if view.keypoints is not None:
        seen = view.keypoints.xy[view.keypoints.visible]
        pixel = geometry.cells(seen, size=view.size, grid=view.size)
        inside, visible = int(mask.flatten()[pixel].sum()), len(seen)
    box = None
    if view.box is not None:
        height, width = view.size
        x0, y0, x1, y1 = (round(edge) for edge in view.box.tolist())
        covered = mask[max(0, y0) : min(height, y1), max(0, x0) : min(width, x1)]
        box = float(covered.float().mean()) if covered.numel() else 0.0
    return Quality(inside, visible, box, empty=not bool(mask.any()))


def _write(path: Path, mask: Bool[Tensor, "h w"]) -> None:
    """The PNG appears whole or not at all, so that an interrupted run can be taken up again."""
    part = path.with_suffix(".part")
    Pillow.fromarray((mask.to(torch.uint8) * 255).numpy()).save(part, format="PNG", optimize=True)
    os.replace(part, path)


# --- all masks ----------------------------------------------------------------------------------------


def _views(data: Sequence[Pair] | Sequence[View]) -> Iterable[View]:
    known = getattr(data, "views", None)  # a dataset that keeps each view once saves us its pairs
    for item in data if known is None else known:
        if isinstance(item, View):
            yield item
        else:
            yield item.source
            yield item.target


def _claim(folder: Path, record: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECORD
    if not path.exists():
        path.write_text(json.dumps(record, indent=2) + "\n")
        return
    try:
        before = json.loads(path.read_text())
    except ValueError:
        raise ValueError(f"{path} is damaged; remove the folder, or choose another with --out") from None
    if before != record:
        raise ValueError(
            f"{folder} holds masks made with {_brief(before)}, now asked for {_brief(record)}; "
            "choose another folder with --out"
        )


def _brief(record: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in record.items())


def _summary(judged: list[Quality], made: int, failures: list[str]) -> Summary:
    visible = sum(one.visible for one in judged)
    boxes = [one.box for one in judged if one.box is not None]
    return Summary(
        instances=len(judged) + len(failures),
        made=made,
        empty=sum(one.empty for one in judged),
        keypoints_inside=sum(one.inside for one in judged) / visible if visible else None,
        box_covered=sum(boxes) / len(boxes) if boxes else None,
        failures=tuple(failures),
    )
