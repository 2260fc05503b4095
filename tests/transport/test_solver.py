"""The transport layer against POT, a linear program, closed forms and plain autograd."""

import math
import warnings

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch.testing import assert_close

from geco.transport import (
    Plan,
    bordered,
    iteration,
    marginals,
    match_plan,
    scores,
    sinkhorn,
    uniform_marginals,
)
from geco.transport import plan as transport_plan
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap

INF = math.inf


def problem(r, c, *, batch=1, seed=0, dtype=torch.float64, zero_rows=(), zero_columns=()):
    """Random scores in [−1, 1] and marginals that sum to one, with no mass where asked."""
    random = torch.Generator().manual_seed(seed)
    C = torch.rand(batch, r, c, generator=random, dtype=dtype) * 2 - 1
    a = torch.rand(batch, r, generator=random, dtype=dtype) + 0.1
    b = torch.rand(batch, c, generator=random, dtype=dtype) + 0.1
    a[:, list(zero_rows)] = 0
    b[:, list(zero_columns)] = 0
    return C, a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)


def plain_plan(C, a, b, *, lam=0.1, alpha=10.0, beta=10.0, iterations=10):
    """The iteration as METHOD prints it, for positive masses, differentiated by autograd."""
    K = torch.exp(C / lam)
    phi, psi = 1 / (1 + lam / alpha), 1 / (1 + lam / beta)
    v = torch.ones_like(b)
    for _ in range(iterations):
        u = (a / torch.einsum("brc,bc->br", K, v)) ** phi
        v = (b / torch.einsum("brc,br->bc", K, u)) ** psi
    return u[:, :, None] * K * v[:, None]


