"""The published similarity of SphericalMaps: features of two images reduced together, and distances instead of cosines.

Neither is a property of one image, so the maps of a pair are made for each other: the source's names its cells, the
target's holds the similarity of every cell to each of them. Their dot product is the similarity.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

REDUCED = 256  # channels of each of Stable Diffusion's maps after the reduction

Map = Float[Tensor, "_ _ _"]  # channels, rows, columns


def reduced_together(first: Map, second: Map, *, dim: int = REDUCED) -> tuple[Map, Map]:
    """Both maps in the `dim` principal components of all their cells together (the original approximates them)."""
    cells = torch.cat([values.flatten(1).mT for values in (first, second)])
    cells = cells - cells.mean(0)
    _, vectors = torch.linalg.eigh(cells.mT @ cells)  # in ascending order
    reduced = (cells @ vectors[:, -dim:]).mT  # (dim, n1 + n2)
    n = first[0].numel()
    return reduced[:, :n].unflatten(1, first.shape[1:]), reduced[:, n:].unflatten(1, second.shape[1:])


def fused(maps: Sequence[Map], tokens: Map) -> Map:
    """Reduced maps of Stable Diffusion, from the finest, as one unit vector in each cell, and the token's beside it.

    A coarser map is brought to the resolution of the next finer one, step by step.
    """
    coarse = maps[-1]
    for finer in reversed(maps[:-1]):
        upsampled = functional.interpolate(coarse[None], finer.shape[1:], mode="bilinear", align_corners=False)[0]
        coarse = torch.cat([finer, upsampled])
    return torch.cat([functional.normalize(coarse, dim=0), functional.normalize(tokens, dim=0)])


def similarities(
    source: tuple[Map, Map], target: tuple[Map, Map], *, share: float
) -> tuple[Float[Tensor, "n h w"], Float[Tensor, "n h2 w2"]]:
    """Maps of two images, given as (features, points on the sphere), whose dot products are their similarities.

    The similarity of two cells is 1 − (1−s)·‖f − f'‖ − s·‖p − p'‖: the original's, plus one.
    """
    of_features, of_points = (_distances(a, b) for a, b in zip(source, target, strict=True))
    distance = (1 - share) * of_features + share * of_points
    count, grid = distance.shape[0], source[0].shape[1:]
    names = torch.eye(count, dtype=distance.dtype, device=distance.device).unflatten(1, grid)
    return names, (1 - distance).unflatten(1, target[0].shape[1:])


def _distances(source: Map, target: Map) -> Float[Tensor, "n m"]:
    """Euclidean distances of all source cells to all target cells."""
    a, b = source.flatten(1), target.flatten(1)
    square = a.square().sum(0)[:, None] + b.square().sum(0) - 2 * a.mT @ b
    return square.clamp_min(0).sqrt()
