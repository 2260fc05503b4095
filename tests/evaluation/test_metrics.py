"""Metrics against naive loops, exact fractions and scikit-learn."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from geco.evaluation.metrics.hidden import HiddenDetector
from geco.evaluation.metrics.keypoints import CASES, PCK, PGCK, SHARES, contributions, evaluate
from geco.evaluation.metrics.parts import Confusion
from geco.types import Keypoints

ALPHAS = (0.01, 0.05, 0.1, 0.15, 0.29)


@st.composite
def pairs(draw):
    """Random keypoints, twins and predictions on a half-pixel lattice, so that ties with radii happen."""
    twin = draw(st.sampled_from([(0,), (1, 0), (1, 0, 2), (2, 3, 0, 1, 4, 5), (0, 2, 1, 4, 3, 5, 7, 6)]))
    k = len(twin)
    size = draw(st.sampled_from([20, 100, 200, 333]))
    halves = st.integers(0, 2 * size)

    def points(n):
        return torch.tensor([[draw(halves) / 2, draw(halves) / 2] for _ in range(n)], dtype=torch.float64).reshape(n, 2)

    def flags():
        return torch.tensor([draw(st.booleans()) for _ in range(k)], dtype=torch.bool)

    source, target = Keypoints(points(k), flags()), Keypoints(points(k), flags())
    asked = int(source.visible.sum())
    predicted = points(asked)
    for i in range(asked):  # half of the predictions exactly on a circle around some keypoint
        if draw(st.booleans()):
            anchor = target.xy[draw(st.integers(0, k - 1))]
            predicted[i] = anchor + torch.tensor([draw(st.sampled_from(ALPHAS)) * size, 0.0], dtype=torch.float64)
    scores = torch.tensor([draw(st.integers(-8, 8)) / 8 for _ in range(asked)], dtype=torch.float64)
    return source, target, twin, predicted, scores, float(size)


def naive(source, target, twin, predicted, alpha, size):
    """Counters by two plain loops with exact fractions; a decimal α is the fraction it is written as."""
    radius = Fraction(str(alpha)) * Fraction(size)
    counts = dict.fromkeys([*CASES, "hat_11", "hat_10", "hat_1x", "tilde", "underline", "overline", "01_twin"], 0)
    row = 0
    for i in range(len(twin)):
        if not source.visible[i]:
            continue
        near = {}
        for j in {i, twin[i]}:
            px, py = (Fraction(repr(float(v))) for v in predicted[row])
            tx, ty = (Fraction(repr(float(v))) for v in target.xy[j])
            squared = (px - tx) ** 2 + (py - ty) ** 2
            # the lattice plus α·size in floating point is off by parts in 1e-15; the tie is meant
            near[j] = bool(target.visible[j]) and squared <= radius**2 * (1 + Fraction(1, 10**11))
        row += 1
        correct, twin_near = near[i], near[twin[i]]
        if target.visible[i]:
            case = "1x" if twin[i] == i else ("11" if target.visible[twin[i]] else "10")
            counts["hat_" + case] += correct
        else:
            case = "01" if twin[i] != i and target.visible[twin[i]] else "00"
        counts[case] += 1
        if case == "11":
            counts["tilde"] += correct and twin_near
            counts["underline"] += correct and not twin_near
            counts["overline"] += not correct and twin_near
        if case == "01":
            counts["01_twin"] += twin_near
    return counts


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_counters_equal_a_naive_double_loop(pair):
    source, target, twin, predicted, scores, size = pair
    metric = PGCK(ALPHAS)
    metric.update(evaluate(predicted, scores, source=source, target=target, twin=twin), size)
    counts = metric.counts
    for a, alpha in enumerate(ALPHAS):
        wanted = naive(source, target, twin, predicted, alpha, size)
        assert counts.cases.tolist() == [wanted[case] for case in CASES]
        assert counts.hat[a].tolist() == [wanted["hat_11"], wanted["hat_10"], wanted["hat_1x"]]
        got = [counts.tilde[a], counts.underline[a], counts.overline[a], counts.hidden_to_twin[a]]
        assert [int(x) for x in got] == [wanted[key] for key in ("tilde", "underline", "overline", "01_twin")]


@settings(max_examples=40, deadline=None)
@given(st.lists(pairs(), min_size=1, max_size=6))
def test_pck_is_the_weighted_sum_of_its_cases_and_hat_is_tilde_plus_underline(several):
    pgck, pck = PGCK(ALPHAS), PCK(ALPHAS)
    for source, target, twin, predicted, scores, size in several:
        outcome = evaluate(predicted, scores, source=source, target=target, twin=twin)
        pgck.update(outcome, size)
        pck.update(outcome, size)
    counts = pgck.counts
    assert torch.equal(counts.hat[:, 0], counts.tilde + counts.underline)
    assert torch.equal(counts.hat.sum(-1).double(), pck.numerator)
    assert int(counts.cases[:3].sum()) == int(pck.denominator)
    if pck.denominator:
        values, weights = pgck.compute(), pgck.imbalance()
        summed = sum(values[f"hat_{case}"].nan_to_num() * weights[case] for case in CASES[:3])
        torch.testing.assert_close(summed, pck.compute())
        assert sum(weights.values()) == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(st.lists(pairs(), min_size=2, max_size=6), st.data())
def test_merging_shards_equals_one_pass(several, data):
    cut = data.draw(st.integers(0, len(several)))
    whole, shards = [], [[], []]
    for metrics in (whole, *shards):
        metrics += [PCK(ALPHAS), PCK(ALPHAS, "image"), PGCK(ALPHAS), HiddenDetector()]
    for i, (source, target, twin, predicted, scores, size) in enumerate(several):
        outcome = evaluate(predicted, scores, source=source, target=target, twin=twin)
        for metrics in (whole, shards[i >= cut]):
            for metric in metrics[:3]:
                metric.update(outcome, size)
            metrics[3].update(outcome)
    for first, second in zip(*shards, strict=True):
        first.merge(second)
    for metric, merged in zip(whole[:2], shards[0][:2], strict=True):
        torch.testing.assert_close(metric.compute(), merged.compute(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(whole[2].counts.hat, shards[0][2].counts.hat)
    assert torch.equal(whole[2].counts.cases, shards[0][2].counts.cases)
    assert whole[3].compute(0.1) == pytest.approx(shards[0][3].compute(0.1), nan_ok=True)


def test_a_distance_exactly_on_the_radius_is_a_hit():
    target = Keypoints(torch.tensor([[50.0, 50.0]]), torch.tensor([True]))
    for away, hit in ((29.0, 1.0), (29.0001, 0.0), (28.9999, 1.0)):
        metric = PCK([0.29])  # 0.29 * 100 is 28.999999999999996 in floating point
        predicted = torch.tensor([[50.0 + away, 50.0]], dtype=torch.float64)
        metric.update(evaluate(predicted, torch.ones(1), source=target, target=target, twin=(0,)), 100.0)
        assert metric.compute().tolist() == [hit]


def test_the_mean_over_images_is_not_the_mean_over_points():
    def pair(n, hits):
        points = Keypoints(torch.zeros(n, 2), torch.ones(n, dtype=torch.bool))
        predicted = torch.zeros(n, 2)
        predicted[hits:] += 99
        return evaluate(predicted, torch.ones(n), source=points, target=points, twin=tuple(range(n)))

    per_point, per_image = PCK([0.1]), PCK([0.1], "image")
    for outcome in (pair(4, 1), pair(1, 1)):
        per_point.update(outcome, 10)
        per_image.update(outcome, 10)
    assert per_point.compute().item() == pytest.approx(2 / 5)
    assert per_image.compute().item() == pytest.approx((1 / 4 + 1) / 2)


def test_a_pair_without_visible_match_changes_nothing_and_nothing_gives_nan():
    shown = Keypoints(torch.zeros(2, 2), torch.ones(2, dtype=torch.bool))
    hidden = Keypoints(torch.zeros(2, 2), torch.zeros(2, dtype=torch.bool))
    outcome = evaluate(torch.zeros(2, 2), torch.ones(2), source=shown, target=hidden, twin=(1, 0))
    for average in ("point", "image"):
        metric = PCK([0.1], average)
        metric.update(outcome, 10)
        assert metric.denominator == 0
        assert metric.compute().isnan().all()
    pgck = PGCK([0.1])
    pgck.update(outcome, 10)
    assert pgck.counts.cases.tolist() == [0, 0, 0, 0, 2]
    assert all(value.isnan().all() for value in pgck.compute().values())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-6, 6), st.booleans()), min_size=2, max_size=40))
def test_hidden_points_are_detected_as_scikit_learn_says(queries):
    scores = np.array([score / 6 for score, _ in queries])
    hidden = np.array([flag for _, flag in queries])
    detector = HiddenDetector()
    n = len(scores)
    shown = Keypoints(torch.zeros(n, 2), torch.ones(n, dtype=torch.bool))
    target = Keypoints(torch.zeros(n, 2), torch.from_numpy(~hidden))
    scored = torch.from_numpy(scores)
    detector.update(evaluate(torch.zeros(n, 2), scored, source=shown, target=target, twin=tuple(range(n))))
    values = detector.compute(0.3)
    if hidden.all() or not hidden.any():
        assert math.isnan(detector.threshold(0.1)) == hidden.all()
        assert all(math.isnan(value) for value in values.values())
        return
    assert values["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(hidden, -scores))
    assert values["ap"] == pytest.approx(sklearn_metrics.average_precision_score(hidden, -scores))
    assert values["detected"] == pytest.approx((scores[hidden] < 0.3).mean())
    assert values["false_alarms"] == pytest.approx((scores[~hidden] < 0.3).mean())
    for rate in (0.0, 0.1, 0.5):
        assert detector.threshold(rate) == pytest.approx(np.quantile(scores[~hidden], rate))
    x, y = detector.curve()
    fpr, tpr, _ = sklearn_metrics.roc_curve(hidden, -scores, drop_intermediate=False)
    np.testing.assert_allclose(x.numpy(), fpr)
    np.testing.assert_allclose(y.numpy(), tpr)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 5)), min_size=1, max_size=60))
def test_iou_and_accuracy_equal_scikit_learn(n, labels):
    true = np.array([min(t, n - 1) for t, _ in labels])
    predicted = np.array([min(p, n - 1) for _, p in labels])
    confusion = Confusion(n)
    half = len(true) // 2
    rest = Confusion(n)
    confusion.update(torch.from_numpy(true[:half]), torch.from_numpy(predicted[:half]))
    rest.update(torch.from_numpy(true[half:]), torch.from_numpy(predicted[half:]))
    confusion.merge(rest)
    kept = true >= 0
    if not kept.any():
        assert math.isnan(confusion.accuracy())
        assert math.isnan(confusion.miou())
        return
    true, predicted = true[kept], predicted[kept]
    present = sorted(set(true) | set(predicted))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = sklearn_metrics.jaccard_score(true, predicted, labels=present, average=None, zero_division=0)
        matrix = sklearn_metrics.confusion_matrix(true, predicted, labels=range(n))
    np.testing.assert_allclose(confusion.iou()[present].numpy(), wanted)
    assert confusion.iou().isfinite().sum() == len(present)
    assert confusion.miou() == pytest.approx(wanted.mean())
    assert confusion.accuracy() == pytest.approx(sklearn_metrics.accuracy_score(true, predicted))
    assert confusion.matrix.tolist() == matrix.tolist()
    some = [n - 1, 0]
    assert confusion.only(some).matrix.tolist() == matrix[np.ix_(some, some)].tolist()
    columns = confusion.normalised().sum(0)
    np.testing.assert_allclose(columns.numpy(), (matrix.sum(1) > 0) / n)


def test_what_pairs_add_sums_to_the_counters():
    generator = torch.Generator().manual_seed(5)
    n, pairs = 400, 7
    twin = [i + 1 if i % 2 == 0 else i - 1 for i in range(n - 100)] + list(range(n - 100, n))
    source = Keypoints(torch.zeros(n, 2), torch.rand(n, generator=generator) < 0.8)
    target = Keypoints(40 * torch.rand(n, 2, generator=generator), torch.rand(n, generator=generator) < 0.7)
    asked = int(source.visible.sum())
    outcome = evaluate(
        40 * torch.rand(asked, 2, generator=generator),
        torch.rand(asked),
        source=source,
        target=target,
        twin=twin,
    )
    pair = torch.arange(asked) % pairs
    size = torch.linspace(60, 120, pairs, dtype=torch.float64)
    numerator, denominator = contributions(outcome, 0.1, size, pair)
    pgck = PGCK([0.1])
    pgck.update(outcome, size[pair])
    found = pgck.compute()
    assert numerator.shape == (pairs, len(SHARES))
    for i, name in enumerate(SHARES):
        assert float(numerator[:, i].sum() / denominator[:, i].sum()) == pytest.approx(float(found[name]))
        assert 0 < found[name] < 1, "a share of nothing or everything would prove little"
