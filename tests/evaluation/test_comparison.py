"""Two keypoint runs on the same pairs, compared pair by pair."""

import dataclasses

import painted
import pytest

from geco.evaluation import keypoints
from geco.evaluation.settings import PROTOCOLS, KeypointSettings

QUICK = KeypointSettings(resamples=50, batch_size=3, radii=(0.05, 0.1))


def test_two_runs_are_compared_pair_by_pair():
    pairs = painted.pairs(40)
    good = keypoints.run(painted.Painter(), pairs, settings=QUICK, label="good")
    bad = keypoints.run(painted.Painter(blind=True), pairs, settings=QUICK, label="bad")
    table = keypoints.compare(bad, good)
    name, first, second, difference = table.rows[2]
    assert name == "geco PCK@0.1"
    assert difference.value == pytest.approx(second - first)
    assert 0 < difference.low <= difference.value <= difference.high
    assert all(row[3].low == row[3].high == 0 for row in keypoints.compare(good, good).rows)
    other = keypoints.run(painted.Painter(), painted.pairs(40, seed=5), settings=QUICK)
    with pytest.raises(ValueError, match="were not evaluated on the same pairs"):
        keypoints.compare(good, other)
    box = keypoints.run(painted.Painter(), pairs, [PROTOCOLS["bbox-image"]], settings=QUICK)
    with pytest.raises(ValueError, match="share no protocol"):
        keypoints.compare(good, box)
    older = dataclasses.replace(good, samples={"geco": {"alphas": [0.1], "numerator": [], "denominator": []}})
    with pytest.raises(ValueError, match="not counted alike under geco; evaluate both again"):
        keypoints.compare(older, good)
