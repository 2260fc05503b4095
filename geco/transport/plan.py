"""The plan of a transport problem, formed only on request: its entries, rows and blocks, with their gradients."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 256  # rows of a block that are worked on at once: the temporaries then stay in a core's cache


@dataclass(frozen=True)
class Plan:
    """P = exp(C/λ + f + g), not formed unless asked for: what each source patch sends to each target patch.

    The last row is the source's bin, the last column the target's. All that is read has its gradient.
    """

    C: Float[Tensor, "b r c"]
    f: Float[Tensor, "b r"]  # log u, −∞ where the mass is zero
    g: Float[Tensor, "b c"]  # log v
    row_sums: Float[Tensor, "b r"]  # P1
    column_sums: Float[Tensor, "b c"]  # Pᵀ1
    lam: float

    def log_at(self, i: Int[Tensor, "b n"], j: Int[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """log P at n entries of each sample, −∞ where there is no mass; index −1 is the bin."""
        i, j = i % self.C.shape[1], j % self.C.shape[2]
        return _Entries.apply(self.C, i, j) / self.lam + self.f.gather(1, i) + self.g.gather(1, j)

    def at(self, i: Int[Tensor, "b n"], j: Int[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """P at n entries of each sample; index −1 is the bin."""
        return self.log_at(i, j).exp()

    def rows(self, i: Int[Tensor, "b n"]) -> Float[Tensor, "b n c"]:
        """Whole rows of P: what n source patches send to each target patch and, last, to the bin."""
        i = i % self.C.shape[1]
        scores = self.C.gather(1, i[..., None].expand(-1, -1, self.C.shape[2]))
        return (scores / self.lam + self.f.gather(1, i)[..., None] + self.g[:, None]).exp()

    def block(self, rows: Bool[Tensor, "b r"], columns: Bool[Tensor, "b c"]) -> Float[Tensor, "n"]:
        """P where both masks hold, row by row, sample by sample; for large blocks see `log_complement`."""
        sample, i, j = (rows[:, :, None] & columns[:, None]).nonzero(as_tuple=True)
        return (self.C[sample, i, j] / self.lam + self.f[sample, i] + self.g[sample, j]).exp()

    def log_complement(
        self,
        rows: Bool[Tensor, "k b r"],
        columns: Bool[Tensor, "k b c"],
        *,
        weights: tuple[Float[Tensor, "b r"], Float[Tensor, "b c"]] | None = None,
        eps: float = 1e-6,
    ) -> tuple[Float[Tensor, "b"], Int[Tensor, "b"]]:
        """Σ log(1 − p) of each sample over k disjoint blocks, none held whole, and the number of p clamped.

        p is P, or P_ij (w_i + w'_j) with `weights`. Above 1 − eps it counts as 1 − eps, with the slope of
        that value rather than none, so that it is still pushed down.
        """
        w_row, w_column = weights or (None, None)
        return _LogComplement.apply(self.C, self.f, self.g, w_row, w_column, rows, columns, self.lam, eps)

    @property
    def row_bin(self) -> Float[Tensor, "b m"]:
        """What the source's bin sends to each target patch: how hidden it is in the source."""
        return (self.C[:, -1, :-1] / self.lam + self.f[:, -1:] + self.g[:, :-1]).exp()

    @property
    def column_bin(self) -> Float[Tensor, "b l"]:
        """What each source patch sends to the target's bin: how hidden it is in the target."""
        return (self.C[:, :-1, -1] / self.lam + self.f[:, :-1] + self.g[:, -1:]).exp()

    def dense(self) -> Float[Tensor, "b r c"]:
        """The whole of P."""
        return (self.C / self.lam + self.f[:, :, None] + self.g[:, None]).exp()

    def mass(self) -> Float[Tensor, "b"]:
        """Total mass; one in the balanced problem."""
        return self.column_sums.sum(1)


class _Entries(torch.autograd.Function):
    """Scores at n places of each sample; the gradient is sparse, where that of C[s, i, j] is dense."""

    @staticmethod
    def forward(ctx: Any, C: Tensor, i: Tensor, j: Tensor) -> Tensor:
        sample = torch.arange(len(C), device=C.device)[:, None].expand_as(i)
        ctx.places, ctx.shape = torch.stack([sample, i, j]).flatten(1), C.shape
        return C[sample, i, j]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        sparse = torch.sparse_coo_tensor(ctx.places, grad.flatten(), ctx.shape, check_invariants=False)
        return sparse, None, None


class _Entrywise(NamedTuple):
    """p_ij = exp(C_ij/λ + f_i + g_j), times w_i + w'_j if there are weights, a tile at a time."""

    lam: float
    C: Tensor
    f: Tensor
    g: Tensor
    w_row: Tensor | None
    w_column: Tensor | None

    def tile(self, s: int, i: Tensor, j: Tensor) -> Tensor:
        """p of sample s at rows i and columns j."""
        scores = self.C[s].index_select(0, i).index_select(1, j)
        p = scores.div_(self.lam).add_(self.f[s, i][:, None]).add_(self.g[s, j]).exp_()
        weight = self.weight(s, i, j)
        return p if weight is None else p.mul_(weight)

    def weight(self, s: int, i: Tensor, j: Tensor) -> Tensor | None:
        """w + w' there."""
        if self.w_row is None or self.w_column is None:
            return None
        return self.w_row[s, i][:, None] + self.w_column[s, j]


class _LogComplement(torch.autograd.Function):
    """Σ log(1 − p) over blocks (see `Plan.log_complement`): the tiles are computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        *variables, rows, columns, lam, eps = inputs
        ctx.save_for_backward(*variables, rows, columns)
        ctx.settings = lam, eps
        entries = _Entrywise(lam, *variables)
        total, clamped = entries.C.new_zeros(rows.shape[1]), rows.new_zeros(rows.shape[1], dtype=torch.long)
        for s, i, j in _tiles(rows, columns):
            p = entries.tile(s, i, j)
            clamped[s] += (p > 1 - eps).sum()
            total[s] += p.clamp_(max=1 - eps).neg_().log1p_().sum()
        ctx.mark_non_differentiable(clamped)
        return total, clamped

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        *variables, rows, columns = ctx.saved_tensors
        lam, eps = ctx.settings
        entries = _Entrywise(lam, *variables)
        gradients: list[Any] = [None if x is None else torch.zeros_like(x) for x in variables]
        dC, df, dg, dw_row, dw_column = gradients
        for s, i, j in _tiles(rows, columns):
            p = entries.tile(s, i, j)
            slope = p.div_((1 - p).clamp_(min=eps)).mul_(-grad[s])  # of log p, and so of C/λ, f, g and log(w + w')
            dC[s].index_put_((i[:, None], j), slope / lam)
            df[s, i] += slope.sum(1)
            dg[s, j] += slope.sum(0)
            weight = entries.weight(s, i, j)
            if weight is not None:
                dw_row[s, i] += slope.div_(weight).sum(1)
                dw_column[s, j] += slope.sum(0)
        return *gradients, None, None, None, None


def _tiles(rows: Tensor, columns: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(sample, rows, columns) of tiles that cover the blocks."""
    for row_masks, column_masks in zip(rows, columns, strict=True):
        for s, (row_mask, column_mask) in enumerate(zip(row_masks, column_masks, strict=True)):
            j = column_mask.nonzero()[:, 0]
            for i in row_mask.nonzero()[:, 0].split(CHUNK):
                yield s, i, j
