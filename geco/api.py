"""The one-line functions: load, transfer, match, heatmap, features."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import geometry, matching, weights
from geco.config.matching import MatchSettings
from geco.images import Readable
from geco.model import Geco
from geco.types import FeatureMap, Matches, Size

Points = Sequence[tuple[float, float]] | Any  # anything torch.as_tensor turns into (k, 2)


def load(name: str | Path | None = None, *, device: str = "auto", **options: Any) -> Geco:
    """A model ready for inference, adapter merged: by name, run folder, hub id, or None for the packaged default.

    `options` go to `Geco.from_pretrained`: layer, norm, size, dtype.
    """
    return Geco.from_pretrained(weights.default_model() if name is None else name, device=device, **options).merge()


def transfer(
    source: Readable,
    target: Readable,
    points: Points,
    *,
    model: Geco | str | None = None,
    settings: MatchSettings | None = None,
) -> Matches:
    """Where points (x, y) of the source image lie in the target image, how sure, and whether they are visible there."""
    encoder = _encoder(model)
    first, second = encoder.extract_batch([source, target])
    return matching.transfer(first, second, as_points(points, first.size), settings or _defaults(encoder))


def match(
    source: Readable,
    target: Readable,
    points: Points | None = None,
    *,
    model: Geco | str | None = None,
    settings: MatchSettings | None = None,
) -> Matches:
    """Mutual matches of patches over the whole images, best first; with points, the matches of those (`transfer`)."""
    if points is not None:
        return transfer(source, target, points, model=model, settings=settings)
    encoder = _encoder(model)
    first, second = encoder.extract_batch([source, target])
    return matching.mutual(first, second, settings or _defaults(encoder))


def heatmap(
    source: Readable,
    target: Readable,
    point: tuple[float, float],
    *,
    model: Geco | str | None = None,
    settings: MatchSettings | None = None,
) -> Float[Tensor, "h w"]:
    """Similarity of every target pixel to one point of the source image."""
    encoder = _encoder(model)
    settings = settings or _defaults(encoder)
    first, second = encoder.extract_batch([source, target])
    asked = matching.queries(first, as_points([point], first.size), settings)
    return matching.score_maps(asked, matching.prepare(second, settings))[0]


def features(image: Readable, *, model: Geco | str | None = None) -> FeatureMap:
    """Dense features of one image; `.unit()` for descriptors of length one."""
    return _encoder(model).extract(image)


def as_points(points: Points, size: Size) -> Float[Tensor, "k 2"]:
    """Points as a tensor, checked to be (x, y) inside an image of `size`."""
    try:
        xy = torch.as_tensor(points, dtype=torch.float32)
    except (TypeError, ValueError):
        raise ValueError(f"points must be pairs of numbers (x, y), got {points!r}") from None
    if xy.ndim != 2 or xy.shape[-1] != 2:
        raise ValueError(f"points must be a list of (x, y), shape (k, 2), got shape {tuple(xy.shape)}")
    outside = ~geometry.inside(xy, size=size)  # NaN compares as outside
    if outside.any():
        row = int(outside.nonzero()[0])
        x, y = xy[row].tolist()
        raise ValueError(
            f"point {row + 1} is ({x:g}, {y:g}), outside the source image of {size[1]}×{size[0]} (width×height) pixels"
        )
    return xy


def _encoder(model: Geco | str | None) -> Geco:
    return model if isinstance(model, Geco) else _loaded(model)


def _defaults(model: Geco) -> MatchSettings:
    """The usual settings with the threshold this model was calibrated for."""
    return MatchSettings(bin=model.config.bin)


@lru_cache(maxsize=1)
def _loaded(name: str | None) -> Geco:
    return load(name)
