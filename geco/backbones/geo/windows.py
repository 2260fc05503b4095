"""Windows over an image that is larger than a network's input: maps of each, put together by their mean."""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

Maps = Sequence[Float[Tensor, "b _ _ _"]]


def slide(
    pixels: Float[Tensor, "b c h w"], encode: Callable[[Float[Tensor, "b c h2 w2"]], Maps], *, window: int
) -> list[Float[Tensor, "b _ _ _"]]:
    """What `encode` makes of square windows in the corners, one map or several of different strides, as whole maps.

    Where windows overlap, the mean. A side is at most two windows; an image that is smaller than one is one window.
    Offsets must be whole cells of every map.
    """
    rows, columns = ([(start, min(side, window)) for start in _starts(side, window)] for side in pixels.shape[-2:])
    sums: list[Tensor] = []
    counts: list[Tensor] = []
    for top, height in rows:
        for left, width in columns:
            maps = encode(pixels[..., top : top + height, left : left + width])
            if not sums:
                strides = [height // values.shape[-2] for values in maps]
                grids = [(pixels.shape[-2] // stride, pixels.shape[-1] // stride) for stride in strides]
                sums = [m.new_zeros(*m.shape[:2], *grid) for m, grid in zip(maps, grids, strict=True)]
                counts = [m.new_zeros(grid) for m, grid in zip(maps, grids, strict=True)]
            for values, stride, total, count in zip(maps, strides, sums, counts, strict=True):
                y, x = top // stride, left // stride
                place = (..., slice(y, y + values.shape[-2]), slice(x, x + values.shape[-1]))
                total[place] += values
                count[place] += 1
    return [total / count for total, count in zip(sums, counts, strict=True)]


def _starts(side: int, window: int) -> list[int]:
    return sorted({0, max(0, side - window)})
