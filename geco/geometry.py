"""Coordinates: the only file that knows how pixels, patch cells and transformed images relate.

Origin at the image's corner: pixel (column i, row j) covers [i, i+1) × [j, j+1) and its centre is (i + 0.5, j + 0.5).
Patch cell (row r, column c) of an h × w grid covers the h-th and w-th share of the image in the same way.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from geco import checks
from geco.errors import InputError
from geco.types import Image, Keypoints, Size, Skeleton, View, Window

# --- points and patch cells -------------------------------------------------------------------------------------------


def resize_points(xy: Float[Tensor, "*b 2"], *, size: Size, to: Size) -> Float[Tensor, "*b 2"]:
    """The same points after the image of `size` has been resized to `to`."""
    return xy * xy.new_tensor([to[1] / size[1], to[0] / size[0]])


def cells(xy: Float[Tensor, "*b 2"], *, size: Size, grid: Size) -> Int[Tensor, "*b"]:
    """Row-major index of the patch cell that holds each point; points on or beyond the border count to the last."""
    rows, columns = grid
    column_row = resize_points(xy, size=size, to=grid).floor().long()
    column = column_row[..., 0].clamp(0, columns - 1)
    row = column_row[..., 1].clamp(0, rows - 1)
    return row * columns + column


def cell_centres(index: Int[Tensor, "*b"], *, size: Size, grid: Size) -> Float[Tensor, "*b 2"]:
    """Centre, in pixels of an image of `size`, of the patch cells with these row-major indices."""
    row = torch.div(index, grid[1], rounding_mode="floor")
    centre = torch.stack([index - row * grid[1], row], dim=-1) + 0.5
    return resize_points(centre, size=grid, to=size)


def pixel_centres(index: Int[Tensor, "*b"], *, width: int) -> Float[Tensor, "*b 2"]:
    """Centre of the pixels with these row-major indices."""
    row = torch.div(index, width, rounding_mode="floor")
    return torch.stack([index - row * width, row], dim=-1) + 0.5


def sample(values: Float[Tensor, "*b c h w"], xy: Float[Tensor, "*b k 2"], *, size: Size) -> Float[Tensor, "*b k c"]:
    """Bilinear samples of a map at points of the image of `size` it describes; clamped beyond the outer centres."""
    batch = values.shape[:-3]
    unit = xy.to(values.dtype) * xy.new_tensor([2 / size[1], 2 / size[0]], dtype=values.dtype) - 1
    read = functional.grid_sample(
        values.flatten(0, -4) if batch else values[None],
        (unit.flatten(0, -3) if batch else unit[None])[:, None],
        align_corners=False,
        padding_mode="border",
    )  # (b, c, 1, k)
    read = read[:, :, 0].mT
    return read.unflatten(0, batch) if batch else read[0]


def neighbours(
    xy: Float[Tensor, "*b 2"], *, size: Size, grid: Size
) -> tuple[Int[Tensor, "*b 4"], Float[Tensor, "*b 4"]]:
    """Row-major indices of the four cells that `sample` reads at each point, and their shares of what it returns."""
    most = xy.new_tensor([grid[1] - 1, grid[0] - 1])
    place = torch.minimum((resize_points(xy, size=size, to=grid) - 0.5).clamp_min(0), most)
    near = place.floor()
    (right, below), (left, above) = (place - near).unbind(-1), (1 - place + near).unbind(-1)
    column, row = near.long().unbind(-1)
    next_column, next_row = (column + 1).clamp_max(grid[1] - 1), (row + 1).clamp_max(grid[0] - 1)
    index = [r * grid[1] + c for r in (row, next_row) for c in (column, next_column)]
    return torch.stack(index, -1), torch.stack([above * left, above * right, below * left, below * right], -1)


def inside(xy: Float[Tensor, "*b 2"], *, size: Size) -> Bool[Tensor, "*b"]:
    """Whether each point lies on the image."""
    x, y = xy.unbind(-1)
    return (x >= 0) & (y >= 0) & (x <= size[1]) & (y <= size[0])


# --- pixels -----------------------------------------------------------------------------------------------------------


def resize_image(image: Image, to: Size, *, mode: str = "bilinear") -> Float[Tensor, "*b 3 h2 w2"]:
    """The image at another size (antialiased: bilinear, bicubic or lanczos), floating point in its own range.

    Bicubic and lanczos may leave the range a little.
    """
    batch = image.shape[:-3]
    pixels = image if image.is_floating_point() else image.float()
    if mode == "lanczos":  # torch has none
        rows, columns = (_lanczos(*sides).to(pixels) for sides in zip(pixels.shape[-2:], to, strict=True))
        return rows @ pixels @ columns.mT
    pixels = pixels.flatten(0, -4) if batch else pixels[None]
    resized = functional.interpolate(pixels, size=to, mode=mode, antialias=True, align_corners=False)
    return resized.unflatten(0, batch) if batch else resized[0]


def _lanczos(before: int, after: int) -> Float[Tensor, "n m"]:
    """The weight of each pixel of a row in each one of the resized row: a sinc windowed to three lobes, as Pillow's."""
    width = max(1.0, before / after)  # of a lobe: one pixel of the coarser row
    centres = (torch.arange(after, dtype=torch.float64) + 0.5) * before / after
    distance = (torch.arange(before, dtype=torch.float64) + 0.5 - centres[:, None]) / width
    weights = torch.sinc(distance) * torch.sinc(distance / 3) * (distance.abs() < 3)
    return (weights / weights.sum(1, keepdim=True)).float()


