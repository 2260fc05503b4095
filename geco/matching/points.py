"""Points of one image → where they lie in another, how sure, and whether they are visible there."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry, transport
from geco.errors import InputError
from geco.matching.scorer import Target, check_alike, check_finite, check_mask, prepare, queries, score_maps, unbatched
from geco.matching.settings import MatchSettings
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap, Matches

CHUNK = 1 << 24  # queries × pixels scored at once: 64 MB in float32


def transfer(
    source: FeatureMap,
    target: FeatureMap | Target,
    points: Float[Tensor, "k 2"],
    settings: MatchSettings = MatchSettings(),
    *,
    masks: tuple[Bool[Tensor, "h w"], Bool[Tensor, "h2 w2"]] | None = None,
    within: Bool[Tensor, "h2 w2"] | None = None,
) -> Matches:
    """Where points of the source image (pixels, corner origin) lie in the target image, and whether they are visible.

    `target` may be prepared once and asked many times; it must have been prepared with the same settings. `masks` of
    the two objects, in image pixels, inform the transport mode; the others do without. `within` is the mask of the
    target's pixels that may be answered: every answer is the best of them, or the one of them nearest to the best
    patch's centre (or to the mean position of the soft mode).
    """
    if not bool(torch.isfinite(points).all()):
        raise InputError("points must be finite numbers (x, y), got NaN or infinity")
    if within is not None:
        check_mask(within, target.image_size if isinstance(target, Target) else target.size)
    if settings.mode == "transport":
        return _by_transport(source, target, points, settings, masks, within)
    ready = target if isinstance(target, Target) else prepare(target, settings)
    descriptors = queries(source, points, settings)
    if not len(descriptors):
        return Matches(points, points.clone(), points.new_zeros(0), torch.zeros(0, dtype=torch.bool))
    step = max(1, CHUNK // (ready.size[0] * ready.size[1]))
    allowed = None if within is None else geometry.touched(within.to(ready.rows.device), ready.size)
    chunks = [_best(score_maps(some, ready), ready, settings, allowed) for some in descriptors.split(step)]
    place, score = (torch.cat(column) for column in zip(*chunks, strict=True))
    check_finite(score)
    place = geometry.resize_points(place, size=ready.size, to=ready.image_size).to(points.dtype)
    place = place if within is None else geometry.onto(within.to(place.device), place)
    return Matches(points, place, score, score >= settings.threshold)


def _by_transport(
    source: FeatureMap,
    target: FeatureMap | Target,
    points: Float[Tensor, "k 2"],
    settings: MatchSettings,
    masks: tuple[Bool[Tensor, "h w"], Bool[Tensor, "h2 w2"]] | None,
    within: Bool[Tensor, "h2 w2"] | None,
) -> Matches:
    """Each point goes where the plan sends its patch; hidden if the bin receives more than any patch of the target.

    The score is the share of the patch's mass that goes there.
    """
    if settings.normalise == "none":
        raise InputError("transport compares cosines, this model's descriptors are made for dot products; use nearest")
    if isinstance(target, Target):
        raise InputError("transport weighs both whole images; give the target's FeatureMap, not a prepared Target")
    if masks is not None and not all(bool(mask.any()) for mask in masks):
        raise InputError("a mask without any foreground leaves nothing to match; expected some pixels of both objects")
    first, second = unbatched(source), unbatched(target)
    check_alike(first.values, second.values, channels=(len(first.values), len(second.values)))
    check_finite(first.values.sum() + second.values.sum())
    plan = transport.match_plan(
        _one_sample(first.unit()),
        _one_sample(second.unit()),
        TransportSettings(z=settings.threshold, marginals="masks" if masks else "uniform"),
        foregrounds=masks and (_on_grid(masks[0], first), _on_grid(masks[1], second)),
        visible=settings.visible_share,
    )
    sent = plan.rows(geometry.cells(points, size=first.size, grid=first.grid)[None])[0]
    arrived = sent[:, :-1]
    if within is not None:
        arrived = arrived.masked_fill(~geometry.touched(within.to(sent.device), second.grid).flatten(), -1.0)
    most, index = arrived.max(-1)
    place = geometry.cell_centres(index, size=second.size, grid=second.grid).to(points.dtype)
    place = place if within is None else geometry.onto(within.to(place.device), place)
    share = most / sent.sum(-1).clamp_min(torch.finfo(sent.dtype).tiny)
    return Matches(points, place, share, most > sent[:, -1])


def _one_sample(features: FeatureMap) -> FeatureMap:
    return FeatureMap(features.values[None], features.size)


def _on_grid(mask: Bool[Tensor, "h w"], features: FeatureMap) -> Bool[Tensor, "1 h2 w2"]:
    return geometry.resize_labels(mask, features.grid)[None]


def _best(
    maps: Float[Tensor, "k h w"], target: Target, settings: MatchSettings, allowed: Bool[Tensor, "h w"] | None
) -> tuple[Float[Tensor, "k 2"], Float[Tensor, "k"]]:
    if allowed is not None:
        check_finite(maps)  # a NaN beside the mask would go unnoticed
        maps = maps.masked_fill(~allowed, -torch.inf)
    # The best pixel of the best row: unlike the flattened map's maximum with its index, this is vectorised.
    score, row = maps.amax(-1).max(-1)
    column = maps[torch.arange(len(maps), device=maps.device), row].argmax(-1)
    place = geometry.pixel_centres(row * target.size[1] + column, width=target.size[1]).to(maps.dtype)
    if settings.mode == "soft":
        place = _centre_of_mass(maps, place, target, settings)
    return place, score


def _centre_of_mass(
    maps: Float[Tensor, "k h w"], peak: Float[Tensor, "k 2"], target: Target, settings: MatchSettings
) -> Float[Tensor, "k 2"]:
    """Softmax-weighted mean position in a square around the peak (window soft-argmax)."""
    height, width = target.size
    x = torch.arange(width, dtype=maps.dtype, device=maps.device) + 0.5
    y = torch.arange(height, dtype=maps.dtype, device=maps.device) + 0.5
    reach_x = settings.window / 2 * width / target.columns.shape[1]
    reach_y = settings.window / 2 * height / target.rows.shape[1]
    near_x = (x - peak[:, :1]).abs() <= reach_x
    near_y = (y - peak[:, 1:]).abs() <= reach_y
    near = near_y[:, :, None] & near_x[:, None, :]
    weight = (maps / settings.temperature).masked_fill(~near, -torch.inf).flatten(1).softmax(-1).view_as(maps)
    return torch.stack([weight.sum(1) @ x, weight.sum(2) @ y], dim=-1)
