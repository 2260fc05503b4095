"""Losses on a batch of annotated pairs: transport, and the sparse losses it is compared with.

All are called alike, `loss(source, target, pairs)`, with the feature maps of the two images and the annotation. Means
are over the sets of the whole batch. On several processes give `reduce_counts`, which sums a tensor over the
processes, and multiply the total by their number before the backward pass, because the gradients will be averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from geco import geometry, transport
from geco.config.transport import TERMS, LossSettings, TransportSettings
from geco.transport import Plan
from geco.types import FeatureMap, Keypoints, Pair, Size, Skeleton, View

ReduceCounts = Callable[[Tensor], Tensor]
DEFAULTS = LossSettings()


@dataclass(frozen=True)
class LossValue:
    """A loss, its terms before they are weighted, and how many entries of this process they were taken over."""

    total: Float[Tensor, ""]
    terms: dict[str, Float[Tensor, ""]]
    counts: dict[str, int]  # by term; also "skipped" pairs and "clamped" entries


def _alone(counts: Tensor) -> Tensor:
    return counts


# --- sets of cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Entries (i, j) of the plans of a batch; those not `valid` are padding or duplicates."""

    i: Int[Tensor, "b n"]
    j: Int[Tensor, "b n"]
    valid: Bool[Tensor, "b n"]


@dataclass(frozen=True)
class CellSets:
    """The paper's four sets. Cells are row-major, the bin comes after the last; a skipped pair has empty sets."""

    positive: Cells  # M⁺: visible in both images
    bin: Cells  # M⁰: visible in one image, so matched with the bin of the other
    negative: Cells  # M⁻: a keypoint and its twin
    background_rows: Bool[Tensor, "2 b r"]  # M^{fg/bg} is rows[k] × columns[k]: object × background, then the reverse
    background_columns: Bool[Tensor, "2 b c"]
    foregrounds: tuple[Bool[Tensor, "b h w"], Bool[Tensor, "b h2 w2"]]  # on the patch grids
    skipped: Bool[Tensor, "b"]  # one of the images shows no foreground patch

    def counts(self) -> Int[Tensor, "4"]:
        """Size of each set, in the order of TERMS."""
        sparse = [cells.valid.sum() for cells in (self.positive, self.bin, self.negative)]
        background = (self.background_rows.sum(-1) * self.background_columns.sum(-1)).sum()
        return torch.stack([*sparse, background])


def cell_sets(pairs: Pair, grids: tuple[Size, Size]) -> CellSets:
    """The sets of a batch of pairs on the patch grids of source and target, duplicates within a pair removed."""
    views = pairs.source, pairs.target
    foregrounds = _foreground(pairs.source, grids[0]), _foreground(pairs.target, grids[1])
    skipped = ~(foregrounds[0].flatten(1).any(1) & foregrounds[1].flatten(1).any(1))
    i, j = (
        geometry.cells(_keypoints(view).xy, size=view.size, grid=grid) for view, grid in zip(views, grids, strict=True)
    )
    in_source, in_target = (_keypoints(view).visible & ~skipped[:, None] for view in views)
    row_bin, column_bin = (torch.full_like(i, grid[0] * grid[1]) for grid in grids)
    twin = _twins(pairs, like=i)
    j_twin, twin_in_target = j.gather(1, twin), in_target.gather(1, twin)
    has_twin = twin != torch.arange(twin.shape[1], device=twin.device)
    rows, columns = (_object_and_rest(foreground, skipped) for foreground in foregrounds)
    return CellSets(
        positive=_distinct(i, j, in_source & in_target),
        bin=_distinct(
            torch.cat([i, row_bin], 1),
            torch.cat([column_bin, j], 1),
            torch.cat([in_source & ~in_target, in_target & ~in_source], 1),
        ),
        # (σ(i)_s, i_t) needs no line of its own: it is what the keypoint σ(i) adds.
        negative=_distinct(i, j_twin, in_source & twin_in_target & has_twin),
        background_rows=rows,
        background_columns=columns.flip(0),
        foregrounds=foregrounds,
        skipped=skipped,
    )


def visible_shares(pairs: Pair, settings: TransportSettings) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"]]:
    """x of source and target: how much of the skeleton each image shows, by its visible keypoints."""
    visible = [_keypoints(view).visible for view in (pairs.source, pairs.target)]
    sizes = [len(skeleton) for skeleton in _skeletons(pairs, len(visible[0]))]
    n = torch.tensor(sizes, dtype=torch.float32, device=visible[0].device)
    n = torch.full_like(n, visible[0].shape[1]) if settings.count_padding else n
    more = 1 if settings.share == "smoothed" else 0
    source, target = ((mask.sum(1) + more) / (n + more) for mask in visible)
    return source, target