def everything(plan: Plan) -> tuple[torch.Tensor, ...]:
    """All that can be read of a plan, each with its own weights so that no gradient hides another."""
    _, r, c = plan.C.shape
    i = torch.tensor([[0, r - 1, 0, r // 2]]).expand(len(plan.C), -1)
    j = torch.tensor([[0, c - 1, 0, c // 3]]).expand(len(plan.C), -1)
    rows = torch.arange(r).expand(len(plan.C), r) % 2 == 0
    columns = torch.arange(c).expand(len(plan.C), c) % 3 == 0
    blocks = torch.stack([rows, ~rows]), torch.stack([~columns, columns])
    halves = 0.5 / plan.row_sums.clamp(min=1e-6), 0.5 / plan.column_sums.clamp(min=1e-6)
    return (
        plan.at(i, j),
        plan.rows(i),
        plan.block(rows, columns),
        plan.log_complement(*blocks)[0],
        plan.log_complement(*blocks, weights=halves)[0],
        plan.row_bin,
        plan.column_bin,
        plan.row_sums,
        plan.column_sums,
        plan.mass(),
        plan.dense(),
    )


# --- the plan is the right one ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["kernel", "log"])
@pytest.mark.parametrize(("alpha", "beta"), [(10.0, 10.0), (1.0, 5.0), (0.3, INF), (INF, INF)])
def test_plan_is_that_of_pot(form, alpha, beta):
    C, a, b = problem(7, 5)
    # POT minimises a cost; "entropy" is −Σ P (log P − 1), and its KL is the generalised one.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "If reg_type = entropy")
        expected = ot.unbalanced.sinkhorn_unbalanced(
            a[0].numpy(),
            b[0].numpy(),
            -C[0].numpy(),
            reg=0.1,
            reg_m=(alpha, beta),
            reg_type="entropy",
            numItermax=20000,
            stopThr=1e-14,
        )
    plan = sinkhorn(C, a, b, alpha=alpha, beta=beta, iterations=1500, form=form)
    assert_close(plan.dense()[0], torch.from_numpy(expected), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), [(10.0, 10.0), (1.0, 5.0), (0.2, 0.7)])
def test_plan_is_stationary_for_the_stated_objective(alpha, beta):
    C, a, b = problem(6, 8, batch=2)
    P = sinkhorn(C, a, b, alpha=alpha, beta=beta, iterations=1500).dense().requires_grad_()
    rows, columns = P.sum(2), P.sum(1)
    entropy = -(P * (P.log() - 1)).sum()
    kl_rows = (rows * (rows / a).log() - rows + a).sum()
    kl_columns = (columns * (columns / b).log() - columns + b).sum()
    objective = (P * C).sum() + 0.1 * entropy - alpha * kl_rows - beta * kl_columns
    (slope,) = torch.autograd.grad(objective, P)
    assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-8)


def test_one_patch_against_one_patch_has_a_closed_form():
    C, a, b = (torch.full(shape, x).double() for shape, x in (((1, 1, 1), 0.5), ((1, 1), 0.25), ((1, 1), 0.75)))
    plan = sinkhorn(C, a, b, alpha=2.0, beta=3.0, iterations=500)
    expected = math.exp((0.5 + 2 * math.log(0.25) + 3 * math.log(0.75)) / (0.1 + 2 + 3))
    assert plan.dense().item() == pytest.approx(expected, rel=1e-9)


def test_balanced_with_small_lambda_reaches_the_linear_program():
    C, a, b = problem(6, 5, seed=3)
    plan = sinkhorn(C, a, b, lam=0.002, alpha=INF, beta=INF, iterations=20000)
    sums = np.concatenate([np.kron(np.eye(6), np.ones(5)), np.kron(np.ones(6), np.eye(5))])
    program = linprog(-C[0].flatten().numpy(), A_eq=sums, b_eq=torch.cat([a[0], b[0]]).numpy())
    assert_close(plan.row_sums, a, atol=1e-6, rtol=0)
    assert_close(plan.column_sums, b, atol=1e-12, rtol=0)
    assert (plan.dense() * C).sum().item() == pytest.approx(-program.fun, abs=2e-3)


def test_ten_rounds_are_those_of_the_method():
    C, a, b = problem(9, 4, batch=3)
    assert_close(sinkhorn(C, a, b).dense(), plain_plan(C, a, b))


@pytest.mark.parametrize("lam", [0.029, 0.031, 0.1, 1.0])
def test_both_forms_agree_on_both_sides_of_the_switch(lam):
    C, a, b = problem(40, 30, batch=2, dtype=torch.float32, zero_rows=[3], zero_columns=[29])
    readings = []
    for form in ("kernel", "log"):
        leaf = C.clone().requires_grad_()
        plan = sinkhorn(leaf, a, b, lam=lam, form=form)
        plan.log_at(torch.tensor([[0, 5], [1, -1]]), torch.tensor([[2, 7], [0, 4]])).sum().backward()
        readings.append((plan.dense().detach(), leaf.grad))
    (kernel, kernel_slope), (log, log_slope) = readings
    assert_close(kernel, log, rtol=1e-4 if lam < 0.1 else 1e-5, atol=1e-9)
    assert_close(kernel_slope, log_slope, rtol=1e-3, atol=1e-5 * log_slope.abs().max().item())
    automatic = sinkhorn(C, a, b, lam=lam).dense()
    assert torch.equal(automatic, kernel if lam >= iteration.KERNEL_FROM else log)


# --- what is read of it -----------------------------------------------------------------------------------


def test_every_reading_is_that_of_the_dense_plan():
    C, a, b = problem(7, 6, batch=2, zero_rows=[2], zero_columns=[5])
    plan = sinkhorn(C, a, b, alpha=3.0)
    P = plan.dense()
    i, j = torch.tensor([[0, 6, 2], [1, -1, 3]]), torch.tensor([[1, 2, 0], [4, 0, -1]])
    sample = torch.arange(2)[:, None]
    assert_close(plan.at(i, j), P[sample, i, j])
    assert plan.at(i, j)[0, 2] == 0
    assert_close(plan.rows(i), P[sample, i])
    assert_close(plan.row_bin, P[:, -1, :-1])
    assert_close(plan.column_bin, P[:, :-1, -1])
    assert_close(plan.row_sums, P.sum(2))
    assert_close(plan.column_sums, P.sum(1))
    assert_close(plan.mass(), P.sum((1, 2)))


def test_blocks_are_read_by_masks_and_tiles_cover_them(monkeypatch):
    monkeypatch.setattr(transport_plan, "CHUNK", 2)
    C, a, b = problem(7, 6, batch=2)
    plan = sinkhorn(C, a, b)
    rows, columns = torch.rand(2, 7) < 0.5, torch.rand(2, 6) < 0.5
    rows[1] = False
    expected = [
        plan.dense()[s, i, j] for s in range(2) for i in range(7) for j in range(6) if rows[s, i] and columns[s, j]
    ]
    assert_close(plan.block(rows, columns), torch.stack(expected) if expected else torch.zeros(0).double())
    masks = torch.stack([rows, ~rows]), torch.stack([~columns, columns])
    w_row, w_column = torch.rand(2, 7).double(), torch.rand(2, 6).double()
    inside = rows[:, :, None] ^ columns[:, None]
    for weights, p in (
        (None, plan.dense()),
        ((w_row, w_column), plan.dense() * (w_row[:, :, None] + w_column[:, None])),
    ):
        total, clamped = plan.log_complement(*masks, weights=weights)
        assert_close(total, torch.where(inside, torch.log(1 - p), 0.0).sum((1, 2)))
        assert clamped.tolist() == [0, 0]


def test_entries_above_one_are_clamped_counted_and_still_pushed_down():
    C = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]], dtype=torch.float64, requires_grad=True)
    plan = sinkhorn(C, torch.full((1, 2), 1.2).double(), torch.full((1, 2), 1.2).double())
    assert plan.dense()[0, 0, 0] > 1
    everywhere = torch.ones(1, 1, 2, dtype=torch.bool)
    total, clamped = plan.log_complement(everywhere, everywhere, eps=1e-3)
    assert clamped.tolist() == [2]
    assert total.item() == pytest.approx(2 * math.log(1e-3), abs=1e-6)
    total.sum().backward()
    assert (C.grad[0].diagonal() < 0).all()


# --- gradients --------------------------------------------------------------------------------------------

GRADIENT_CASES = [
    {"r": 1, "c": 1},
    {"r": 2, "c": 5, "alpha": 0.5, "beta": 3.0},
    {"r": 5, "c": 3, "alpha": INF, "beta": INF},
    {"r": 4, "c": 4, "alpha": 2.0, "beta": INF, "zero_rows": [3], "zero_columns": [0, 3]},
    {"r": 3, "c": 2, "batch": 3, "zero_rows": [2]},
]


@pytest.mark.parametrize("form", ["kernel", "log"])
@pytest.mark.parametrize("case", GRADIENT_CASES)
def test_gradients_of_every_reading_are_right(case, form):
    case = {"alpha": 10.0, "beta": 10.0} | case
    alpha, beta = case.pop("alpha"), case.pop("beta")
    C, a, b = problem(**case)

    def read(C):
        return everything(sinkhorn(C, a * 0.5, b * 0.5, alpha=alpha, beta=beta, iterations=3, form=form, lam=0.3))

    assert torch.autograd.gradcheck(read, (C.requires_grad_(),))


@pytest.mark.parametrize("form", ["kernel", "log"])
def test_marginals_have_their_gradient_too(form):
    C, a, b = problem(3, 4, batch=2)

    def read(C, a, b):
        return sinkhorn(C, a, b, alpha=2.0, beta=5.0, iterations=3, form=form, lam=0.3).dense()

    assert torch.autograd.gradcheck(read, (C.requires_grad_(), a.requires_grad_(), b.requires_grad_()))


def test_gradient_of_a_loss_is_that_of_plain_autograd():
    C, a, b = problem(60, 50, batch=3)
    rows, columns = torch.rand(3, 60) < 0.4, torch.rand(3, 50) < 0.4
    i, j = torch.randint(60, (3, 9)), torch.randint(50, (3, 9))
    ours, plain = C.clone().requires_grad_(), C.clone().requires_grad_()
    plan = sinkhorn(ours, a, b)
    block, _ = plan.log_complement(torch.stack([rows, ~rows]), torch.stack([~columns, columns]))
    (-plan.at(i, j).log().mean() - block.sum()).backward()
    P = plain_plan(plain, a, b)
    chosen = P[torch.arange(3)[:, None], i, j]
    (-chosen.log().mean() - torch.log(1 - P[rows[:, :, None] ^ columns[:, None]]).sum()).backward()
    assert_close(ours.grad, plain.grad, rtol=1e-9, atol=1e-13)


def test_a_graph_can_be_walked_twice():
    C, a, b = problem(4, 5)
    total = sinkhorn(C.requires_grad_(), a, b).at(torch.tensor([[0]]), torch.tensor([[1]])).sum()
    (first,) = torch.autograd.grad(total, C, retain_graph=True)
    (second,) = torch.autograd.grad(total, C)
    assert torch.equal(first, second)


# --- nothing breaks ---------------------------------------------------------------------------------------

SCORES = {
    "random": lambda: torch.rand(1, 6, 5) * 2 - 1,
    "equal": lambda: torch.full((1, 6, 5), 0.3),
    "all −1": lambda: torch.full((1, 6, 5), -1.0),
    "all 1": lambda: torch.ones(1, 6, 5),
    "one patch": lambda: torch.tensor([[[-1.0, 0.3], [0.3, 0.3]]]),
    "a column of −1 beside 1": lambda: torch.ones(1, 6, 5).index_fill_(2, torch.tensor([0]), -1.0),
}


@pytest.mark.parametrize("lam", [0.01, 0.029, 0.03, 0.1, 1.0])
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("emptied", ["none", "bins", "all but one", "source", "both"])
@pytest.mark.parametrize("strict", [10.0, INF])
def test_no_nan_and_no_infinity(lam, kind, emptied, strict):
    C = SCORES[kind]().requires_grad_()
    _, r, c = C.shape
    a, b = torch.full((1, r), 1 / r), torch.full((1, c), 1 / c)
    if emptied == "bins":
        a[:, -1] = b[:, -1] = 0
    elif emptied == "all but one":
        a[:, 1:] = b[:, 1:] = 0
    elif emptied != "none":
        a[:] = 0
        b[:] = 0 if emptied == "both" else b
    plan = sinkhorn(C, a, b, lam=lam, alpha=strict, beta=strict)
    readings = everything(plan)
    assert all(torch.isfinite(reading).all() for reading in readings)
    sum(reading.sum() for reading in readings).backward()
    assert torch.isfinite(C.grad).all()
    if emptied in ("source", "both"):
        assert plan.mass().item() == 0


def test_mass_zero_means_no_part_and_no_gradient():
    C, a, b = problem(5, 5, zero_rows=[1], zero_columns=[4])
    plan = sinkhorn(C.requires_grad_(), a, b)
    assert (plan.dense()[:, 1] == 0).all()
    assert (plan.dense()[:, :, 4] == 0).all()
    plan.log_at(torch.tensor([[0, 2]]), torch.tensor([[0, 3]])).sum().backward()
    assert (C.grad[:, 1] == 0).all()
    assert (C.grad[:, :, 4] == 0).all()
    kept = torch.ones(5, 5, dtype=torch.bool)
    kept[1], kept[:, 4] = False, False
    assert (C.grad[0][kept] != 0).all()


def test_a_ragged_batch_is_padded_by_mass_zero():
    large, small = problem(6, 5), problem(3, 4, seed=1)
    C = torch.full((2, 6, 5), 0.77, dtype=torch.float64)
    a, b = torch.zeros(2, 6).double(), torch.zeros(2, 5).double()
    for s, (scores_, rows, columns) in enumerate((large, small)):
        C[s, : rows.shape[1], : columns.shape[1]] = scores_
        a[s, : rows.shape[1]], b[s, : columns.shape[1]] = rows, columns
    padded = sinkhorn(C, a, b).dense()
    assert_close(padded[0], sinkhorn(*large).dense()[0])
    assert_close(padded[1, :3, :4], sinkhorn(*small).dense()[0])
    assert padded[1].sum() == padded[1, :3, :4].sum()


def test_a_batch_is_its_samples_and_devices_that_take_it_at_once_agree(monkeypatch):
    C, a, b = problem(8, 7, batch=4, zero_rows=[7])

    def with_gradient(C, a, b):
        leaf = C.clone().requires_grad_()
        plan = sinkhorn(leaf, a, b)
        plan.dense().square().sum().backward()
        return plan.dense().detach(), leaf.grad

    plan, slope = with_gradient(C, a, b)
    singles = [with_gradient(C[s : s + 1], a[s : s + 1], b[s : s + 1]) for s in range(4)]
    assert_close(plan, torch.cat([single[0] for single in singles]))
    assert_close(slope, torch.cat([single[1] for single in singles]))
    monkeypatch.setattr(iteration, "_portions", lambda C: [slice(None)])
    assert_close((plan, slope), with_gradient(C, a, b))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 1000), st.sampled_from([0.01, 0.1, 0.5]))
