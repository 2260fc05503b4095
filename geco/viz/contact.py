"""Contact sheets: many small pictures of objects and their masks on one page, to be looked at by a person."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from PIL import Image as Pillow
from PIL import ImageColor, ImageDraw
from torch import Tensor

from geco import geometry
from geco.errors import InputError
from geco.types import View
from geco.viz import palette

TILE, CAPTION, COLUMNS = 240, 16, 6  # pixels, pixels, tiles in a row


@dataclass(frozen=True)
class Tile:
    """A loaded view, its mask and the line under it."""

    view: View
    mask: Bool[Tensor, "h w"]
    caption: str


def contact_sheet(tiles: Sequence[Tile]) -> Pillow.Image:
    """Background dark, the mask's outline yellow, the box white, keypoints green on the mask, red off it."""
    if not tiles:
        raise InputError("a contact sheet needs at least one mask to show")
    return laid_out([_draw_tile(tile) for tile in tiles], [tile.caption for tile in tiles])


def laid_out(pictures: Sequence[Pillow.Image], captions: Sequence[str]) -> Pillow.Image:
    """Small pictures in rows, each with a line under it."""
    columns = min(COLUMNS, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    page = Pillow.new("RGB", (columns * TILE, rows * (TILE + CAPTION)), "white")
    pen = ImageDraw.Draw(page)
    for number, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        x, y = number % columns * TILE, number // columns * (TILE + CAPTION)
        page.paste(picture, (x, y))
        pen.text((x + 3, y + TILE + 2), _short(caption), fill="black")
    return page


def _draw_tile(tile: Tile) -> Pillow.Image:
    view, size = tile.view, tile.view.size
    scale = (TILE - 4) / max(size)
    to = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    mask = geometry.resize_labels(tile.mask, to)
    pixels = geometry.resize_image(view.pixels, to) * (255 if view.pixels.is_floating_point() else 1)
    picture = Pillow.fromarray(_shaded(pixels, mask).permute(1, 2, 0).contiguous().numpy())
    pen = ImageDraw.Draw(picture)
    if view.box is not None:
        corners = geometry.resize_points(view.box.reshape(2, 2), size=size, to=to)
        pen.rectangle([tuple(corner) for corner in corners.tolist()], outline=palette.MASK_BOX)
    if view.keypoints is not None:
        points = view.keypoints.xy[view.keypoints.visible]
        on_mask = tile.mask.flatten()[geometry.cells(points, size=size, grid=size)]
        for (x, y), inside in zip(geometry.resize_points(points, size=size, to=to).tolist(), on_mask, strict=True):
            colour = palette.ON_MASK if inside else palette.OFF_MASK
            pen.ellipse([x - 2.5, y - 2.5, x + 2.5, y + 2.5], fill=colour, outline="black")
    return picture


def _shaded(pixels: Float[Tensor, "3 h w"], mask: Bool[Tensor, "h w"]) -> UInt8[Tensor, "3 h w"]:
    """The image dark outside the mask, with the mask's outline."""
    outline = torch.tensor(ImageColor.getrgb(palette.MASK_OUTLINE), dtype=pixels.dtype)[:, None, None]
    shaded = torch.where(mask, pixels, pixels * palette.DIMMED)
    shaded = torch.where(_border(mask), outline, shaded)
    return shaded.round().clamp(0, 255).to(torch.uint8)


def _border(mask: Bool[Tensor, "h w"]) -> Bool[Tensor, "h w"]:
    """Pixels of the mask with a neighbour that is not."""
    inner = -torch.nn.functional.max_pool2d(-mask[None].float(), 3, stride=1, padding=1)[0]
    return mask & (inner < 1)


def _short(caption: str, most: int = 38) -> str:
    return caption if len(caption) <= most else "…" + caption[1 - most :]
