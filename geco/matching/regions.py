"""Parts of images: a box whose crop is encoded, a mask of the object; points go to the crop and come back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from geco import checks, geometry, images
from geco.errors import InputError
from geco.matching.scorer import check_mask
from geco.types import FeatureMap, MaskFile, Matches, Size

Box = tuple[float, float, float, float]  # (x0, y0, x1, y1)
Mask = str | Path | MaskFile | Bool[np.ndarray, "h w"] | Bool[Tensor, "h w"]


@dataclass(frozen=True)
class Region:
    """An image of which only a part is looked at.

    `box` (x0, y0, x1, y1), in pixels, is cut out before it is encoded, so that a small object is seen at the encoder's
    full resolution; what lies beyond the image is cut off. `mask` are the object's pixels, of the whole image: a file
    by the rules of `MaskFile`, or an array or tensor of truth values. Points stay those of the whole image.
    """

    image: images.Readable | FeatureMap
    box: Box | None = None
    mask: Mask | None = None

    def __post_init__(self) -> None:
        if self.box is not None:
            _check_box(self.box)
            if isinstance(self.image, FeatureMap):
                raise InputError("a box is cut out before an image is encoded; give the image, not its feature map")


@dataclass(frozen=True)
class Placed:
    """What of an image is encoded: its pixels (or whatever can be read, or features), from where in it, with a mask."""

    image: images.Readable | FeatureMap
    offset: tuple[int, int] | None = None  # (x, y) of the crop's corner, if it is one
    mask: Bool[Tensor, "h w"] | None = None  # of the crop

    def inward(self, xy: Float[Tensor, "k 2"]) -> Float[Tensor, "k 2"]:
        """Points of the whole image as points of what is encoded."""
        return xy if self.offset is None else xy - xy.new_tensor(self.offset)

    def outward(self, xy: Float[Tensor, "k 2"]) -> Float[Tensor, "k 2"]:
        """Points of what is encoded as points of the whole image."""
        return xy if self.offset is None else xy + xy.new_tensor(self.offset)


def place(image: images.Readable | FeatureMap | Region | Placed) -> Placed:
    """What of an image or a region is encoded; an image that is looked at as a whole stays unread."""
    if isinstance(image, Placed):
        return image
    if not isinstance(image, Region):
        return Placed(image)
    if isinstance(image.image, FeatureMap):
        return Placed(image.image, mask=_mask(image.mask, image.image.size))
    if image.box is None and image.mask is None:
        return Placed(image.image)
    pixels = images.read(image.image)
    mask = _mask(image.mask, _size(pixels))
    if image.box is None:
        return Placed(pixels, mask=mask)
    window = _window(image.box, _size(pixels))
    if mask is not None:
        mask = geometry.cut(mask, window, beyond="zero")
        if not bool(mask.any()):
            raise InputError("no pixel of the mask lies inside the box; expected some of the object")
    return Placed(geometry.cut(pixels, window, beyond="edge"), window[:2], mask)


def in_images(matches: Matches, source: Placed, target: Placed) -> Matches:
    """Matches of what was encoded as matches of the two whole images."""
    return Matches(source.outward(matches.source), target.outward(matches.target), matches.score, matches.visible)


def _size(pixels: UInt8[Tensor, "3 h w"]) -> Size:
    return pixels.shape[-2], pixels.shape[-1]


def _check_box(box: Any) -> None:
    if not isinstance(box, tuple | list | np.ndarray | Tensor) or len(box) != 4:
        raise InputError(f"a box is (x0, y0, x1, y1) in pixels, got {checks.shown(box)}")
    edges = box.tolist() if isinstance(box, np.ndarray | Tensor) else box
    x0, y0, x1, y1 = (checks.number(edge, "an edge of a box") for edge in edges)
    if not (x0 < x1 and y0 < y1):
        raise InputError(f"a box (x0, y0, x1, y1) needs x0 < x1 and y0 < y1, got ({x0:g}, {y0:g}, {x1:g}, {y1:g})")


def _window(box: Box, size: Size) -> tuple[int, int, int, int]:
    """The whole pixels that the box covers at least partly, inside the image."""
    height, width = size
    edges = [float(edge) for edge in box]
    x0, y0 = (max(0.0, edge) // 1 for edge in edges[:2])
    x1, y1 = (-(-min(edge, side) // 1) for edge, side in zip(edges[2:], (width, height), strict=True))
    shortest = images.ImageLimits().shortest_side
    if x1 - x0 < shortest or y1 - y0 < shortest:
        shown = ", ".join(f"{edge:g}" for edge in edges)
        raise InputError(
            f"the box ({shown}) has less than {shortest}×{shortest} pixels on the image of {width}×{height} "
            "(width×height); give x0,y0,x1,y1 in its pixels"
        )
    return int(x0), int(y0), int(x1), int(y1)


def _mask(mask: Any, size: Size) -> Bool[Tensor, "h w"] | None:
    """The pixels of the object, checked to be those of an image of this size."""
    if mask is None:
        return None
    if isinstance(mask, str | Path | MaskFile):
        file = mask if isinstance(mask, MaskFile) else MaskFile(checks.path(mask, "a mask"))
        foreground, name = images.read_mask(file), f"{file.path}: "
    else:
        foreground, name = _truths(mask), ""
    try:
        check_mask(foreground, size)
    except InputError as error:
        raise InputError(f"{name}{error}") from None
    return foreground


def _truths(mask: Any) -> Bool[Tensor, "h w"]:
    given = (
        torch.from_numpy(np.ascontiguousarray(mask)) if isinstance(mask, np.ndarray) and mask.dtype == bool else mask
    )
    if not isinstance(given, Tensor) or given.dtype != torch.bool or given.ndim != 2:
        raise InputError(
            f"a mask is a file, or truth values (height, width) as large as the image, got {checks.shown(mask)}"
        )
    return given
