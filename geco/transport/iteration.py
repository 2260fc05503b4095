"""Sinkhorn's iteration in log scalings, and its adjoint by hand.

The plan is P = K ∘ (u vᵀ) with K = exp(C/λ); f = log u and g = log v are its potentials. One round is

    p = log K e^g,   f = φ (log a − p),   q = log Kᵀ e^f,   g = ψ (log b − q)     (Chizat et al. 2018, alg. 1)

so all that the iteration does to the scores is log-sum-exp along rows and columns. Two classes compute it,
with the kernel K or without; both know the adjoint. Mass zero is potential −∞ from the start: such a row or
column takes no part in anything, and has no gradient.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from geco.transport.problem import full_precision

Form = Literal["auto", "kernel", "log"]

# Scores in [−1, 1] keep Kᵀu above e^{−2/λ}, which float32 can hold from this λ on whatever the masses are.
KERNEL_FROM = 0.03


def potentials(
    C: Float[Tensor, "b r c"],
    a: Float[Tensor, "b r"],
    b: Float[Tensor, "b c"],
    *,
    lam: float,
    exponents: tuple[float, float],
    iterations: int,
    form: Form = "auto",
) -> tuple[Float[Tensor, "b r"], Float[Tensor, "b c"], Float[Tensor, "b r"], Float[Tensor, "b c"]]:
    """f, g, p = log K e^g and q = log Kᵀ e^f after these rounds from v = 1; `exponents` are φ and ψ.

    "auto" takes the kernel form unless λ is so small that it could underflow for scores in [−1, 1].
    """
    if form == "auto":
        form = "kernel" if lam >= KERNEL_FROM else "log"
    sums = KernelSums if form == "kernel" else LogSums
    return _Potentials.apply(C, a, b, lam, exponents, iterations, sums)


class _Potentials(torch.autograd.Function):
    """Kept for the backward pass: the scores and 2T + 1 vectors per sample, never an r × c matrix.

    K is computed again, which takes no longer than reading it from memory. On a CPU samples go one by one,
    because one K fits into the cache and a batch of them does not; elsewhere all go at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        C: Tensor,
        a: Tensor,
        b: Tensor,
        lam: float,
        exponents: tuple[float, float],
        iterations: int,
        sums: type["KernelSums"] | type["LogSums"],
    ) -> tuple[Tensor, ...]:
        p, q = a.new_empty(iterations + 1, *a.shape), b.new_empty(iterations, *b.shape)
        f, g = torch.empty_like(a), _start(b)
        log_a, log_b = a.log(), b.log()
        for s in _portions(C):
            kernel = sums(C[s], lam)
            for t in range(iterations):
                p[t, s] = kernel.rows(g[s])
                f[s] = _potential(log_a[s], p[t, s], exponents[0])
                q[t, s] = kernel.columns(f[s])
                g[s] = _potential(log_b[s], q[t, s], exponents[1])
            p[-1, s] = kernel.rows(g[s])
        ctx.save_for_backward(C, a, b, p, q)
        ctx.settings = lam, exponents, sums
        return f, g, p[-1].clone(), q[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        C, a, b, p, q = ctx.saved_tensors
        lam, (phi, psi), sums = ctx.settings
        dC, da, db = torch.empty_like(C), torch.zeros_like(a), torch.zeros_like(b)
        f, g = _potential(a.log(), p[:-1], phi), _potential(b.log(), q, psi)  # (T, b, r) and (T, b, c)
        with full_precision(C):
            for s in _portions(C):
                kernel = sums(C[s], lam)
                df, dg, dp, dq = (cotangent[s] for cotangent in cotangents)
                dg = dg + kernel.rows_adjoint(dp, p[-1, s], g[-1, s])
                for t in reversed(range(len(q))):
                    dg = dg.masked_fill(g[t, s].isneginf(), 0.0)
                    db[s] += dg
                    df = df + kernel.columns_adjoint(dq - psi * dg, q[t, s], f[t, s])
                    df = df.masked_fill(f[t, s].isneginf(), 0.0)
                    da[s] += df
                    before = g[t - 1, s] if t else _start(b[s])
                    dg = kernel.rows_adjoint(-phi * df, p[t, s], before)
                    df, dq = torch.zeros_like(df), torch.zeros_like(dq)
                kernel.gradient(out=dC[s])
        da = torch.where(a > 0, phi * da / a, 0.0)
        db = torch.where(b > 0, psi * db / b, 0.0)
        return dC, da, db, None, None, None, None


class KernelSums:
    """log K e^g and log Kᵀ e^f by matrix–vector products.

    Each adjoint adds K ∘ (x yᵀ) / λ to the gradient of the scores; the vectors are collected and multiplied
    out at the end, all at once.
    """

    def __init__(self, C: Tensor, lam: float) -> None:
        self.K, self.lam = torch.div(C, lam).exp_(), lam
        self.x: list[Tensor] = []
        self.y: list[Tensor] = []

    def rows(self, g: Tensor) -> Tensor:
        """p from g."""
        return _product(self.K, g.exp()).log_()

    def columns(self, f: Tensor) -> Tensor:
        """q from f."""
        return _product(self.K.mT, f.exp()).log_()

    def rows_adjoint(self, dp: Tensor, p: Tensor, g: Tensor) -> Tensor:
        """dg from dp."""
        x, y = _quotient(dp, p), g.exp()
        self.x.append(x)
        self.y.append(y)
        return y * _product(self.K.mT, x)

    def columns_adjoint(self, dq: Tensor, q: Tensor, f: Tensor) -> Tensor:
        """df from dq."""
        x, y = f.exp(), _quotient(dq, q)
        self.x.append(x)
        self.y.append(y)
        return x * _product(self.K, y)

    def gradient(self, out: Tensor) -> None:
        """Writes the gradient of the scores that the adjoints have added up."""
        x, y = torch.stack(self.x, dim=-1), torch.stack(self.y, dim=-2)
        torch.bmm(x.div_(self.lam), y, out=out).mul_(self.K)


class LogSums:
    """The same without K: safe for any λ, at the price of an exponential per entry and half round."""

    def __init__(self, C: Tensor, lam: float) -> None:
        self.Z, self.lam = C / lam, lam
        self.dZ = torch.zeros_like(self.Z)

    def rows(self, g: Tensor) -> Tensor:
        """p from g."""
        return torch.logsumexp(self.Z + g[:, None], dim=2)

    def columns(self, f: Tensor) -> Tensor:
        """q from f."""
        return torch.logsumexp(self.Z + f[:, :, None], dim=1)

    def rows_adjoint(self, dp: Tensor, p: Tensor, g: Tensor) -> Tensor:
        """dg from dp."""
        return self._weighted_softmax(g[:, None], p[:, :, None], dp[:, :, None]).sum(1)

    def columns_adjoint(self, dq: Tensor, q: Tensor, f: Tensor) -> Tensor:
        """df from dq."""
        return self._weighted_softmax(f[:, :, None], q[:, None], dq[:, None]).sum(2)

    def gradient(self, out: Tensor) -> None:
        """Writes the gradient of the scores that the adjoints have added up."""
        torch.div(self.dZ, self.lam, out=out)

    def _weighted_softmax(self, potential: Tensor, log_sum: Tensor, weight: Tensor) -> Tensor:
        finite = log_sum.masked_fill(log_sum.isneginf(), 0.0)  # such a row or column has weight zero
        softmax = (self.Z + potential).sub_(finite).exp_().mul_(weight)
        self.dZ += softmax
        return softmax


def _start(mass: Tensor) -> Tensor:
    """log 1 wherever there is mass."""
    return torch.zeros_like(mass).masked_fill_(mass == 0, -math.inf)


def _potential(log_mass: Tensor, log_sum: Tensor, exponent: float) -> Tensor:
    """log (mass / sum)^exponent; −∞ for a patch without mass or with no patch to send it to."""
    nothing = log_mass.isneginf() | log_sum.isneginf()
    return (exponent * (log_mass - log_sum)).masked_fill_(nothing, -math.inf)


def _product(matrix: Tensor, vector: Tensor) -> Tensor:
    return torch.bmm(matrix, vector[..., None])[..., 0]


def _quotient(x: Tensor, log_y: Tensor) -> Tensor:
    """x / y, zero where x is."""
    return torch.where(x == 0, 0.0, x * (-log_y).exp())


def _portions(C: Tensor) -> Iterator[slice]:
    step = 1 if C.device.type == "cpu" else max(len(C), 1)
    return (slice(start, start + step) for start in range(0, len(C), step))
