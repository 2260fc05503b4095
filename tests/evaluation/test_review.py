"""What an uncertainty is worth, against counting by hand and reviewing in every order."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from geco.evaluation.metrics.review import (
    calibration_error,
    effort,
    effort_at_random,
    errors_found,
    oracle,
    reliability,
    share_found,
)

POINTS = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=6)


def columns(points):
    return torch.tensor([u for u, _ in points], dtype=torch.float64), torch.tensor([w for _, w in points])


@given(POINTS)
def test_errors_found_are_the_mean_over_every_order_that_respects_the_uncertainty(points):
    orders = [o for o in itertools.permutations(points) if all(a[0] >= b[0] for a, b in itertools.pairwise(o))]
    expected = [
        sum(sum(wrong for _, wrong in order[:count]) for order in orders) / len(orders)
        for count in range(len(points) + 1)
    ]
    assert errors_found(*columns(points)).tolist() == pytest.approx(expected)


def test_numbers_by_hand():
    u, wrong = columns([(0.9, True), (0.8, True), (0.7, False), (0.6, True), (0.5, False)] + [(0.1, False)] * 5)
    assert share_found(u, wrong, reviewed=0.2) == pytest.approx(2 / 3)
    assert share_found(u, wrong, reviewed=0.25) == pytest.approx(2 / 3)  # halfway to the third point, which is right
    assert oracle(wrong, reviewed=0.2) == pytest.approx(2 / 3)
    assert effort(u, wrong, right=0.9) == 0.2  # one error of ten may stay
    assert effort(u, wrong, right=0.95) == 0.4
    assert effort_at_random(wrong, right=0.9) == 0.7  # 0.3 errors a point: 0.9 are left after seven
    assert effort(u, wrong, right=0.7) == 0


def test_an_uncertainty_that_says_nothing_is_reviewing_at_random():
    _, wrong = columns([(0, i % 4 == 0) for i in range(40)])
    same = torch.full((40,), 0.3)
    assert share_found(same, wrong, reviewed=0.2) == pytest.approx(0.2)
    assert effort(same, wrong, right=0.95) == effort_at_random(wrong, right=0.95)


def test_reliability_by_hand():
    u, wrong = columns([(0.05, False), (0.15, False), (0.15, True), (1.0, True)])
    rows = reliability(u, wrong, bins=10)
    assert [row.count for row in rows] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (rows[1].expected, rows[1].wrong) == (pytest.approx(0.15), 0.5)
    assert math.isnan(rows[2].wrong)
    assert calibration_error(rows) == pytest.approx((0.05 + 2 * 0.35 + 0) / 4)


def test_nothing_to_review_is_no_number():
    none = torch.zeros(0)
    assert math.isnan(share_found(none, none.bool(), reviewed=0.2))
    assert math.isnan(effort(none, none.bool(), right=0.95))
    assert math.isnan(calibration_error(reliability(none, none.bool())))
    assert math.isnan(share_found(torch.ones(3), torch.zeros(3, dtype=torch.bool), reviewed=0.2))
