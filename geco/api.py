"""The one-line functions: load, transfer, match, heatmap, features, label, decorate, estimate_pose."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco import checks, geometry, matching, models, pose, propagation
from geco.errors import InputError
from geco.images import Readable
from geco.matching.settings import MatchSettings
from geco.models import Geco
from geco.pose import Decoration, Pose
from geco.pose.settings import DecorateSettings, PoseSettings
from geco.types import Encoder, FeatureMap, Matches, Size

Points = Sequence[tuple[float, float]] | Any  # anything torch.as_tensor turns into (k, 2)
Model = Encoder | str | Path | None  # a loaded model, or what `load` takes
Seen = Readable | FeatureMap  # an image, or its features if they have been extracted already


def load(name: str | Path | None = None, *, device: str = "auto", **options: Any) -> Geco:
    """A model ready for inference, adapter merged: by name, run folder, hub id, or None for the packaged default.

    `options` go to `Geco.from_pretrained`: size, dtype, and how a bare backbone is read (layer, norm).
    """
    return Geco.for_inference(models.default_model() if name is None else name, device=device, **options)


def transfer(
    source: Seen,
    target: Seen,
    points: Points,
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
) -> Matches:
    """Where points (x, y) of the source image lie in the target image, how sure, and whether they are visible there."""
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    start, end = matching.paired(encoder, *_maps(encoder, source, target))
    xy = as_points(points, start.size).to(start.values.device)
    return matching.transfer(start, end, xy, settings)


def match(
    source: Seen,
    target: Seen,
    points: Points | None = None,
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
) -> Matches:
    """Mutual matches of patches over the whole images, best first; with points, the matches of those (`transfer`)."""
    if points is not None:
        return transfer(source, target, points, model=model, settings=settings)
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    start, end = matching.paired(encoder, *_maps(encoder, source, target))
    return matching.mutual(start, end, settings)


def heatmap(
    source: Seen,
    target: Seen,
    point: tuple[float, float],
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
) -> Float[Tensor, "h w"]:
    """Similarity of every target pixel to one point of the source image."""
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    start, end = matching.paired(encoder, *_maps(encoder, source, target))
    query = matching.queries(start, as_points([point], start.size).to(start.values.device), settings)
    scores = matching.score_maps(query, matching.prepare(end, settings))[0]
    matching.check_finite(scores)
    return scores


def features(image: Readable, *, model: Model = None) -> FeatureMap:
    """Dense features of one image; `.unit()` for descriptors of length one."""
    encoder = _encoder(model)
    matching.check_single(encoder)
    return next(iter(encoder.extract_stream([image])))


def label(
    labelled: Iterable[tuple[Readable, propagation.LabelMap]], pictures: Iterable[Readable], *, model: Model = None
) -> Iterator[Int[Tensor, "_ _"]]:
    """Part labels of new images, one map (height, width) after the other, from a few images whose parts are labelled.

    `labelled` are pairs of an image and its label map, in which 0 is background and i is part i; at least one map
    must show a part.
    """
    return propagation.label(_encoder(model), labelled, pictures)


def decorate(
    mesh: str | Path, *, model: Model = None, settings: DecorateSettings | None = None, cache: bool = True
) -> Decoration:
    """A mesh file with a feature on each vertex, from rendered views around it; kept in the cache folder."""
    encoder, settings = _encoder(model), settings or DecorateSettings()
    loaded = pose.load_mesh(mesh)
    if not cache:
        return pose.decorate(encoder, loaded, settings)
    return pose.decorated_once(encoder, loaded, models.cache_folder() / "decorated", settings)


def estimate_pose(
    mesh: str | Path | Decoration,
    photograph: Seen,
    *,
    model: Model = None,
    mask: Bool[Tensor, "h w"] | None = None,
    focal: float | None = None,
    settings: PoseSettings | None = None,
) -> Pose:
    """From where a photograph of (another individual of) the animal of a mesh was taken; `found` says whether.

    `mesh` is a file, decorated once and kept in the cache folder, or what `geco decorate` wrote. `focal` in pixels if
    it is known, `mask` the animal's pixels if they are. The room is called geco.pose, which is why this is not.
    """
    encoder = _encoder(model)
    if isinstance(mesh, Decoration):
        decoration = mesh
    elif Path(mesh).suffix.lower() == ".safetensors":
        decoration = pose.read_decoration(mesh)
    else:
        decoration = decorate(mesh, model=encoder)
    return pose.estimate(encoder, decoration, photograph, mask=mask, focal=focal, settings=settings or PoseSettings())


def as_points(points: Points, size: Size) -> Float[Tensor, "k 2"]:
    """Points as a tensor (k, 2), checked to be (x, y) inside an image of `size`; an empty list has none."""
    xy = _numbers(points)
    if not xy.numel() and xy.ndim == 1:
        return xy.reshape(0, 2)
    if xy.ndim != 2 or xy.shape[-1] != 2:
        raise InputError(f"points must be a list of (x, y), shape (k, 2), got shape {tuple(xy.shape)}")
    outside = ~geometry.inside(xy, size=size)  # NaN compares as outside
    if outside.any():
        row = int(outside.nonzero()[0])
        x, y = xy[row].tolist()
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


def match_settings(encoder: Encoder, *, threshold: float | None = None, **changes: Any) -> MatchSettings:
    """The usual settings with the threshold this encoder was calibrated for, unless another is given."""
    return MatchSettings(threshold=encoder.threshold if threshold is None else threshold, **changes)


def _maps(encoder: Encoder, source: Seen, target: Seen) -> tuple[FeatureMap, FeatureMap]:
    """Features of two images, those that are not feature maps already encoded in one batch."""
    unseen = encoder.extract_stream([image for image in (source, target) if not isinstance(image, FeatureMap)])
    start, end = (image if isinstance(image, FeatureMap) else next(unseen) for image in (source, target))
    return start, end


def _encoder(model: Any) -> Encoder:
    if model is None or isinstance(model, str | Path):
        return _loaded(model)
    if not isinstance(model, Encoder) or isinstance(model, type):
        raise InputError(f"model must be what geco.load returns, or what it takes, got {checks.shown(model)}")
    return model


def _settings(encoder: Encoder, settings: Any) -> MatchSettings:
    if settings is not None and not isinstance(settings, MatchSettings):
        raise InputError(f"settings must be MatchSettings, got {checks.shown(settings)}")
    return matching.suited(match_settings(encoder) if settings is None else settings, encoder)


@lru_cache(maxsize=1)
def _loaded(name: str | Path | None) -> Geco:
    return load(name)
