"""Matching: feature maps and points → where each point went, scored on the upsampled image at the cost of patches.

The score of a pixel is the cosine between the query and the target map upsampled bilinearly to the image (GECO §4).
Nobody needs to upsample C channels for that. Upsampling is linear, so ⟨q, U(t)⟩ = U(⟨q, t⟩): the numerator is an
upsampled *score* map. And ‖U(t)‖² is a quadratic form in the four patches around a pixel, so five maps of dot products
per target (a patch with itself, its right, lower, lower-right and lower-left neighbour) give every denominator.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from geco import geometry, transport
from geco.config.matching import MatchSettings
from geco.config.transport import TransportSettings
from geco.types import FeatureMap, Matches, Size

CHUNK = 1 << 24  # queries × pixels scored at once: 64 MB in float32

# --- the exact scorer -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A target image ready for queries: its patches, how they spread over pixels, and 1/‖U(t)‖, computed once."""

    patches: Float[Tensor, "n c"]  # row-major
    rows: Float[Tensor, "h2 h"]  # upsampling is rows @ map @ columnsᵀ
    columns: Float[Tensor, "w2 w"]
    inverse_norm: Float[Tensor, "h2 w2"]
    image_size: Size

    @property
    def size(self) -> Size:
        """(height, width) of a score map: the image's own, or the grid's if nothing is upsampled."""
        return self.rows.shape[0], self.columns.shape[0]


def prepare(target: FeatureMap, settings: MatchSettings = MatchSettings()) -> Target:
    """The target ready to be asked about any number of points."""
    features = _unbatched(target)
    before = settings.normalise == "before"
    values = features.unit().values if before else features.values
    height, width = features.size if settings.upsample else features.grid
    rows, row_squares, row_products = _interpolation(features.grid[0], height, like=values)
    columns, column_squares, column_products = _interpolation(features.grid[1], width, like=values)
    if before:
        inverse_norm = values.new_ones(height, width)
    else:
        # ‖U(t)‖² = Σ of weights × dot products over the pairs of patches in a 2×2 cell; the weights are separable.
        own = (values * values).sum(0)
        level = (values[:, :, :-1] * values[:, :, 1:]).sum(0)
        upright = (values[:, :-1] * values[:, 1:]).sum(0)
        falling = (values[:, :-1, :-1] * values[:, 1:, 1:]).sum(0)
        rising = (values[:, :-1, 1:] * values[:, 1:, :-1]).sum(0)
        square = (
            row_squares @ own @ column_squares.mT
            + 2 * (row_squares @ level @ column_products.mT)
            + 2 * (row_products @ upright @ column_squares.mT)
            + 2 * (row_products @ (falling + rising) @ column_products.mT)
        )
        inverse_norm = square.clamp_min(torch.finfo(square.dtype).tiny).rsqrt()
    return Target(values.flatten(1).mT.contiguous(), rows, columns, inverse_norm, features.size)