def _distinct(i: Tensor, j: Tensor, valid: Tensor) -> Cells:
    """Of equal valid entries only the first stays valid."""
    same = (i[:, :, None] == i[:, None]) & (j[:, :, None] == j[:, None]) & valid[:, None]
    return Cells(i, j, valid & ~same.tril(-1).any(2))


def _object_and_rest(foreground: Bool[Tensor, "b h w"], skipped: Bool[Tensor, "b"]) -> Bool[Tensor, "2 b n"]:
    masks = torch.stack([foreground, ~foreground]).flatten(2) & ~skipped[:, None]
    return functional.pad(masks, (0, 1), value=False)  # the bin is neither


def _twins(pairs: Pair, like: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    batch, k = like.shape
    tables = [[*skeleton.twin, *range(len(skeleton), k)] for skeleton in _skeletons(pairs, batch)]
    return torch.tensor(tables, dtype=torch.long, device=like.device).view(batch, k)


def _skeletons(pairs: Pair, batch: int) -> tuple[Skeleton, ...]:
    return pairs.skeleton if isinstance(pairs.skeleton, tuple) else (pairs.skeleton,) * batch


def _keypoints(view: View) -> Keypoints:
    if view.keypoints is None:
        raise ValueError(f"a loss needs keypoints in both images, {view.name or 'a view'} has none")
    return view.keypoints


def _foreground(view: View, grid: Size) -> Bool[Tensor, "b h w"]:
    if not isinstance(view.mask, Tensor):
        raise ValueError(f"the transport loss needs masks as pixels, {view.name or 'a view'} has none; see geco.masks")
    return geometry.resize_labels(view.mask, grid)


# --- the transport loss -----------------------------------------------------------------------------------


class TransportLoss:
    """−log P on matches and bins, −log(1 − P) on twins and object against background (GECO eq. 7).

    Reductions: `reference` takes means and divides the first two by l + 1, `sum` is the paper's formula, and
    `conditional` takes means with P replaced by what it says about one patch: the average of P/(P1) and P/(Pᵀ1), and
    the one of them that belongs to the patch for entries with the bin.
    """

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.settings = settings

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = _alone
    ) -> LossValue:
        """The loss of a batch of pairs; features need not be of unit length."""
        sets = cell_sets(pairs, (source.grid, target.grid))
        plan = self.plan(source, target, pairs, sets)
        sums, clamped = self._sums(plan, sets)
        counts = sets.counts()
        if self.settings.reduction == "sum":
            divisors = torch.ones_like(sums)
        else:
            divisors = reduce_counts(counts).clamp(min=1).to(sums.dtype)
        if self.settings.reduction == "reference":
            divisors = divisors * divisors.new_tensor([plan.C.shape[1], plan.C.shape[1], 1, 1])
        terms = dict(zip(TERMS, (sums / divisors).unbind(), strict=True))
        weights = self.settings.weights()
        total = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        numbers = [*counts, sets.skipped.sum(), clamped]
        named = zip((*TERMS, "skipped", "clamped"), torch.stack(numbers).tolist(), strict=True)
        return LossValue(total, terms, dict(named))

    def plan(self, source: FeatureMap, target: FeatureMap, pairs: Pair, sets: CellSets) -> Plan:
        """The plan of each pair, with the marginals of its masks and visible keypoints."""
        settings = self.settings.transport
        C = transport.scores(source.unit(), target.unit(), settings.z)
        if settings.marginals == "uniform":
            a, b = (transport.uniform_marginals(len(C), n - 1, s=settings.s) for n in C.shape[1:])
        else:
            shares = visible_shares(pairs, settings)
            a, b = (
                transport.marginals(foreground, share, s=settings.s)
                for foreground, share in zip(sets.foregrounds, shares, strict=True)
            )
        return transport.solve(C, a, b, settings)

    def _sums(self, plan: Plan, sets: CellSets) -> tuple[Float[Tensor, "4"], Int[Tensor, ""]]:
        """Each term summed over its set, and the number of entries clamped in all."""
        inverses = None
        if self.settings.reduction == "conditional":
            inverses = _inverse(plan.row_sums), _inverse(plan.column_sums)
        floor, eps = self.settings.floor, self.settings.eps
        sums, clamped = [], []
        for cells in (sets.positive, sets.bin):
            log_p = _log_p(plan, cells, inverses)
            clamped.append(((log_p < log(floor)) & cells.valid).sum())
            sums.append(-log_p.clamp(min=log(floor)).where(cells.valid, 0.0).sum())
        p = _log_p(plan, sets.negative, inverses).exp()
        clamped.append(((p > 1 - eps) & sets.negative.valid).sum())
        sums.append(-_log_complement(p, eps).where(sets.negative.valid, 0.0).sum())
        halves = inverses and (inverses[0] / 2, inverses[1] / 2)
        block, block_clamped = plan.log_complement(
            sets.background_rows, sets.background_columns, weights=halves, eps=eps
        )
        return torch.stack([*sums, -block.sum()]), torch.stack([*clamped, block_clamped.sum()]).sum()


