"""The sparse losses that transport is compared with: contrastive, and soft-argmax position. Neither needs masks."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco import geometry
from geco.losses.cells import Cells, distinct
from geco.losses.contract import LossValue, ReduceCounts, whole
from geco.losses.settings import LossSettings
from geco.types import FeatureMap, Pair, Size, View

DEFAULTS = LossSettings()


class ContrastiveLoss:
    """Each keypoint should find its match among the visible keypoints of the other image, and back (CLIP-style)."""

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.temperature = settings.contrast_temperature

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = whole
    ) -> LossValue:
        """The mean cross-entropy over matches of the batch, both directions averaged."""
        cells = _matches(pairs, (source.grid, target.grid))
        f, g = _described(source, cells.i), _described(target, cells.j)
        logits = f.mT @ g / self.temperature  # (b, k, k)
        both = cells.valid[:, :, None] & cells.valid[:, None]
        logits = logits.masked_fill(~both, torch.finfo(logits.dtype).min / 2)  # −∞ would be NaN in an empty pair
        right = (logits.log_softmax(2) + logits.log_softmax(1)).diagonal(dim1=1, dim2=2) / 2
        return _mean_over_matches("contrastive", -right, cells, reduce_counts)

    def set_sizes(self, pairs: Pair, grids: tuple[Size, Size]) -> Int[Tensor, ""]:
        """Number of matches."""
        return _matches(pairs, grids).valid.sum()


class SoftArgmaxLoss:
    """Distance between a keypoint and the average position of where its softmax over all patches lies, both ways.

    In units of the image's longer side.
    """

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.temperature = settings.position_temperature

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = whole
    ) -> LossValue:
        """The mean distance over matches of the batch, both directions averaged."""
        cells = _matches(pairs, (source.grid, target.grid))
        there = self._distance(_described(source, cells.i), target, pairs.target)
        back = self._distance(_described(target, cells.j), source, pairs.source)
        return _mean_over_matches("position", (there + back) / 2, cells, reduce_counts)

    def set_sizes(self, pairs: Pair, grids: tuple[Size, Size]) -> Int[Tensor, ""]:
        """Number of matches."""
        return _matches(pairs, grids).valid.sum()

    def _distance(self, queries: Float[Tensor, "b c k"], image: FeatureMap, view: View) -> Float[Tensor, "b k"]:
        patches = image.unit().values.flatten(2)
        share = (queries.mT @ patches / self.temperature).softmax(2)  # (b, k, n)
        index = torch.arange(patches.shape[2], device=patches.device)
        centres = geometry.cell_centres(index, size=view.size, grid=image.grid)
        away = share @ centres.to(share.dtype) - view.points.xy
        return torch.linalg.vector_norm(away, dim=2) / max(view.size)


def _matches(pairs: Pair, grids: tuple[Size, Size]) -> Cells:
    """M⁺, which needs no mask."""
    i = geometry.cells(pairs.source.points.xy, size=pairs.source.size, grid=grids[0])
    j = geometry.cells(pairs.target.points.xy, size=pairs.target.size, grid=grids[1])
    return distinct(i, j, pairs.source.points.visible & pairs.target.points.visible)


def _described(features: FeatureMap, cells: Int[Tensor, "b k"]) -> Float[Tensor, "b c k"]:
    values = features.unit().values.flatten(2)
    return values.gather(2, cells[:, None].expand(-1, values.shape[1], -1))


def _mean_over_matches(name: str, values: Tensor, cells: Cells, reduce_counts: ReduceCounts) -> LossValue:
    count, skipped = cells.valid.sum(), (~cells.valid.any(1)).sum()
    total = values.where(cells.valid, 0.0).sum() / reduce_counts(count).clamp(min=1)
    return LossValue(total, {name: total}, {name: int(count), "skipped": int(skipped), "clamped": 0})