def _interpolation(
    cells: int, pixels: int, *, like: Tensor
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"], Float[Tensor, "m n1"]]:
    """Bilinear weights of one axis (align_corners=False, border clamped), and what they become inside ‖·‖².

    With f the pixel's fraction between cell i and i+1: (1−f, f) at (i, i+1); their squares at the same places; and
    the product f(1−f) at i, the place of the pair (i, i+1).
    """
    position = (torch.arange(pixels, dtype=torch.float64, device=like.device) + 0.5) * (cells / pixels) - 0.5
    position = position.clamp(0, cells - 1)
    first = position.floor().long()
    f = (position - first)[:, None]
    here = functional.one_hot(first, cells)
    following = functional.one_hot((first + 1).clamp(max=cells - 1), cells)
    linear = (1 - f) * here + f * following
    squares = (1 - f) ** 2 * here + f**2 * following
    products = (f * (1 - f) * here)[:, : cells - 1]
    return linear.to(like.dtype), squares.to(like.dtype), products.to(like.dtype)


def queries(
    source: FeatureMap, points: Float[Tensor, "k 2"], settings: MatchSettings = MatchSettings()
) -> Float[Tensor, "k c"]:
    """Unit descriptors of points of the source image: bilinear samples of its map."""
    features = _unbatched(source)
    features = features.unit() if settings.normalise == "before" else features
    return functional.normalize(geometry.sample(features.values, points, size=features.size), dim=-1)


def score_maps(queries: Float[Tensor, "k c"], target: Target) -> Float[Tensor, "k h w"]:
    """Cosine of each query with every pixel of the upsampled target."""
    grid = (target.rows.shape[1], target.columns.shape[1])
    scores = (queries @ target.patches.mT).unflatten(-1, grid)
    return (target.rows @ scores @ target.columns.mT).mul_(target.inverse_norm)


# --- points -----------------------------------------------------------------------------------------------------------


def transfer(
    source: FeatureMap,
    target: FeatureMap | Target,
    points: Float[Tensor, "k 2"],
    settings: MatchSettings = MatchSettings(),
    *,
    masks: tuple[Bool[Tensor, "h w"], Bool[Tensor, "h2 w2"]] | None = None,
) -> Matches:
    """Where points of the source image (pixels, corner origin) lie in the target image, and whether they are visible.

    `target` may be prepared once and asked many times; it must have been prepared with the same settings. `masks` of
    the two objects, in image pixels, inform the transport mode; the others do without.
    """
    if settings.mode == "transport":
        return _by_transport(source, target, points, settings, masks)
    ready = target if isinstance(target, Target) else prepare(target, settings)
    asked = queries(source, points, settings)
    step = max(1, CHUNK // (ready.size[0] * ready.size[1]))
    found = [_best(score_maps(asked[i : i + step], ready), ready, settings) for i in range(0, len(asked), step)]
    if not found:
        return Matches(points, points.clone(), points.new_zeros(0), torch.zeros(0, dtype=torch.bool))
    place, score = (torch.cat(column) for column in zip(*found, strict=True))
    place = geometry.resize_points(place, size=ready.size, to=ready.image_size).to(points.dtype)
    return Matches(points, place, score, score >= settings.bin)


def _by_transport(
    source: FeatureMap,
    target: FeatureMap | Target,
    points: Float[Tensor, "k 2"],
    settings: MatchSettings,
    masks: tuple[Bool[Tensor, "h w"], Bool[Tensor, "h2 w2"]] | None,
) -> Matches:
    """Each point goes where the plan sends its patch; hidden if the bin receives more than any patch of the target.

    The score is the share of the patch's mass that goes there.
    """
    if isinstance(target, Target):
        raise ValueError("transport weighs both whole images; give the target's FeatureMap, not a prepared Target")
    first, second = _unbatched(source), _unbatched(target)
    plan = transport.match_plan(
        _one_sample(first.unit()),
        _one_sample(second.unit()),
        TransportSettings(z=settings.bin, marginals="masks" if masks else "uniform"),
        foregrounds=masks and (_on_grid(masks[0], first), _on_grid(masks[1], second)),
        visible=settings.visible_share,
    )
    sent = plan.rows(geometry.cells(points, size=first.size, grid=first.grid)[None])[0]
    most, index = sent[:, :-1].max(-1)
    place = geometry.cell_centres(index, size=second.size, grid=second.grid).to(points.dtype)
    share = most / sent.sum(-1).clamp_min(torch.finfo(sent.dtype).tiny)
    return Matches(points, place, share, most > sent[:, -1])


def _one_sample(features: FeatureMap) -> FeatureMap:
    return FeatureMap(features.values[None], features.size)


def _on_grid(mask: Bool[Tensor, "h w"], features: FeatureMap) -> Bool[Tensor, "1 h2 w2"]:
    return geometry.resize_labels(mask, features.grid)[None]


def _best(
    maps: Float[Tensor, "k h w"], target: Target, settings: MatchSettings
) -> tuple[Float[Tensor, "k 2"], Float[Tensor, "k"]]:
    score, index = maps.flatten(1).max(-1)
    place = geometry.pixel_centres(index, width=target.size[1]).to(maps.dtype)
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


# --- patches ----------------------------------------------------------------------------------------------------------


def nearest(source: FeatureMap, target: FeatureMap, settings: MatchSettings = MatchSettings()) -> Matches:
    """For every patch of the source, the most similar patch of the target: centres in pixels, row-major order."""
    cosines = similarity(source, target)
    score, index = cosines.max(-1)
    return _patch_matches(source, target, torch.arange(len(index), device=index.device), index, score, settings)


def mutual(source: FeatureMap, target: FeatureMap, settings: MatchSettings = MatchSettings()) -> Matches:
    """The patches that are each other's most similar one, best first."""
    cosines = similarity(source, target)
    score, forward = cosines.max(-1)
    backward = cosines.argmax(0)
    own = torch.arange(len(forward), device=forward.device)
    kept = own[backward[forward] == own]
    kept = kept[score[kept].argsort(descending=True, stable=True)]
    return _patch_matches(source, target, kept, forward[kept], score[kept], settings)


def similarity(source: FeatureMap, target: FeatureMap) -> Float[Tensor, "n m"]:
    """Cosines of all source patches with all target patches, row-major."""
    first, second = (_unbatched(features).unit().values.flatten(1) for features in (source, target))
    return first.mT @ second


def _patch_matches(
    source: FeatureMap,
    target: FeatureMap,
    rows: Int[Tensor, "k"],
    columns: Int[Tensor, "k"],
    score: Float[Tensor, "k"],
    settings: MatchSettings,
) -> Matches:
    start = geometry.cell_centres(rows, size=source.size, grid=source.grid).to(score.dtype)
    end = geometry.cell_centres(columns, size=target.size, grid=target.grid).to(score.dtype)
    return Matches(start, end, score, score >= settings.bin)


def _unbatched(features: FeatureMap) -> FeatureMap:
    values = features.values
    if values.ndim == 4 and len(values) == 1:
        return FeatureMap(values[0], features.size)
    if values.ndim != 3:
        raise ValueError(f"matching takes one image at a time, (c, h, w) features, got {tuple(values.shape)}")
    return features
