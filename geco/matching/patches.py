"""Patches of two images: the most similar ones, the mutual ones."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco import geometry
from geco.errors import InputError
from geco.matching.scorer import check_alike, check_finite, check_mask, unbatched
from geco.matching.settings import MatchSettings
from geco.types import FeatureMap, Matches


def nearest(source: FeatureMap, target: FeatureMap, settings: MatchSettings = MatchSettings()) -> Matches:
    """For every patch of the source, the most similar patch of the target: centres in pixels, row-major order."""
    cosines = similarity(source, target, settings)
    score, index = cosines.max(-1)
    return _patch_matches(source, target, torch.arange(len(index), device=index.device), index, score, settings)


def mutual(
    source: FeatureMap,
    target: FeatureMap,
    settings: MatchSettings = MatchSettings(),
    *,
    masks: tuple[Bool[Tensor, "h w"] | None, Bool[Tensor, "h2 w2"] | None] = (None, None),
) -> Matches:
    """The patches that are each other's most similar one, best first; with `masks`, of those whose centre is on them.

    A mask is as large as its image, in pixels; what is not on it takes no part, so that the most similar patch is the
    most similar one of the object.
    """
    cosines = similarity(source, target, settings)
    check_finite(cosines)
    inside = [_on_mask(features, mask, cosines) for features, mask in zip((source, target), masks, strict=True)]
    cosines = cosines[inside[0]][:, inside[1]]
    score, forward = cosines.max(-1)
    backward = cosines.argmax(0)
    own = torch.arange(len(forward), device=forward.device)
    rows = own[backward[forward] == own]
    rows = rows[score[rows].argsort(descending=True, stable=True)]
    return _patch_matches(source, target, inside[0][rows], inside[1][forward[rows]], score[rows], settings)


def _on_mask(features: FeatureMap, mask: Bool[Tensor, "h w"] | None, like: Tensor) -> Int[Tensor, "n"]:
    """Row-major indices of the patches whose centre is on the mask; all of them without one."""
    if mask is None:
        return torch.arange(features.grid[0] * features.grid[1], device=like.device)
    check_mask(mask, features.size)
    inside = geometry.resize_labels(mask, features.grid).flatten().nonzero()[:, 0].to(like.device)
    if not len(inside):
        raise InputError("the mask is smaller than a patch, so nothing is left to match; give a box around the object")
    return inside


def similarity(
    source: FeatureMap, target: FeatureMap, settings: MatchSettings = MatchSettings()
) -> Float[Tensor, "n m"]:
    """Cosines (or dot products, if the settings say so) of all source patches with all target patches, row-major."""
    maps = [unbatched(features) for features in (source, target)]
    first, second = (
        (features if settings.normalise == "none" else features.unit()).values.flatten(1) for features in maps
    )
    check_alike(first, second, channels=(len(first), len(second)))
    return first.mT @ second


def _patch_matches(
    source: FeatureMap,
    target: FeatureMap,
    rows: Int[Tensor, "k"],
    columns: Int[Tensor, "k"],
    score: Float[Tensor, "k"],
    settings: MatchSettings,
) -> Matches:
    check_finite(score)
    start = geometry.cell_centres(rows, size=source.size, grid=source.grid).to(score.dtype)
    end = geometry.cell_centres(columns, size=target.size, grid=target.grid).to(score.dtype)
    return Matches(start, end, score, score >= settings.threshold)