def resize_features(values: Float[Tensor, "b c h w"], to: Size) -> Float[Tensor, "b c h2 w2"]:
    """Feature maps on another grid of patches over the same images (bilinear, antialiased)."""
    if tuple(values.shape[-2:]) == tuple(to):
        return values
    return functional.interpolate(values, size=to, mode="bilinear", antialias=True, align_corners=False)


def resize_labels(labels: Tensor, to: Size) -> Tensor:
    """A mask or label map (*b, h, w) at another size: each new pixel takes the label under its centre."""
    height, width = labels.shape[-2:]
    rows = ((torch.arange(to[0], device=labels.device) + 0.5) * height / to[0]).long().clamp(max=height - 1)
    columns = ((torch.arange(to[1], device=labels.device) + 0.5) * width / to[1]).long().clamp(max=width - 1)
    return labels[..., rows[:, None], columns]


def touched(mask: Bool[Tensor, "h w"], grid: Size) -> Bool[Tensor, "h2 w2"]:
    """The cells of a grid over the image in which the centre of at least one pixel of the mask lies."""
    size = mask.shape[-2], mask.shape[-1]
    if grid == size:
        return mask
    centres = mask.nonzero().flip(-1) + 0.5
    cell = torch.zeros(grid[0] * grid[1], dtype=torch.bool, device=mask.device)
    cell[cells(centres, size=size, grid=grid)] = True
    return cell.unflatten(0, grid)


def onto(mask: Bool[Tensor, "h w"], xy: Float[Tensor, "k 2"]) -> Float[Tensor, "k 2"]:
    """The points, those that are not on the mask moved to the centre of its nearest pixel; it must have one."""
    size = mask.shape[-2], mask.shape[-1]
    off = ~mask.flatten()[cells(xy, size=size, grid=size)]
    if not bool(off.any()):
        return xy
    centres = mask.nonzero().flip(-1).to(xy.dtype) + 0.5
    nearest = [centres[(centres - point).square().sum(-1).argmin()] for point in xy[off]]  # one at a time: less memory
    return xy.index_put((off.nonzero()[:, 0],), torch.stack(nearest))


