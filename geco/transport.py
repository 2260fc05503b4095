"""The transport layer: scores with a bin, marginals, unbalanced Sinkhorn and the plan it gives.

With C the bordered scores and a, b the marginals, the plan maximises

    ⟨P, C⟩ + λ H(P) − α KL(P1 ‖ a) − β KL(Pᵀ1 ‖ b),      H(P) = −Σ P (log P − 1)      (GECO eq. 6)

Shapes: r = l + 1 rows and c = m + 1 columns, patches in row-major order, the bin last. A row or column of
mass zero takes part in nothing and has no gradient, which is how problems of different sizes share a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from geco.config.transport import TransportSettings
from geco.potentials import Form, full_precision, potentials
from geco.types import FeatureMap

CHUNK = 256  # rows of a block that are worked on at once: the temporaries then stay in a core's cache
UNIFORM = TransportSettings(marginals="uniform")

# --- the problem ------------------------------------------------------------------------------------------


def bordered(cosines: Float[Tensor, "b l m"], z: float) -> Float[Tensor, "b r c"]:
    """Scores with the bin: a row, a column and a corner of z after the last patch."""
    return functional.pad(cosines, (0, 1, 0, 1), value=z)


def scores(source: FeatureMap, target: FeatureMap, z: float) -> Float[Tensor, "b r c"]:
    """Bordered cosines of all patches of two unit feature maps, by one matrix product and without a copy.

    Two more channels make the border: source patches are (s, 1, 0) and their bin is (0, 0, 1), target patches
    are (t, 0, z) and their bin is (0, z, z).
    """
    with full_precision(source.values):
        rows = _with_bin(source, patch=(1.0, 0.0), bin=(0.0, 1.0))
        columns = _with_bin(target, patch=(0.0, z), bin=(z, z))
        return rows.mT @ columns


def _with_bin(features: FeatureMap, *, patch: tuple[float, float], bin: tuple[float, float]) -> Tensor:
    values = _at_least_float32(features.values).flatten(2)  # (b, d, n)
    border = values.new_tensor([patch] * values.shape[2] + [bin]).mT
    return torch.cat([functional.pad(values, (0, 1)), border.expand(len(values), -1, -1)], dim=1)


def marginals(
    foreground: Bool[Tensor, "b h w"], visible: Float[Tensor, "b"], *, s: float = TransportSettings.s
) -> Float[Tensor, "b n"]:
    """Mass of each patch of an image and, last, of its bin; sums to one.

    The patches of the object share x·s, those of the background 1 − s, and the bin holds the hidden part
    (1 − x)·s, with x the `visible` share of the object. A share without patches goes to the bin.
    """
    object_ = foreground.flatten(1).to(visible.dtype)
    background = 1 - object_
    of_object, of_background = visible * s, torch.full_like(visible, 1 - s)
    patches = _shared(object_, of_object) + _shared(background, of_background)
    bin = (1 - visible) * s
    bin = bin + torch.where(object_.any(1), 0.0, of_object) + torch.where(background.any(1), 0.0, of_background)
    return torch.cat([patches, bin[:, None]], dim=1)


def _shared(members: Float[Tensor, "b n"], mass: Float[Tensor, "b"]) -> Float[Tensor, "b n"]:
    return members * (mass / members.sum(1).clamp(min=1))[:, None]


def uniform_marginals(batch: int, patches: int, *, s: float = TransportSettings.s) -> Float[Tensor, "b n"]:
    """The paper's "-N" ablation: all patches share s equally, whatever they show; the bin holds 1 − s."""
    return functional.pad(torch.full((batch, patches), s / patches), (0, 1), value=1 - s)


# --- the plan ---------------------------------------------------------------------------------------------


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


def sinkhorn(
    C: Float[Tensor, "b r c"],
    a: Float[Tensor, "b r"],
    b: Float[Tensor, "b c"],
    *,
    lam: float = TransportSettings.lam,
    alpha: float = TransportSettings.alpha,
    beta: float = TransportSettings.beta,
    iterations: int = TransportSettings.iterations,
    form: Form = "auto",
) -> Plan:
    """The plan after these rounds of u ← (a / Kv)^φ, v ← (b / Kᵀu)^ψ from v = 1 (Chizat et al. 2018, alg. 1).

    K = exp(C/λ), φ = α/(α+λ), ψ = β/(β+λ); α = β = ∞ is the balanced problem. At least float32, also under
    autocast. `form`: matrix products with K, or log-sum-exp; "auto" takes the latter for λ below 0.03.
    """
    if not (lam > 0 and alpha > 0 and beta > 0 and iterations > 0):
        given = f"{lam:g}, {alpha:g}, {beta:g}, {iterations}"
        raise ValueError(f"λ, α, β and the iterations must be positive, got {given}; see TransportSettings")
    exponents = 1 / (1 + lam / alpha), 1 / (1 + lam / beta)
    C = _at_least_float32(C)
    with full_precision(C):
        f, g, p, q = potentials(C, a.to(C), b.to(C), lam=lam, exponents=exponents, iterations=iterations, form=form)
        return Plan(C, f, g, row_sums=(f + p).exp(), column_sums=(g + q).exp(), lam=lam)


def solve(
    C: Float[Tensor, "b r c"],
    a: Float[Tensor, "b r"],
    b: Float[Tensor, "b c"],
    settings: TransportSettings = TransportSettings(),  # noqa: B008, frozen
) -> Plan:
    """`sinkhorn` with the constants of the settings."""
    return sinkhorn(C, a, b, lam=settings.lam, alpha=settings.alpha, beta=settings.beta, iterations=settings.iterations)


def match_plan(
    source: FeatureMap,
    target: FeatureMap,
    settings: TransportSettings = UNIFORM,
    *,
    foregrounds: tuple[Bool[Tensor, "b h w"], Bool[Tensor, "b h2 w2"]] | None = None,
    visible: float = 1.0,
) -> Plan:
    """The plan between two unit feature maps for matching: marginals "-N", or from masks on the patch grids.

    `visible` is the share of the object both images are taken to show, as no keypoints say it here.
    """
    C = scores(source, target, settings.z)
    if settings.marginals == "uniform":
        a, b = (uniform_marginals(len(C), n - 1, s=settings.s) for n in C.shape[1:])
    elif foregrounds is not None:
        share = C.new_full((len(C),), visible)
        a, b = (marginals(foreground, share, s=settings.s) for foreground in foregrounds)
    else:
        raise ValueError('marginals="masks" needs the foreground of both images; give `foregrounds` or use "uniform"')
    return solve(C, a, b, settings)


# --- reading it -------------------------------------------------------------------------------------------


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


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
