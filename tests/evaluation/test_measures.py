"""A measure says what it is the number of, in keys, in tables and among those of others."""

import math

from geco.evaluation import Estimate, Measure


def test_its_key_is_that_of_a_report_json():
    assert Measure("mIoU", 0.5).key == "mIoU"
    assert Measure("hidden auc", 0.5, "geco").key == "geco hidden auc"
    assert Measure("PCK", 0.5, "geco-apk", 0.1).key == "geco-apk PCK@0.1"
    timing = Measure("ms", 4.5, "cpu, float32, 518 px, batch 1", case="small merged", unit="ms")
    assert timing.key == "small merged, cpu, float32, 518 px, batch 1 ms"


def test_its_owner_stands_before_its_key():
    for measure in (
        Measure("mIoU", 0.5),
        Measure("PCK", 0.5, "geco", 0.1, low=0.4, high=0.6),
        Measure("ms", 4.5, "cpu", case="small", unit="ms"),
    ):
        owned = measure.of("tiny")
        assert owned.key == f"tiny: {measure.key}"
        assert (owned.value, owned.unit, owned.radius) == (measure.value, measure.unit, measure.radius)


def test_shares_are_shown_in_per_cent_and_nothing_else_is():
    assert Measure("PCK", 0.75).cell == 75.0
    assert Measure("PCK", 0.75, low=0.5, high=1.0).cell == Estimate(75.0, 50.0, 100.0)
    assert Measure("hidden threshold", 0.25, unit="similarity").cell == 0.25
    nothing = Measure("PCK", math.nan).cell
    assert all(math.isnan(number) for number in (nothing.value, nothing.low, nothing.high))