@settings(max_examples=30, deadline=None)
def test_permuting_patches_permutes_the_plan(r, c, seed, lam):
    C, a, b = problem(r, c, seed=seed)
    rows, columns = torch.randperm(r), torch.randperm(c)
    plan = sinkhorn(C, a, b, lam=lam).dense()
    permuted = sinkhorn(C[:, rows][:, :, columns], a[:, rows], b[:, columns], lam=lam).dense()
    assert_close(permuted, plan[:, rows][:, :, columns])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_swapping_source_and_target_transposes_the_converged_plan(r, c, seed):
    C, a, b = problem(r, c, seed=seed)
    plan = sinkhorn(C, a, b, lam=0.5, alpha=2.0, beta=3.0, iterations=500).dense()
    swapped = sinkhorn(C.mT.contiguous(), b, a, lam=0.5, alpha=3.0, beta=2.0, iterations=500).dense()
    assert_close(swapped.mT, plan, rtol=1e-6, atol=1e-12)


# --- precision --------------------------------------------------------------------------------------------


def test_half_precision_and_autocast_compute_in_float32():
    maps = [FeatureMap(torch.randn(1, 8, 3, 3), (42, 42)).unit() for _ in range(2)]
    a = b = uniform_marginals(1, 9)
    plain = sinkhorn(scores(*maps, z=0.3), a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = sinkhorn(scores(*maps, z=0.3), a, b)
        assert cast.dense().dtype == torch.float32
        assert_close(cast.dense(), plain.dense())
    halves = sinkhorn(scores(*maps, z=0.3).bfloat16(), a, b)
    assert halves.dense().dtype == torch.float32
    assert_close(halves.dense(), plain.dense(), rtol=0.2, atol=1e-4)


def test_gradient_reaches_bfloat16_scores_under_autocast():
    C, a, b = problem(4, 5, dtype=torch.float32)
    half, full = C.bfloat16().requires_grad_(), C.bfloat16().float().requires_grad_()
    sinkhorn(full, a, b).dense().square().sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sinkhorn(half, a, b).dense().square().sum().backward()
    assert half.grad.dtype == torch.bfloat16
    assert_close(half.grad, full.grad.bfloat16())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu():
    C, a, b = problem(20, 30, batch=3, dtype=torch.float32, zero_rows=[4])
    for reading, expected in zip(
        everything(sinkhorn(C.cuda(), a.cuda(), b.cuda())), everything(sinkhorn(C, a, b)), strict=True
    ):
        assert_close(reading.cpu(), expected, rtol=1e-4, atol=1e-6)


# --- scores and marginals ---------------------------------------------------------------------------------


def test_scores_are_bordered_cosines_with_their_gradient():
    source, target = torch.randn(2, 5, 2, 3).double(), torch.randn(2, 5, 4, 2).double()

    def ours(source, target):
        return scores(FeatureMap(source, (1, 1)), FeatureMap(target, (1, 1)), z=0.3)

    def plain(source, target):
        return bordered(torch.einsum("bchw,bcyx->bhwyx", source, target).flatten(3).flatten(1, 2), 0.3)

    C = ours(source, target)
    assert C.shape == (2, 7, 9)
    assert_close(C, plain(source, target))
    assert (C[:, -1] == 0.3).all()
    assert (C[:, :, -1] == 0.3).all()
    assert torch.autograd.gradcheck(ours, (source.requires_grad_(), target.requires_grad_()))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 1), st.floats(0.5, 1))
