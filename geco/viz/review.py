"""A page to review predicted keypoints: most uncertain image first, points to be moved, corrections to be saved."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jaxtyping import Float, Int, UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco.types import Skeleton
from geco.viz import html

LONGEST = 480  # pixels of an image's longer side on the page
QUALITY = 80  # of its JPEG


@dataclass(frozen=True)
class Shown:
    """Predicted keypoints of one animal, row by row of the skeleton, in pixels of the image."""

    xy: Float[Tensor, "k 2"]  # NaN where there is no place
    state: Int[Tensor, "k"]  # 0 not known, 1 not visible, 2 visible
    uncertainty: Float[Tensor, "k"]
    side_unsure: Sequence[bool]  # whether it may be its left or right counterpart


@dataclass(frozen=True)
class Card:
    """An image of the page."""

    name: str
    path: str  # under which corrections are saved
    pixels: UInt8[Tensor, "3 h w"]
    animals: Sequence[Shown]


def review_page(
    cards: Sequence[Card],
    skeleton: Skeleton,
    edges: Sequence[tuple[int, int]],
    *,
    title: str,
    category: str,
    following: Sequence[str],
    total: int,
) -> str:
    """The page, which needs no other file: the cards, and the images worth labelling next. `total` images there are."""
    data = {
        "names": skeleton.names,
        "edges": edges,
        "category": category,
        "images": [_image(card) for card in cards],
        "next": list(following),
        "total": total,
    }
    place = resources.files("geco.viz")
    body = (place / "review.html").read_text(encoding="utf-8").replace("{{title}}", html.escape(title))
    # "<" is written as an escape: a file name must not end the script.
    content = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    script = (place / "review.js").read_text(encoding="utf-8")
    body += f'<script type="application/json" id="data">{content}</script><script>{script}</script>'
    return html.page(title, body, (place / "review.css").read_text(encoding="utf-8"))


def _image(card: Card) -> Mapping[str, Any]:
    height, width = card.pixels.shape[-2:]
    picture = Pillow.fromarray(card.pixels.permute(1, 2, 0).contiguous().numpy())
    picture.thumbnail((LONGEST, LONGEST), Pillow.Resampling.BICUBIC)
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=QUALITY)
    return {
        "name": card.name,
        "path": card.path,
        "width": width,
        "height": height,
        "picture": "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode(),
        "animals": [_animal(one) for one in card.animals],
    }


def _animal(animal: Shown) -> list[list[Any]]:
    rows = zip(animal.xy.tolist(), animal.state.tolist(), animal.uncertainty.tolist(), animal.side_unsure, strict=True)
    return [
        [None if x != x else round(x, 2), None if y != y else round(y, 2), state, round(unsure, 4), int(side)]
        for (x, y), state, unsure, side in rows
    ]