def _log_p(plan: Plan, cells: Cells, inverses: tuple[Tensor, Tensor] | None) -> Float[Tensor, "b n"]:
    """log P, or the logarithm of its conditional if the inverses of the row and column sums are given."""
    log_p = plan.log_at(cells.i, cells.j)
    if inverses is None:
        return log_p
    of_row, of_column = inverses[0].gather(1, cells.i), inverses[1].gather(1, cells.j)
    row_bin, column_bin = cells.i == plan.C.shape[1] - 1, cells.j == plan.C.shape[2] - 1
    factor = torch.where(row_bin, of_column, torch.where(column_bin, of_row, (of_row + of_column) / 2))
    return log_p + factor.log()


def _inverse(sums: Tensor) -> Tensor:
    return 1 / sums.clamp(min=torch.finfo(sums.dtype).tiny ** 0.5)


def _log_complement(p: Tensor, eps: float) -> Tensor:
    """log(1 − p) of p ≤ 1 − eps; above, that of 1 − eps with its slope (as in `Plan.log_complement`)."""
    return torch.log1p(-(p - (p.detach() - (1 - eps)).clamp(min=0)))


# --- the sparse losses it is compared with ----------------------------------------------------------------


class ContrastiveLoss:
    """Each keypoint should find its match among the visible keypoints of the other image, and back (CLIP-style)."""

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.temperature = settings.contrast_temperature

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = _alone
    ) -> LossValue:
        """The mean cross-entropy over matches of the batch, both directions averaged."""
        cells = _matches(source, target, pairs)
        f, g = _described(source, cells.i), _described(target, cells.j)
        logits = f.mT @ g / self.temperature  # (b, k, k)
        both = cells.valid[:, :, None] & cells.valid[:, None]
        logits = logits.masked_fill(~both, torch.finfo(logits.dtype).min / 2)  # −∞ would be NaN in an empty pair
        right = (logits.log_softmax(2) + logits.log_softmax(1)).diagonal(dim1=1, dim2=2) / 2
        return _mean_over_matches("contrastive", -right, cells, reduce_counts)


class SoftArgmaxLoss:
    """Distance between a keypoint and the average position of where its softmax over all patches lies, both ways.

    In units of the image's longer side.
    """

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.temperature = settings.position_temperature

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = _alone
    ) -> LossValue:
        """The mean distance over matches of the batch, both directions averaged."""
        cells = _matches(source, target, pairs)
        there = self._distance(_described(source, cells.i), target, pairs.target)
        back = self._distance(_described(target, cells.j), source, pairs.source)
        return _mean_over_matches("position", (there + back) / 2, cells, reduce_counts)

    def _distance(self, queries: Float[Tensor, "b c k"], image: FeatureMap, view: View) -> Float[Tensor, "b k"]:
        patches = image.unit().values.flatten(2)
        share = (queries.mT @ patches / self.temperature).softmax(2)  # (b, k, n)
        index = torch.arange(patches.shape[2], device=patches.device)
        centres = geometry.cell_centres(index, size=view.size, grid=image.grid)
        away = share @ centres.to(share.dtype) - _keypoints(view).xy
        return torch.linalg.vector_norm(away, dim=2) / max(view.size)


def _matches(source: FeatureMap, target: FeatureMap, pairs: Pair) -> Cells:
    """M⁺, which needs no mask."""
    i = geometry.cells(_keypoints(pairs.source).xy, size=pairs.source.size, grid=source.grid)
    j = geometry.cells(_keypoints(pairs.target).xy, size=pairs.target.size, grid=target.grid)
    return _distinct(i, j, _keypoints(pairs.source).visible & _keypoints(pairs.target).visible)


def _described(features: FeatureMap, cells: Int[Tensor, "b k"]) -> Float[Tensor, "b c k"]:
    values = features.unit().values.flatten(2)
    return values.gather(2, cells[:, None].expand(-1, values.shape[1], -1))


def _mean_over_matches(name: str, values: Tensor, cells: Cells, reduce_counts: ReduceCounts) -> LossValue:
    count, skipped = cells.valid.sum(), (~cells.valid.any(1)).sum()
    total = values.where(cells.valid, 0.0).sum() / reduce_counts(count).clamp(min=1)
    return LossValue(total, {name: total}, {name: int(count), "skipped": int(skipped), "clamped": 0})


LOSSES = {"transport": TransportLoss, "contrastive": ContrastiveLoss, "soft-argmax": SoftArgmaxLoss}
