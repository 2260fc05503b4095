"""Contact sheets of a search: the part that was asked for, and crops around the places where it occurs."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import UInt8
from PIL import Image as Pillow
from PIL import ImageDraw
from torch import Tensor

from geco.errors import InputError
from geco.viz import palette
from geco.viz.contact import TILE, laid_out

CROP = 0.5  # of an image's longer side is shown
RING = 9  # pixels: radius of the mark
INNER = TILE - 4  # side of a crop on the page


@dataclass(frozen=True)
class Crop:
    """An image, a place in it, and the line under it."""

    pixels: UInt8[Tensor, "3 h w"]
    xy: tuple[float, float]
    caption: str
    asked: bool = False  # it is the place that was asked for


def hit_sheet(crops: Sequence[Crop]) -> Pillow.Image:
    """Squares around the places, each in a ring: yellow what was asked for, green what was found."""
    if not crops:
        raise InputError("a contact sheet needs at least one place to show")
    return laid_out([_drawn(crop) for crop in crops], [crop.caption for crop in crops])


def _drawn(crop: Crop) -> Pillow.Image:
    picture = Pillow.fromarray(crop.pixels.permute(1, 2, 0).contiguous().numpy())
    side = min(max(1.0, CROP * max(picture.size)), *map(float, picture.size))
    corner = [
        min(max(0.0, centre - side / 2), length - side) for centre, length in zip(crop.xy, picture.size, strict=True)
    ]
    box = (corner[0], corner[1], corner[0] + side, corner[1] + side)
    square = picture.resize((INNER, INNER), Pillow.Resampling.BILINEAR, box=box)
    # Pillow counts from the centre of the first pixel, points from its corner.
    x, y = ((place - start) * INNER / side - 0.5 for place, start in zip(crop.xy, corner, strict=True))
    pen = ImageDraw.Draw(square)
    for radius, colour in ((RING + 1, "black"), (RING, palette.QUERY if crop.asked else palette.MATCH)):
        pen.ellipse([x - radius, y - radius, x + radius, y + radius], outline=colour, width=3)
    return square
