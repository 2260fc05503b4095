"""Points drawn onto pixels, quickly enough for every frame of a video."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, UInt8
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont
from torch import Tensor

from geco.viz.palette import BLACK, PALETTE

RADIUS = 0.012  # of the image's shorter side
COLOURS = tuple(colour for colour in PALETTE if colour != BLACK)  # which the outlines are

Marks = tuple[Float[Tensor, "_ 2"], Bool[Tensor, "_"]]  # places, NaN where there is none, and which are visible


def stamp(
    pixels: UInt8[Tensor, "3 h w"],
    objects: Sequence[Marks],
    *,
    edges: Sequence[tuple[int, int]] = (),
    names: Sequence[str] = (),
) -> Pillow.Image:
    """The picture with a disc at each visible point, its name beside it, and lines between; hidden ones are absent."""
    picture = Pillow.fromarray(pixels.permute(1, 2, 0).cpu().numpy())
    canvas = ImageDraw.Draw(picture)
    radius = max(2, round(RADIUS * min(picture.size)))
    font = ImageFont.load_default(max(9, 2.5 * radius))
    for xy, visible in objects:
        places = [(x, y) for x, y in (xy - 0.5).tolist()]  # Pillow counts from the centre of the first pixel
        shown = (visible & _near(xy, picture.size)).tolist()
        for start, end in edges:
            if shown[start] and shown[end]:
                canvas.line([places[start], places[end]], fill="#FFFFFF", width=max(1, round(radius / 3)))
        for row, (x, y) in enumerate(places):
            if not shown[row]:
                continue
            x, y = round(x), round(y)  # Pillow would cut fractions off
            corners = (x - radius, y - radius, x + radius, y + radius)
            canvas.ellipse(corners, fill=COLOURS[row % len(COLOURS)], outline=BLACK)
            if names:
                beside = (x + 1.5 * radius, y - 2 * radius)
                canvas.text(beside, names[row], font=font, fill="#FFFFFF", stroke_width=1, stroke_fill=BLACK)
    return picture


def _near(xy: Float[Tensor, "k 2"], size: tuple[int, int]) -> Bool[Tensor, "k"]:
    """Places on the picture or close to it: Pillow takes no numbers beyond 32 bits."""
    limit = torch.tensor(size, dtype=xy.dtype)
    return ((xy >= -limit) & (xy <= 2 * limit)).all(-1)
