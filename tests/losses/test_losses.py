"""Losses against double loops over annotated pairs, and what their gradients reach."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from geco import losses, transport
from geco.batching import stack
from geco.losses import LOSSES, ContrastiveLoss, SoftArgmaxLoss, TransportLoss, cell_sets
from geco.losses.cells import visible_shares
from geco.losses.settings import LossSettings
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap, Keypoints, Pair, Skeleton, View

SIZE, GRID = (40, 50), (4, 5)  # patches of 10 × 10 pixels
SKELETONS = (
    Skeleton(("nose", "left eye", "right eye", "left ear", "right ear", "tail"), (0, 2, 1, 4, 3, 5), None),
    Skeleton(("front", "back", "top"), (1, 0, 2), None),
)


def random_view(k, random, size=SIZE):
    """Points anywhere on the image, often on the border or in one cell, often hidden; a random mask."""
    height, width = size
    xy = torch.rand(k, 2, generator=random) * torch.tensor([width, height])
    xy = torch.where(torch.rand(k, 2, generator=random) < 0.2, torch.tensor([width, height]).float(), xy)
    xy = torch.where(torch.rand(k, 1, generator=random) < 0.3, xy[:1], xy)
    visible = torch.rand(k, generator=random) < 0.7
    coarse = torch.rand(height // 10, width // 10, generator=random) < 0.4
    mask = coarse.repeat_interleave(10, 0).repeat_interleave(10, 1)
    return View(torch.zeros(3, *size), size, Keypoints(xy, visible), mask=mask)


def random_pairs(seed, batch=3):
    random = torch.Generator().manual_seed(seed)
    pairs = []
    for s in range(batch):
        skeleton = SKELETONS[s % 2]
        k = len(skeleton)
        pairs.append(Pair(random_view(k, random), random_view(k, random), skeleton))
    return stack(pairs)


def free_features(batch=3, *, grid=GRID, size=SIZE, channels=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, channels, *grid, generator=random, dtype=torch.float64)
    return FeatureMap(values.requires_grad_(), size)


def pixel_cell(x, y):
    column, row = min(int(x // 10), GRID[1] - 1), min(int(y // 10), GRID[0] - 1)
    return row * GRID[1] + column


def grid_mask(view, s):
    return view.mask[s, 5::10, 5::10].flatten().tolist()


def looped_sets(pairs):
    """The four sets by the words of METHOD §5, as Python sets of (sample, i, j)."""
    sets = {name: set() for name in ("positive", "bin", "negative", "background")}
    bin_ = GRID[0] * GRID[1]
    for s, skeleton in enumerate(pairs.skeleton):
        masks = grid_mask(pairs.source, s), grid_mask(pairs.target, s)
        if not (any(masks[0]) and any(masks[1])):
            continue
        for i in range(bin_):
            for j in range(bin_):
                if masks[0][i] != masks[1][j]:
                    sets["background"].add((s, i, j))
        seen, cell = [], []
        for view in (pairs.source, pairs.target):
            seen.append(view.keypoints.visible[s].tolist())
            cell.append([pixel_cell(x, y) for x, y in view.keypoints.xy[s].tolist()])
        for k, twin in enumerate(skeleton.twin):
            if seen[0][k] and seen[1][k]:
                sets["positive"].add((s, cell[0][k], cell[1][k]))
            if seen[0][k] and not seen[1][k]:
                sets["bin"].add((s, cell[0][k], bin_))
            if seen[1][k] and not seen[0][k]:
                sets["bin"].add((s, bin_, cell[1][k]))
            if twin != k and seen[0][k] and seen[1][twin]:
                sets["negative"].add((s, cell[0][k], cell[1][twin]))
            if twin != k and seen[0][twin] and seen[1][k]:
                sets["negative"].add((s, cell[0][twin], cell[1][k]))
    return sets


# --- sets -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_sets_are_those_of_a_double_loop(seed):
    pairs = random_pairs(seed)
    sets, expected = cell_sets(pairs, (GRID, GRID)), looped_sets(pairs)
    for name in ("positive", "bin", "negative"):
        cells = getattr(sets, name)
        sample = torch.arange(3)[:, None].expand_as(cells.i)
        entries = torch.stack([sample, cells.i, cells.j], -1)[cells.valid].tolist()
        assert len(entries) == len(expected[name])  # no duplicates
        assert {tuple(entry) for entry in entries} == expected[name]
    block = (sets.background_rows[..., None] & sets.background_columns[:, :, None]).sum(0)
    assert block.max() <= 1  # the two blocks are disjoint
    assert {tuple(entry) for entry in block.nonzero().tolist()} == expected["background"]
    assert sets.counts().tolist() == [len(expected[name]) for name in expected]


def test_a_pair_without_foreground_is_skipped_and_counted():
    pairs = random_pairs(0)
    pairs.target.mask[1] = False
    sets = cell_sets(pairs, (GRID, GRID))
    assert sets.skipped.tolist() == [False, True, False]
    value = TransportLoss()(free_features(), free_features(seed=1), pairs)
    assert value.counts["skipped"] == 1
    others = stack([random_pairs_one(pairs, s) for s in (0, 2)])
    source, target = (FeatureMap(free_features(seed=seed).values[[0, 2]], SIZE) for seed in (0, 1))
    assert_close(value.total, TransportLoss()(source, target, others).total)


def random_pairs_one(pairs, s):
    def view(view):
        keypoints = Keypoints(view.keypoints.xy[s], view.keypoints.visible[s])
        return replace(view, image=view.image[s], keypoints=keypoints, mask=view.mask[s], name="")

    return Pair(view(pairs.source), view(pairs.target), pairs.skeleton[s])


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_with_nothing_to_say_gives_zero_and_a_gradient(name):
    pairs = random_pairs(0)
    for view in (pairs.source, pairs.target):
        view.mask[:] = False
        view.keypoints.visible[:] = False
    source, target = free_features(), free_features(seed=1)
    value = LOSSES[name]()(source, target, pairs)
    value.total.backward()
    assert value.total == 0
    assert value.counts["skipped"] == 3
    assert (source.values.grad == 0).all()


def test_visible_shares_count_the_keypoints_of_the_skeleton():
    pairs = random_pairs(5)
    k = [pairs.source.keypoints.visible[s].sum().item() for s in range(3)]
    n = [6, 3, 6]
    shares = {
        TransportSettings(): [(k[s] + 1) / (n[s] + 1) for s in range(3)],
        TransportSettings(share="plain"): [k[s] / n[s] for s in range(3)],
        TransportSettings(count_padding=True): [(k[s] + 1) / 7 for s in range(3)],
    }
    for chosen, expected in shares.items():
        assert visible_shares(pairs, chosen)[0].tolist() == pytest.approx(expected)


# --- values -----------------------------------------------------------------------------------------------


def looped_loss(P, pairs, reduction):
    """The loss of METHOD §5 from whole plans, entry by entry."""
    sets = looped_sets(pairs)
    last = GRID[0] * GRID[1]

    def entry(s, i, j):
        if reduction != "conditional":
            return P[s, i, j]
        of_row, of_column = P[s, i, j] / P[s, i].sum(), P[s, i, j] / P[s, :, j].sum()
        return of_row if j == last else of_column if i == last else (of_row + of_column) / 2

    terms = {
        name: [
            -math.log(p) if name in ("positive", "bin") else -math.log(1 - p)
            for p in (entry(*place).item() for place in sets[name])
        ]
        for name in sets
    }
    sums = {name: sum(values) for name, values in terms.items()}
    if reduction == "sum":
        return sums["positive"] + sums["bin"] + 10 * sums["negative"] + 10 * sums["background"]
    means = {name: sums[name] / max(len(values), 1) for name, values in terms.items()}
    if reduction == "conditional":
        return means["positive"] + 0.5 * means["bin"] + means["negative"] + 20 * means["background"]
    return (means["positive"] + means["bin"]) / (last + 1) + 10 * means["negative"] + 10 * means["background"]


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
@pytest.mark.parametrize("marginals", ["masks", "uniform"])
@pytest.mark.parametrize("seed", [1, 2])
def test_transport_loss_is_that_of_a_loop_over_whole_plans(reduction, marginals, seed):
    pairs, source, target = random_pairs(seed), free_features(seed=seed), free_features(seed=seed + 9)
    loss = TransportLoss(LossSettings(transport=TransportSettings(marginals=marginals), reduction=reduction))
    value = loss(source, target, pairs)
    cosines = torch.einsum("bchw,bcyx->bhwyx", source.unit().values, target.unit().values).flatten(3).flatten(1, 2)
    C = transport.bordered(cosines, 0.3)
    if marginals == "uniform":
        a = b = transport.uniform_marginals(3, 20)
    else:
        views, shares = (pairs.source, pairs.target), visible_shares(pairs, TransportSettings())
        masks = [torch.tensor([grid_mask(view, s) for s in range(3)]).view(3, *GRID) for view in views]
        a, b = (transport.marginals(mask, share) for mask, share in zip(masks, shares, strict=True))
    expected = looped_loss(transport.sinkhorn(C, a, b).dense(), pairs, reduction)
    assert value.total.item() == pytest.approx(expected, rel=1e-9)
    assert value.counts["clamped"] == 0
    assert set(value.terms) == {"positive", "bin", "negative", "background"}


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_gradient_of_the_transport_loss_is_right(reduction):
    pairs, target = random_pairs(3), free_features(seed=4, channels=3)
    loss = TransportLoss(LossSettings(reduction=reduction))

    def total(values):
        return loss(FeatureMap(values, SIZE), target, pairs).total

    assert torch.autograd.gradcheck(total, (free_features(channels=3).values,), fast_mode=True)


def test_contrastive_loss_is_cross_entropy_between_the_keypoints_of_a_pair():
    pairs, source, target = random_pairs(7), free_features(), free_features(seed=1)
    value = ContrastiveLoss()(source, target, pairs)
    sums, count = 0.0, 0
    for s in range(3):
        matches = sorted((i, j) for sample, i, j in unskipped_positives(pairs) if sample == s)
        if not matches:
            continue
        i, j = torch.tensor(matches).T
        f = source.unit().values[s].flatten(1)[:, i]
        g = target.unit().values[s].flatten(1)[:, j]
        logits, labels = f.T @ g / 0.07, torch.arange(len(matches))
        both = [torch.nn.functional.cross_entropy(x, labels, reduction="sum") for x in (logits, logits.T)]
        sums, count = sums + sum(both) / 2, count + len(matches)
    assert_close(value.total, sums / count)
    assert value.counts["contrastive"] == count


def unskipped_positives(pairs):
    """M⁺ of pairs whose masks do not matter."""
    everything = torch.ones_like(pairs.source.mask)
    source, target = (replace(view, mask=everything) for view in (pairs.source, pairs.target))
    return looped_sets(replace(pairs, source=source, target=target))["positive"]


def test_soft_argmax_loss_is_a_distance_to_the_mean_position():
    keypoints = Keypoints(torch.tensor([[[5.0, 5.0]]]), torch.ones(1, 1, dtype=torch.bool))
    view = View(torch.zeros(1, 3, *SIZE), SIZE, keypoints)
    pairs = Pair(view, view, (Skeleton(("nose",), (0,), None),))
    flat = FeatureMap(torch.ones(1, 2, *GRID), SIZE)  # all patches alike: the mean is the centre (25, 20)
    assert SoftArgmaxLoss()(flat, flat, pairs).total.item() == pytest.approx(math.hypot(20, 15) / 50)
    sharp = FeatureMap(torch.eye(20).reshape(1, 20, *GRID), SIZE)
    assert SoftArgmaxLoss()(sharp, sharp, pairs).total.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_two_processes_with_global_counts_add_up_to_one(name, reduction):
    pairs, source, target = random_pairs(11, batch=4), free_features(4), free_features(4, seed=1)
    loss = LOSSES[name](LossSettings(reduction=reduction))
    whole = loss(source, target, pairs)
    counted = []
    loss(source, target, pairs, reduce_counts=lambda counts: counted.append(counts) or counts)
    parts = []
    for half in ((0, 1), (2, 3)):
        some = stack([random_pairs_one(pairs, s) for s in half])
        maps = (FeatureMap(x.values[list(half)], SIZE) for x in (source, target))
        parts.append(loss(*maps, some, reduce_counts=lambda _: counted[0] if counted else _).total)
    assert_close(sum(parts), whole.total)


def test_impossible_entries_are_clamped_and_counted():
    pairs = random_pairs(0, batch=1)
    pairs.source.keypoints.visible[:] = True
    pairs.target.keypoints.visible[:] = True
    pairs.target.keypoints.visible[0, 0] = False
    never = LossSettings(floor=0.5, eps=0.999999)
    value = TransportLoss(never)(free_features(1), free_features(1, seed=1), pairs)
    sets = looped_sets(pairs)
    assert value.counts["clamped"] >= len(sets["positive"]) + len(sets["bin"])
    assert value.terms["positive"].item() == pytest.approx(math.log(2) / 21)
    assert torch.isfinite(value.total)


# --- what the gradient reaches ----------------------------------------------------------------------------


def pair_with_a_hidden_point():
    """Keypoint 0 visible in both images, keypoint 1 only in the source; a foreground of 6 patches."""
    mask = torch.zeros(1, *SIZE, dtype=torch.bool)
    mask[:, 10:30, 10:40] = True
    xy = torch.tensor([[[15.0, 15.0], [35.0, 25.0]]])
    views = [
        View(torch.zeros(1, 3, *SIZE), SIZE, Keypoints(xy, torch.tensor([seen])), mask=mask)
        for seen in ([True, True], [True, False])
    ]
    return Pair(*views, (Skeleton(("nose", "tail"), (0, 1), None),))


def test_the_bin_term_lowers_the_similarity_of_a_hidden_point_to_every_patch():
    C = transport.bordered(torch.rand(1, 20, 20, dtype=torch.float64) * 2 - 1, 0.3).requires_grad_()
    mass = torch.full((1, 21), 1 / 21, dtype=torch.float64)
    hidden = pixel_cell(35, 25)
    (-transport.sinkhorn(C, mass, mass).log_at(torch.tensor([[hidden]]), torch.tensor([[-1]]))).sum().backward()
    assert (C.grad[0, hidden, :-1] > 0).all()
    assert C.grad[0, hidden, -1] < 0


def test_transport_moves_every_patch_and_the_sparse_loss_only_the_annotated_ones():
    pairs = pair_with_a_hidden_point()
    source, target = free_features(1), free_features(1, seed=1)
    only_bin = LossSettings(weight_positive=0.0, weight_negative=0.0, weight_background=0.0)
    value = TransportLoss(only_bin)(source, target, pairs)
    assert value.counts["bin"] == 1
    value.total.backward()
    assert (source.values.grad.abs().amax(1) > 0).all()
    assert (target.values.grad.abs().amax(1) > 0).all()

    source, target = free_features(1), free_features(1, seed=1)
    another = replace(pairs, target=replace(pairs.target, keypoints=pairs.source.keypoints))
    ContrastiveLoss()(source, target, another).total.backward()
    annotated = {pixel_cell(15, 15), pixel_cell(35, 25)}
    for features in (source, target):
        assert set(features.values.grad.abs().amax(1).flatten().nonzero().flatten().tolist()) == annotated
    source, target = free_features(1), free_features(1, seed=1)
    ContrastiveLoss()(source, target, pairs).total.backward()
    assert source.values.grad.flatten(2)[0, :, pixel_cell(35, 25)].abs().max() == 0  # hidden: nothing is learnt


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("transport", LossSettings()),
        ("transport", LossSettings(reduction="sum")),
        ("transport", LossSettings(reduction="conditional")),
        ("contrastive", LossSettings()),
        ("soft-argmax", LossSettings()),
    ],
)
def test_one_pair_can_be_overfitted(name, chosen):
    random = torch.Generator().manual_seed(2)
    grid, size, k = (5, 5), (50, 50), 8
    cells = [torch.randperm(20, generator=random)[:k] for _ in range(2)]  # on the object: the four upper rows
    mask = torch.ones(1, *size, dtype=torch.bool)
    mask[:, 40:] = False
    views = []
    for index in cells:
        xy = torch.stack([index % 5, index // 5], -1)[None] * 10 + 5.0
        seen = torch.ones(1, k, dtype=torch.bool)
        views.append(View(torch.zeros(1, 3, *size), size, Keypoints(xy, seen), mask=mask))
    pairs = Pair(*views, (Skeleton(tuple("abcdefgh"), (1, 0, 3, 2, 4, 5, 6, 7), None),))
    source, target = (free_features(1, grid=grid, size=size, channels=16, seed=seed) for seed in (0, 1))

    def pck():
        cosines = source.unit().values[0].flatten(1).T @ target.unit().values[0].flatten(1)
        return (cosines[cells[0]].argmax(1) == cells[1]).double().mean().item()

    assert pck() < 0.5
    optimiser = torch.optim.Adam([source.values, target.values], lr=0.3)
    for _ in range(30):
        optimiser.zero_grad()
        value = LOSSES[name](chosen)(source, target, pairs)
        value.total.backward()
        optimiser.step()
    if name == "transport":
        assert pck() == 1.0
    elif name == "contrastive":  # ranks keypoints among keypoints only: any other patch may still win
        assert value.total.item() < 0.01
    else:  # averages positions, and a few wrong patches may have the right average: it falls, from 0.43, and stays
        assert value.total.item() < 0.3


# --- settings and messages --------------------------------------------------------------------------------


def test_weights_follow_the_reduction_unless_given():
    assert list(LossSettings().weights().values()) == [1, 1, 10, 10]
    assert list(LossSettings(reduction="sum").weights().values()) == [1, 1, 10, 10]
    assert list(LossSettings(reduction="conditional", weight_negative=0.0).weights().values()) == [1, 0.5, 0, 20]
    with pytest.raises(ValueError, match="reduction must be one of reference, sum, conditional, got 'mean'"):
        LossSettings(reduction="mean")


def test_missing_annotation_is_named():
    pairs, features = random_pairs(0), free_features()
    nameless = replace(pairs, source=replace(pairs.source, mask=None, name="cat_01"))
    with pytest.raises(ValueError, match=r"cat_01: there is no mask; see geco\.masks"):
        TransportLoss()(features, features, nameless)
    pointless = replace(pairs, target=replace(pairs.target, keypoints=None, name=""))
    with pytest.raises(ValueError, match="a view has no keypoints; expected a view annotated with them"):
        ContrastiveLoss()(features, features, pointless)


def test_every_loss_has_a_name():
    assert set(LOSSES.values()) == {TransportLoss, ContrastiveLoss, SoftArgmaxLoss}
    for name, kind in LOSSES.items():
        assert isinstance(losses.choose(LossSettings(name=name)), kind)
    with pytest.raises(ValueError, match="there is no loss 'hinge'; choices: transport, contrastive, soft-argmax"):
        LossSettings(name="hinge")


@pytest.mark.parametrize("name", list(LOSSES))
def test_set_sizes_are_known_without_features(name):
    """They are what a call passes to `reduce_counts`."""
    pairs, features = random_pairs(0), free_features()
    loss = losses.choose(LossSettings(name=name))
    passed = []
    loss(features, features, pairs, reduce_counts=lambda counts: passed.append(counts) or counts)
    assert loss.set_sizes(pairs, (features.grid, features.grid)).equal(passed[0])


@pytest.mark.parametrize(("setting", "value"), [("alpha", -1.0), ("lam", 0.0), ("iterations", 0), ("beta", math.nan)])
def test_a_transport_problem_without_a_solution_is_refused(setting, value):
    with pytest.raises(ValueError, match=rf"^{setting} must be above 0, got"):
        TransportSettings(**{setting: value})
