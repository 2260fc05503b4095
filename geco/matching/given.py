"""Points as users give them: lists, arrays, tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geco import checks, geometry
from geco.errors import InputError
from geco.types import Size

Points = Sequence[tuple[float, float]] | Any  # anything torch.as_tensor turns into (k, 2)


def as_points(points: Points, size: Size, *, corner: tuple[int, int] | None = None) -> Float[Tensor, "k 2"]:
    """Points as a tensor (k, 2), checked to be (x, y) inside an image of `size`; an empty list has none.

    With a `corner` (x, y), inside the box of `size` that begins there.
    """
    xy = _numbers(points)
    if not xy.numel() and xy.ndim == 1:
        return xy.reshape(0, 2)
    if xy.ndim != 2 or xy.shape[-1] != 2:
        raise InputError(f"points must be a list of (x, y), shape (k, 2), got shape {tuple(xy.shape)}")
    left, top = corner or (0, 0)
    outside = ~geometry.inside(xy - xy.new_tensor([left, top]), size=size)  # NaN compares as outside
    if outside.any():
        row = int(outside.nonzero()[0])
        x, y = xy[row].tolist()
        if corner is not None:
            box = f"({left}, {top}, {left + size[1]}, {top + size[0]})"
            raise InputError(f"point {row + 1} is ({x:g}, {y:g}), outside the source's box {box}")
        raise InputError(
            f"point {row + 1} is ({x:g}, {y:g}), outside the source image of {size[1]}×{size[0]} (width×height) pixels"
        )
    return xy


def _numbers(points: Points) -> Tensor:
    """Points as floating point numbers; not those of truth values, text or tensors without content."""
    if isinstance(points, Tensor):
        if points.is_complex() or points.dtype == torch.bool or points.layout != torch.strided or points.is_meta:
            raise InputError(f"points must be pairs of numbers (x, y), got a tensor of {points.dtype}")
        return points.detach().to(torch.float32)
    try:
        given = np.asarray(points)
    except Exception:  # of all kinds, by what the points are instead
        given = np.empty((), dtype=object)
    if given.dtype.kind not in "iuf" or given.dtype.itemsize > 8:
        raise InputError(f"points must be pairs of numbers (x, y), got {checks.shown(points)}")
    return torch.from_numpy(given.astype(np.float64)).to(torch.float32)