@settings(max_examples=60, deadline=None)
def test_marginals_are_those_of_a_loop_over_patches(h, w, seed, x, s):
    foreground = torch.rand(1, h, w, generator=torch.Generator().manual_seed(seed)) < 0.5
    mass = marginals(foreground, torch.tensor([x], dtype=torch.float64), s=s)[0]
    flat = foreground.flatten().tolist()
    n_object, n_background = sum(flat), len(flat) - sum(flat)
    expected = [x * s / n_object if inside else (1 - s) / n_background for inside in flat]
    bin_ = (1 - x) * s + (0 if n_object else x * s) + (0 if n_background else 1 - s)
    assert mass.tolist() == pytest.approx([*expected, bin_], abs=1e-12)
    assert mass.sum().item() == pytest.approx(1)


def test_nothing_hidden_leaves_a_bin_of_exactly_no_mass():
    foreground = torch.tensor([[[True, False, False]]])
    assert marginals(foreground, torch.ones(1))[0, -1] == 0
    assert marginals(~foreground | foreground, torch.ones(1))[0].tolist() == pytest.approx([0.3, 0.3, 0.3, 0.1])


def test_uniform_marginals_ignore_what_the_patches_show():
    assert uniform_marginals(2, 3)[1].tolist() == pytest.approx([0.3, 0.3, 0.3, 0.1])


