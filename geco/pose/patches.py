"""Matching an image with a decorated mesh: the vertex most similar to each patch, or to given points."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco import geometry
from geco.errors import InputError
from geco.pose.vertices import Decoration
from geco.types import FeatureMap

CHUNK = 1024  # queries compared with all vertices at once


@dataclass(frozen=True)
class SurfaceMatches:
    """Points of an image and the vertices they were matched with."""

    xy: Float[Tensor, "k 2"]  # pixels of the image
    vertex: Int[Tensor, "k"]
    score: Float[Tensor, "k"]  # cosine
    cycle: Float[Tensor, "k"]  # how far from the point, in patches, its vertex's own best patch lies

    def where(self, rows: Bool[Tensor, "k"]) -> "SurfaceMatches":
        """Some of the matches."""
        return SurfaceMatches(self.xy[rows], self.vertex[rows], self.score[rows], self.cycle[rows])

    def __len__(self) -> int:
        return len(self.score)


def match_patches(
    features: FeatureMap, decoration: Decoration, *, mask: Bool[Tensor, "h w"] | None = None
) -> SurfaceMatches:
    """The most similar vertex of each patch, of those whose centre lies on the mask if there is one."""
    cells = torch.arange(features.grid[0] * features.grid[1])
    xy = geometry.cell_centres(cells, size=features.size, grid=features.grid)
    if mask is not None:
        if tuple(mask.shape) != tuple(features.size):
            raise InputError(f"the mask must have the image's size {features.size}, got {tuple(mask.shape)}")
        xy = xy[geometry.resize_labels(mask.cpu(), features.grid).flatten()]
    return match_points(features, xy, decoration)


def match_points(features: FeatureMap, xy: Float[Tensor, "k 2"], decoration: Decoration) -> SurfaceMatches:
    """The most similar vertex at each point (x, y) of the image."""
    usable = decoration.seen > 0
    vertices, known = decoration.features[usable].float(), usable.nonzero()[:, 0]
    values = features.values.float().cpu()
    queries = torch.nn.functional.normalize(geometry.sample(values, xy.to(values), size=features.size), dim=-1)
    best = [(rows @ vertices.mT).max(1) for rows in queries.split(CHUNK)]
    score = torch.cat([part.values for part in best]) if best else queries.new_zeros(0)
    vertex = torch.cat([part.indices for part in best]) if best else known[:0]
    return SurfaceMatches(xy, known[vertex], score, _cycle(features, xy, vertices, vertex))


def _cycle(
    features: FeatureMap, xy: Float[Tensor, "k 2"], vertices: Float[Tensor, "v c"], vertex: Int[Tensor, "k"]
) -> Float[Tensor, "k"]:
    """Distance in patches between each point and the patch most similar to its vertex."""
    unit = features.unit().values.float().cpu().flatten(1)
    used, row = vertex.unique(return_inverse=True)
    back = (vertices[used] @ unit).argmax(1)[row] if len(used) else vertex
    centre = geometry.cell_centres(back, size=features.grid, grid=features.grid)
    return (geometry.resize_points(xy.float(), size=features.size, to=features.grid) - centre).norm(dim=-1)


def closed(matches: SurfaceMatches, cycle: float) -> SurfaceMatches:
    """The matches whose vertex leads back to within `cycle` patches of where they began."""
    return matches if math.isinf(cycle) else matches.where(matches.cycle <= cycle)
