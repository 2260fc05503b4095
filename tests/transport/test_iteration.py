"""The two ways to sum, with the kernel and without, and their adjoints."""

import math

import pytest
import torch
from torch.testing import assert_close

from geco.transport.iteration import KERNEL_FROM, KernelSums, LogSums, potentials
from geco.transport.problem import full_precision

LAM = 0.4


def scores_and_vectors(r=4, c=3):
    random = torch.Generator().manual_seed(0)
    C = torch.rand(2, r, c, generator=random, dtype=torch.float64) * 2 - 1
    f, g = (torch.randn(2, n, generator=random, dtype=torch.float64) for n in (r, c))
    return C, f, g


@pytest.mark.parametrize("sums", [KernelSums, LogSums])
def test_sums_are_log_sum_exp(sums):
    C, f, g = scores_and_vectors()
    g[0, 1] = -math.inf
    kernel = sums(C, LAM)
    assert_close(kernel.rows(g), torch.logsumexp(C / LAM + g[:, None], dim=2))
    assert_close(kernel.columns(f), torch.logsumexp(C / LAM + f[:, :, None], dim=1))


@pytest.mark.parametrize("sums", [KernelSums, LogSums])
def test_adjoints_are_those_of_autograd_and_add_up(sums):
    C, f, g = scores_and_vectors()
    leaves = [x.clone().requires_grad_() for x in (C, f, g)]
    p = torch.logsumexp(leaves[0] / LAM + leaves[2][:, None], dim=2)
    q = torch.logsumexp(leaves[0] / LAM + leaves[1][:, :, None], dim=1)
    dp, dq = torch.randn_like(p), torch.randn_like(q)
    dp[0, 2] = 0
    torch.autograd.backward((p, q), (dp, dq))
    kernel, dC = sums(C, LAM), torch.empty_like(C)
    assert_close(kernel.rows_adjoint(dp, p.detach(), g), leaves[2].grad)
    assert_close(kernel.columns_adjoint(dq, q.detach(), f), leaves[1].grad)
    kernel.gradient(out=dC)
    assert_close(dC, leaves[0].grad)


@pytest.mark.parametrize("sums", [KernelSums, LogSums])
def test_a_row_nobody_can_reach_has_no_adjoint(sums):
    C, f, g = scores_and_vectors()
    nobody = torch.full_like(g, -math.inf)
    kernel, dC = sums(C, LAM), torch.empty_like(C)
    p = kernel.rows(nobody)
    assert (p == -math.inf).all()
    assert_close(kernel.rows_adjoint(torch.zeros_like(f), p, nobody), torch.zeros_like(g))
    kernel.gradient(out=dC)
    assert_close(dC, torch.zeros_like(C))


def test_the_sums_returned_are_those_of_the_potentials():
    C, f, g = scores_and_vectors()
    a, b = f.softmax(1), g.softmax(1)
    f, g, p, q = potentials(C, a, b, lam=LAM, exponents=(1.0, 0.9), iterations=7)
    assert_close(p, torch.logsumexp(C / LAM + g[:, None], dim=2))
    assert_close(q, torch.logsumexp(C / LAM + f[:, :, None], dim=1))
    assert_close((g + q).exp(), b**0.9 * q.exp() ** 0.1)  # v Kᵀu = b^ψ (Kᵀu)^{1−ψ}


def test_kernel_form_cannot_underflow_where_it_is_chosen():
    """The worst cosines: a column of −1 beside 1, on the coarsest and the finest grid in use."""
    for n in (4, 1370):
        C = torch.ones(1, n, n)
        C[:, :, 0] = -1
        mass = torch.full((1, n), 1 / n)
        found = potentials(C, mass, mass, lam=KERNEL_FROM, exponents=(1.0, 1.0), iterations=2, form="kernel")
        assert all(torch.isfinite(vector).all() for vector in found)


def test_full_precision_is_stronger_than_autocast():
    x = torch.ones(1, 2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with full_precision(x):
            assert (x @ x).dtype == torch.float32
