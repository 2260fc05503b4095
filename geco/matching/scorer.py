"""The exact scorer: similarity of points to every pixel of the upsampled target, at the cost of patches.

The score of a pixel is the cosine between the query and the target map upsampled bilinearly to the image (GECO §4).
This needs no upsampled map of C channels. Upsampling is linear, so ⟨q, U(t)⟩ = U(⟨q, t⟩): the numerator is an
upsampled *score* map. And ‖U(t)‖² is a quadratic form in the four patches around a pixel, so five maps of dot products
per target (a patch with itself, its right, lower, lower-right and lower-left neighbour) give every denominator.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from geco import geometry
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.types import FeatureMap, Size


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
    features = unbatched(target)
    values = features.unit().values if settings.normalise == "before" else features.values
    height, width = features.size if settings.upsample else features.grid
    rows, row_pairs = _interpolation(features.grid[0], height, values.dtype, values.device)
    columns, column_pairs = _interpolation(features.grid[1], width, values.dtype, values.device)
    if settings.normalise != "after":
        inverse_norm = values.new_ones(height, width)
    else:
        # ‖U(t)‖² = Σ of weights × dot products over the pairs of patches in a 2×2 cell; the weights are separable.
        own = (values * values).sum(0)
        level = (values[:, :, :-1] * values[:, :, 1:]).sum(0)
        upright = (values[:, :-1] * values[:, 1:]).sum(0)
        falling = (values[:, :-1, :-1] * values[:, 1:, 1:]).sum(0)
        rising = (values[:, :-1, 1:] * values[:, 1:, :-1]).sum(0)
        upper, lower = torch.cat([own, 2 * level], -1), torch.cat([2 * upright, 2 * (falling + rising)], -1)
        square = row_pairs @ torch.cat([upper, lower]) @ column_pairs.mT
        inverse_norm = square.clamp_min(torch.finfo(square.dtype).tiny).rsqrt()
    return Target(values.flatten(1).mT.contiguous(), rows, columns, inverse_norm, features.size)


@lru_cache(maxsize=64)  # images of a collection share few sizes
@torch.inference_mode(False)  # a tensor that was made in inference mode could not be used where gradients are needed
def _interpolation(
    cells: int, pixels: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n2"]]:
    """Bilinear weights of one axis (align_corners=False, border clamped), and what they become inside ‖·‖².

    With f the pixel's fraction between cell i and i+1: (1−f, f) at (i, i+1). Inside ‖·‖² their squares at the same
    n places, followed by the product f(1−f) at i, the place of the pair (i, i+1), of which there are n − 1.
    """
    position = (torch.arange(pixels, dtype=torch.float64, device=device) + 0.5) * (cells / pixels) - 0.5
    position = position.clamp(0, cells - 1)
    first = position.floor().long()
    f = (position - first)[:, None]
    here = functional.one_hot(first, cells)
    following = functional.one_hot((first + 1).clamp(max=cells - 1), cells)
    linear = (1 - f) * here + f * following
    squares = (1 - f) ** 2 * here + f**2 * following
    products = (f * (1 - f) * here)[:, : cells - 1]
    return linear.to(dtype), torch.cat([squares, products], -1).to(dtype)


def queries(
    source: FeatureMap, points: Float[Tensor, "k 2"], settings: MatchSettings = MatchSettings()
) -> Float[Tensor, "k c"]:
    """Descriptors of points of the source image: bilinear samples of its map, of unit length for cosines."""
    features = unbatched(source)
    features = features.unit() if settings.normalise == "before" else features
    samples = geometry.sample(features.values, points, size=features.size)
    return samples if settings.normalise == "none" else functional.normalize(samples, dim=-1)


def score_maps(queries: Float[Tensor, "k c"], target: Target) -> Float[Tensor, "k h w"]:
    """Cosine (or dot product, as the target was prepared) of each query with every pixel of the upsampled target."""
    grid = (target.rows.shape[1], target.columns.shape[1])
    check_alike(queries, target.patches, channels=(queries.shape[-1], target.patches.shape[-1]))
    scores = (queries @ target.patches.mT).unflatten(-1, grid)
    tall = (target.rows @ scores).flatten(0, -2)  # one product of all queries' rows is faster than one for each query
    return (tall @ target.columns.mT).unflatten(0, (len(queries), len(target.rows))).mul_(target.inverse_norm)


def unbatched(features: FeatureMap) -> FeatureMap:
    """The map of one image, without a batch dimension."""
    if not isinstance(features, FeatureMap):
        raise InputError(f"matching takes feature maps (geco.features makes them), got {type(features).__name__}")
    values = features.values
    if values.ndim == 4 and len(values) == 1:
        return unbatched(FeatureMap(values[0], features.size))
    if values.ndim != 3 or not values.numel():
        raise InputError(f"matching takes one image at a time, (c, h, w) features, got {tuple(values.shape)}")
    return features


def check_alike(first: Tensor, second: Tensor, *, channels: tuple[int, int]) -> None:
    """Raise unless descriptors of two images can be compared: from one model, in one precision, on one device."""
    if channels[0] != channels[1]:
        raise InputError(
            f"the features of the source have {channels[0]} channels, those of the target {channels[1]}; "
            "extract both with the same model"
        )
    if (first.dtype, first.device) != (second.dtype, second.device):
        raise InputError(
            f"the features of the source are {first.dtype} on {first.device}, those of the target {second.dtype} on "
            f"{second.device}; convert one of them"
        )


def check_finite(scores: Tensor) -> None:
    """Raise if a similarity is no number, because the features are none."""
    if not bool(torch.isfinite(scores).all()):
        raise InputError("the features hold NaN or infinity, so nothing can be matched; are the weights damaged?")


def check_mask(mask: Bool[Tensor, "h w"], size: Size) -> None:
    """Raise unless the mask is that of an image of this size, with something on it."""
    if tuple(mask.shape) != tuple(size):
        raise InputError(
            f"a mask is as large as its image, {size[0]}×{size[1]} (height×width), got {mask.shape[0]}×{mask.shape[1]}"
        )
    if not bool(mask.any()):
        raise InputError("a mask without any foreground leaves nothing to match; expected some pixels of the object")