# --- matching ---------------------------------------------------------------------------------------------


def test_hidden_patches_go_to_the_bin_and_the_others_to_their_match():
    directions = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0))).Q
    order = [
        3,
        2,
        1,
        0,
        4,
        9,
        8,
        7,
        6,
        11,
    ]  # source patch 5 is hidden in the target, target patch 9 in the source
    source = FeatureMap(directions[:, :10].reshape(1, 16, 2, 5), (28, 70))
    target = FeatureMap(directions[:, order].reshape(1, 16, 2, 5), (28, 70))
    P = match_plan(source, target).dense()[0]
    assert P[:10].argmax(1).tolist() == [3, 2, 1, 0, 4, 10, 8, 7, 6, 5]
    assert P[:, :10].argmax(0).tolist() == [3, 2, 1, 0, 4, 9, 8, 7, 6, 10]


def test_masks_say_where_the_object_is():
    features = FeatureMap(torch.ones(1, 1, 1, 4), (14, 56))  # every patch looks the same
    left, right = torch.tensor([[[True, True, False, False]]]), torch.tensor([[[False, False, True, True]]])
    plan = match_plan(features, features, TransportSettings(), foregrounds=(left, right), visible=0.8)
    assert_close(plan.row_sums[:, :4], plan.row_sums[:, [1, 0, 3, 2]])
    assert plan.row_sums[0, 0] > plan.row_sums[0, 2]
    assert plan.column_sums[0, 0] < plan.column_sums[0, 2]


# --- messages ---------------------------------------------------------------------------------------------


def test_masks_are_asked_for():
    features = FeatureMap(torch.ones(1, 1, 1, 4), (14, 56))
    with pytest.raises(ValueError, match=r'marginals="masks" needs the foreground of both images; give `foregrounds`'):
        match_plan(features, features, TransportSettings())


def test_constants_are_checked():
    C, a, b = problem(3, 4)
    with pytest.raises(ValueError, match=r"λ, α, β and the iterations must be positive, got 0, 10, 10, 10"):
        sinkhorn(C, a, b, lam=0.0)
    with pytest.raises(ValueError, match=r"must be positive, got 0.1, 10, 10, 0; see TransportSettings"):
        sinkhorn(C, a, b, iterations=0)
