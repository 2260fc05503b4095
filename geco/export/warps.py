"""Images bent in a known way: where every point goes is known exactly, without annotations."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geco import geometry, matching
from geco.errors import InputError
from geco.export.settings import WarpSettings
from geco.matching.settings import MatchSettings
from geco.types import Encoder, Size

USUAL = WarpSettings()


@dataclass(frozen=True)
class WarpedPair:
    """An image, what it looks like from elsewhere, and points of the one with their places in the other."""

    source: UInt8[Tensor, "3 h w"]
    target: UInt8[Tensor, "3 h w"]
    points: Float[Tensor, "k 2"]
    places: Float[Tensor, "k 2"]


def warped_pairs(pictures: Sequence[UInt8[Tensor, "3 _ _"]], settings: WarpSettings = USUAL) -> list[WarpedPair]:
    """Images with several of their warps each (rotated, in perspective, in another light)."""
    generator = torch.Generator().manual_seed(settings.seed)
    step = max(1, len(pictures) // settings.images)
    small = [_reduced(picture, settings.side) for picture in pictures[::step][: settings.images]]
    return [_warped(picture, settings, generator) for picture in small for _ in range(settings.warps)]


def share_found(encoder: Encoder, pairs: Sequence[WarpedPair], settings: WarpSettings = USUAL) -> dict[str, float]:
    """Percentage of points that are found within each radius of where they are (PCK), by the radius's name."""
    sources = {id(pair.source): pair.source for pair in pairs}
    maps = dict(zip(sources, encoder.extract_stream(list(sources.values())), strict=True))
    how = matching.suited(MatchSettings(threshold=encoder.threshold), encoder)
    errors = []
    for pair, target in zip(pairs, encoder.extract_stream([pair.target for pair in pairs]), strict=True):
        matches = matching.transfer(maps[id(pair.source)], target, pair.points, how)
        errors.append((matches.target - pair.places).norm(dim=-1) / max(pair.target.shape[-2:]))
    error = torch.cat(errors) if errors else torch.zeros(0)
    if not len(error):
        raise InputError("the images leave no points to find; give others, or more")
    return {f"PCK@{radius:g}": 100 * float((error <= radius).float().mean()) for radius in settings.radii}


def _reduced(picture: UInt8[Tensor, "3 h w"], side: int) -> UInt8[Tensor, "3 h2 w2"]:
    height, width = picture.shape[-2:]
    scale = min(1.0, side / max(height, width))
    size = (max(8, round(height * scale)), max(8, round(width * scale)))
    return geometry.resize_image(picture, size).clamp(0, 255).round().to(torch.uint8)


def _warped(picture: UInt8[Tensor, "3 h w"], settings: WarpSettings, generator: torch.Generator) -> WarpedPair:
    size = (picture.shape[-2], picture.shape[-1])
    homography = _homography(size, settings, generator)  # from the warped image to the image
    everywhere = geometry.pixel_centres(torch.arange(size[0] * size[1]), width=size[1])
    seen = geometry.sample(picture.float(), _moved(everywhere, homography), size=size)  # (pixels, 3)
    light, contrast = (1 + 0.3 * (torch.rand(2, generator=generator) - 0.5)).tolist()
    seen = ((seen - 127.5) * contrast + 127.5 * light).clamp(0, 255).round().to(torch.uint8)
    ticks = (torch.arange(settings.points) + 0.5) / settings.points
    places = torch.cartesian_prod(ticks * size[1], ticks * size[0])
    points = _moved(places, homography)
    visible = geometry.inside(points, size=size)
    return WarpedPair(picture, seen.mT.reshape(3, *size), points[visible], places[visible])


def _homography(size: Size, settings: WarpSettings, generator: torch.Generator) -> Float[Tensor, "3 3"]:
    """A rotation about the centre after which each corner has moved by some share of the side."""
    sides = torch.tensor([size[1], size[0]], dtype=torch.float32)
    corners = torch.tensor([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]) * sides
    draw = 2 * torch.rand(9, generator=generator) - 1
    angle = torch.deg2rad(draw[0] * settings.rotation)
    cosine, sine = angle.cos(), angle.sin()
    turn = torch.stack([torch.stack([cosine, -sine]), torch.stack([sine, cosine])])
    moved = (corners - sides / 2) @ turn.mT + sides / 2 + settings.shift * sides * draw[1:].reshape(4, 2)
    rows = []
    for (x, y), (u, v) in zip(corners.tolist(), moved.tolist(), strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    solved = torch.linalg.solve(torch.tensor(rows, dtype=torch.float64), moved.double().reshape(-1))
    return torch.cat([solved, torch.ones(1, dtype=torch.float64)]).reshape(3, 3).float()


def _moved(xy: Float[Tensor, "n 2"], homography: Float[Tensor, "3 3"]) -> Float[Tensor, "n 2"]:
    ahead = torch.cat([xy, torch.ones(len(xy), 1)], 1) @ homography.mT
    return ahead[:, :2] / ahead[:, 2:]
