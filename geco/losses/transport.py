"""The transport loss: what the plan should say about keypoints, their twins, hidden points and background."""

from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco import transport
from geco.losses.cells import Cells, CellSets, cell_sets, visible_shares
from geco.losses.contract import LossValue, ReduceCounts, whole
from geco.losses.settings import TERMS, LossSettings
from geco.transport import Plan
from geco.types import FeatureMap, Pair, Size

DEFAULTS = LossSettings()


class TransportLoss:
    """−log P on matches and bins, −log(1 − P) on twins and object against background (GECO eq. 7).

    Reductions: `reference` takes means and divides the first two by l + 1, `sum` is the paper's formula, and
    `conditional` takes means with P replaced by what it says about one patch: the average of P/(P1) and P/(Pᵀ1), and
    the one of them that belongs to the patch for entries with the bin.
    """

    def __init__(self, settings: LossSettings = DEFAULTS) -> None:
        self.settings = settings

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = whole
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

    def set_sizes(self, pairs: Pair, grids: tuple[Size, Size]) -> Int[Tensor, "4"]:
        """Sizes of the paper's four sets, in the order of TERMS."""
        return cell_sets(pairs, grids).counts()

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