def letterbox(size: Size, grid: Size, *, centred: bool) -> tuple[int, int, int, int]:
    """(top, left, rows, columns) of the cells that an image of this size fills on a canvas of `grid` cells.

    It keeps its shape as far as whole cells allow, so that the border can be cut off again without a remainder.
    """
    scale = min(grid[0] / size[0], grid[1] / size[1])
    rows, columns = (min(most, max(1, round(side * scale))) for side, most in zip(size, grid, strict=True))
    return ((grid[0] - rows) // 2, (grid[1] - columns) // 2, rows, columns) if centred else (0, 0, rows, columns)


# --- views: image, mask, parts, keypoints and box move together -------------------------------------------------------


def flip_keypoints(keypoints: Keypoints, *, width: int, mirror: tuple[int, ...]) -> Keypoints:
    """Keypoints of the mirrored image: x → width − x, and the left eye is now called the right one."""
    order = torch.tensor(mirror, dtype=torch.long, device=keypoints.xy.device)
    x, y = keypoints.xy.unbind(-1)
    flipped = torch.stack([width - x, y], dim=-1)
    return Keypoints(flipped[..., order, :], keypoints.visible[..., order])


def flip(view: View, skeleton: Skeleton) -> View:
    """The view in a mirror. Needs pixels, not files, and a skeleton whose mirror table is known."""
    if skeleton.mirror is None:
        raise InputError("this category has no mirror table, so it cannot be flipped; give Skeleton.mirror")
    width = view.size[1]
    keypoints = view.keypoints
    box = view.box
    return replace(
        view,
        image=view.pixels.flip(-1),
        keypoints=keypoints and flip_keypoints(keypoints, width=width, mirror=skeleton.mirror),
        box=None
        if box is None
        else torch.stack([width - box[..., 2], box[..., 1], width - box[..., 0], box[..., 3]], -1),
        mask=None if view.mask is None else view.foreground.flip(-1),
        parts=None if view.parts is None else view.parts.flip(-1),
    )


def crop(view: View, window: tuple[int, int, int, int]) -> View:
    """The part of the view inside the whole-pixel window (x0, y0, x1, y1); keypoints outside become invisible.

    A window that leaves the image is filled with the edge pixels (image) and background (mask, parts 0).
    """
    return replace(
        frame(view, window),
        image=cut(view.pixels, window, beyond="edge"),
        mask=None if view.mask is None else cut(view.foreground, window, beyond="zero"),
        parts=None if view.parts is None else cut(view.parts, window, beyond="zero"),
        window=None,
    )


def rotation(degrees: float, *, size: Size) -> Float[Tensor, "3 3"]:
    """Where (x, y, 1) goes when an image of `size` is rotated about its centre, counter-clockwise as one sees it."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = size[1] / 2, size[0] / 2
    return torch.tensor([[cos, sin, x - cos * x - sin * y], [-sin, cos, y + sin * x - cos * y], [0.0, 0.0, 1.0]])


def rotate(view: View, degrees: float) -> View:
    """The view rotated about its centre (see `rotation`) in a frame that stays; keypoints outside become invisible.

    Where nothing of the image comes to lie, its edge is repeated; mask and parts are 0 there.
    """
    keypoints, box = view.keypoints, view.box
    matrix = rotation(degrees, size=view.size)
    if keypoints is not None:
        xy = _moved(keypoints.xy, matrix)
        keypoints = Keypoints(xy, keypoints.visible & inside(xy, size=view.size))
    if box is not None:
        corners = _moved(box[..., [0, 1, 2, 1, 2, 3, 0, 3]].unflatten(-1, (4, 2)), matrix)
        limits = box.new_tensor([view.size[1], view.size[0]])
        corners = torch.minimum(corners.clamp(min=0), limits)
        box = torch.cat([corners.amin(-2), corners.amax(-2)], -1)
    place = _turned_from(view.size, degrees)
    return replace(
        view,
        image=_sampled(view.pixels, place),
        keypoints=keypoints,
        box=box,
        mask=None if view.mask is None else _labels_at(view.foreground, place),
        parts=None if view.parts is None else _labels_at(view.parts, place),
    )


def _moved(xy: Float[Tensor, "*b 2"], matrix: Float[Tensor, "3 3"]) -> Float[Tensor, "*b 2"]:
    matrix = matrix.to(xy)
    return xy @ matrix[:2, :2].mT + matrix[:2, 2]


def _turned_from(size: Size, degrees: float) -> Float[Tensor, "h w 2"]:
    """Where in the image each pixel centre of the rotated one comes from."""
    centres = pixel_centres(torch.arange(size[0] * size[1]), width=size[1])
    return _moved(centres, rotation(-degrees, size=size)).unflatten(0, size)


def _sampled(image: Image, place: Float[Tensor, "h w 2"]) -> Image:
    """Bilinear samples of an image at these positions, in its own type."""
    pixels = image if image.is_floating_point() else image.float()
    read = sample(pixels, place.flatten(0, 1).to(pixels), size=(image.shape[-2], image.shape[-1]))
    read = read.mT.unflatten(-1, place.shape[:2])
    return read if image.is_floating_point() else read.round_().to(image.dtype)


def _labels_at(labels: Tensor, place: Float[Tensor, "h w 2"]) -> Tensor:
    """The label under each of these positions, 0 beyond the image."""
    size = labels.shape[-2], labels.shape[-1]
    place = place.to(labels.device)
    nearest = labels.flatten(-2)[..., cells(place, size=size, grid=size)]
    return nearest * inside(place, size=size)


def cut(pixels: Tensor, window: tuple[int, int, int, int], *, beyond: Literal["edge", "zero"]) -> Tensor:
    """The pixels (*b, h, w) inside a window; where it leaves the image, the edge is repeated or zeros are put."""
    x0, y0, x1, y1 = window
    height, width = pixels.shape[-2:]
    rows, columns = (torch.arange(a, b, device=pixels.device) for a, b in ((y0, y1), (x0, x1)))
    inner = pixels[..., rows.clamp(0, height - 1)[:, None], columns.clamp(0, width - 1)]
    if beyond == "edge":
        return inner
    on_image = ((rows >= 0) & (rows < height))[:, None] & (columns >= 0) & (columns < width)
    return inner * on_image


def frame(view: View, window: tuple[int, int, int, int]) -> View:
    """The crop of an unread view: keypoints, box and size move now, image and mask when they are read."""
    x0, y0, x1, y1 = (checks.whole(edge, "an edge of a crop window") for edge in window)
    if x1 <= x0 or y1 <= y0:
        raise InputError(f"a crop window needs x0 < x1 and y0 < y1, got {window}")
    size = (y1 - y0, x1 - x0)
    keypoints, box = view.keypoints, view.box
    if keypoints is not None:
        xy = keypoints.xy - keypoints.xy.new_tensor([x0, y0])
        keypoints = Keypoints(xy, keypoints.visible & inside(xy, size=size))
    if box is not None:
        box = box - box.new_tensor([x0, y0, x0, y0])
        x, y = box[..., 0::2].clamp(0, size[1]), box[..., 1::2].clamp(0, size[0])
        box = torch.stack([x, y], -1).flatten(-2)
    return replace(view, size=size, keypoints=keypoints, box=box, window=Window(window, view.size))


def resize(view: View, to: Size, *, mode: str = "bilinear") -> View:
    """The view at another size; the image becomes floating point in its own range."""
    keypoints, box = view.keypoints, view.box
    if keypoints is not None:
        keypoints = Keypoints(resize_points(keypoints.xy, size=view.size, to=to), keypoints.visible)
    if box is not None:
        box = resize_points(box.unflatten(-1, (2, 2)), size=view.size, to=to).flatten(-2)
    return replace(
        view,
        image=resize_image(view.pixels, to, mode=mode),
        size=to,
        keypoints=keypoints,
        box=box,
        mask=None if view.mask is None else resize_labels(view.foreground, to),
        parts=None if view.parts is None else resize_labels(view.parts, to),
    )
