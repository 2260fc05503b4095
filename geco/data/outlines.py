"""Outlines: masks written inside a COCO annotation, as polygons or as run lengths (numbers or text)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Bool
from PIL import Image, ImageDraw
from torch import Tensor

from geco import checks, geometry
from geco.data.parsing import numbers
from geco.errors import InputError
from geco.types import Size, View

MOST_PIXELS = 80_000_000  # of an image whose outlines are drawn; polygons need 25 bytes for each
LONGEST_RUN = 60  # bits of a run length


class OutlinedViews(Sequence[View]):
    """Views whose masks are decoded from their annotations when the view is asked for."""

    def __init__(self, views: Sequence[View], outlines: Mapping[int, tuple[Any, str]]) -> None:
        self._views, self._outlines = tuple(views), dict(outlines)

    def __len__(self) -> int:
        return len(self._views)

    @overload
    def __getitem__(self, index: int) -> View: ...
    @overload
    def __getitem__(self, index: slice) -> "OutlinedViews": ...
    def __getitem__(self, index: int | slice) -> "View | OutlinedViews":
        if isinstance(index, slice):
            numbers = range(len(self))[index]
            outlines = {new: self._outlines[old] for new, old in enumerate(numbers) if old in self._outlines}
            return OutlinedViews(self._views[index], outlines)
        view = self._views[index]
        if index % len(self) not in self._outlines:
            return view
        outline, where = self._outlines[index % len(self)]
        size = view.window.size if view.window else view.size
        mask = decode(outline, size, where)
        return replace(view, mask=geometry.cut(mask, view.window.box, beyond="zero") if view.window else mask)


def decode(outline: Any, size: Size, where: str) -> Bool[Tensor, "h w"]:
    """The mask of a COCO `segmentation`: a list of polygons [x, y, x, y, …], or {size, counts}."""
    content = check_outline(outline, size, where)
    return _runs(content, size) if isinstance(outline, Mapping) else _polygons(content, size)


def check_outline(outline: Any, size: Size, where: str) -> list[Any]:
    """The polygons or run lengths of a COCO `segmentation`, without drawing them; raises what is wrong with it."""
    if size[0] * size[1] > MOST_PIXELS:
        raise InputError(f"{where}: a segmentation of {size[0]}×{size[1]} pixels is too large to be drawn; scale down")
    if isinstance(outline, list) and outline:
        return [_points(polygon, size, where) for polygon in outline]
    if isinstance(outline, Mapping) and isinstance(outline.get("counts"), str | list):
        counts = outline["counts"]
        counts = _unpack(counts, where) if isinstance(counts, str) else counts
        if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts):
            raise InputError(f"{where}: the run lengths should be whole numbers ≥ 0, got {checks.shown(counts)}")
        if sum(counts) != size[0] * size[1]:
            total = checks.shown(sum(counts))
            raise InputError(f"{where}: the run lengths cover {total} pixels, the image {size[0]}×{size[1]}")
        return counts
    form = "a list of polygons or {size, counts}"
    raise InputError(f"{where}: segmentation should be {form}, got {checks.shown(outline)}")


def _points(polygon: Any, size: Size, where: str) -> list[float]:
    if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
        raise InputError(f"{where}: a polygon needs at least three points [x, y, x, y, x, y]")
    form = "a polygon of numbers [x, y, x, y, …]"
    points = numbers(polygon, len(polygon), f"{where}: segmentation", form=form)
    for values, side in ((points[0::2], size[1]), (points[1::2], size[0])):
        if min(values) < -side or max(values) > 2 * side:
            raise InputError(f"{where}: a polygon of the segmentation lies outside the image")
    return points


def _polygons(polygons: list[list[float]], size: Size) -> Bool[Tensor, "h w"]:
    fine = 5  # drawn larger and read at the middle of each pixel, because Pillow also fills the outline itself
    canvas = Image.new("1", (size[1] * fine, size[0] * fine))
    for polygon in polygons:
        ImageDraw.Draw(canvas).polygon([c * fine - 0.5 for c in polygon], fill=1)
    return torch.from_numpy(np.array(canvas)[fine // 2 :: fine, fine // 2 :: fine].copy())


def _runs(counts: list[int], size: Size) -> Bool[Tensor, "h w"]:
    """Lengths of the runs of background, object, background, … down the columns."""
    values = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return torch.from_numpy(values.reshape(size[1], size[0]).T.copy())


def _unpack(text: str, where: str) -> list[int]:
    """Run lengths from COCO's text: five bits a character, and from the fourth on only differences."""
    counts: list[int] = []
    value = shift = 0
    for character in text.encode("utf-8", "replace"):
        bits = character - 48
        if not 0 <= bits < 64 or shift > LONGEST_RUN:
            raise InputError(f"{where}: counts of the segmentation is not COCO's text of run lengths")
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:  # the number continues
            continue
        if bits & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts
