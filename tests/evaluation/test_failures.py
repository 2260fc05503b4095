"""Failures of a keypoint run: what missed queries hit instead, and which pairs are shown."""

import painted
import torch

from geco import viz
from geco.evaluation import keypoints
from geco.evaluation.keypoints import Prediction
from geco.evaluation.settings import PROTOCOLS, KeypointSettings
from geco.types import Keypoints, Pair, View

GECO, SETTINGS = PROTOCOLS["geco"], KeypointSettings()
XY = torch.tensor([[10.0, 10.0], [30.0, 10.0], [50.0, 10.0], [30.0, 50.0], [50.0, 50.0]])  # nose, eyes, paws


def view(name, visible=(1, 1, 1, 1, 1), box=(5.0, 5.0, 60.0, 60.0)):
    pixels = torch.zeros(3, 100, 100, dtype=torch.uint8)
    return View(pixels, (100, 100), Keypoints(XY, torch.tensor(visible).bool()), torch.tensor(box), name=name)


def predicted(pair, **places):
    """Every query on its match, except those that are said to be elsewhere."""
    names = painted.SKELETON.names
    xy = XY.clone()
    for name, place in places.items():
        xy[names.index(name.replace("_", " "))] = torch.tensor(place)
    xy = xy[pair.source.points.visible]
    return Prediction(xy[None].double(), torch.ones(1, len(xy)).double())


def test_misses_are_counted_by_what_they_hit():
    pairs = [
        Pair(view("a"), view("b"), painted.SKELETON, "cat"),
        Pair(view("c"), view("d", visible=(1, 1, 0, 1, 1)), painted.SKELETON, "dog"),
    ]
    predictions = {
        0: predicted(pairs[0], left_eye=(49.0, 11.0), nose=(31.0, 51.0), left_paw=(90.0, 90.0), right_paw=(30.0, 30.0)),
        # The right eye is hidden, so that nothing is missed by it; the left paw is off by less than the radius.
        1: predicted(pairs[1], right_eye=(90.0, 90.0), left_eye=(50.0, 10.0), left_paw=(30.0, 59.0)),
    }
    misses, confusions = keypoints.misses(pairs, predictions, GECO, SETTINGS)
    assert misses.columns == ("category", "queries", "missed", "twin", "other keypoint", "off the box", "elsewhere")
    assert misses.rows == (
        ("cat", 5, 4, 25.0, 25.0, 25.0, 25.0),
        ("dog", 4, 1, 0.0, 0.0, 0.0, 100.0),  # where the hidden twin would be
        ("all", 9, 5, 20.0, 20.0, 20.0, 40.0),
    )
    assert confusions.rows == (("cat", "nose", "left paw", 1),)


def test_the_worst_pairs_are_shown_each_target_once(monkeypatch):
    drawn, draw = [], viz.miss_sheet

    def spy(pairs, **how):
        drawn.append(pairs)
        return draw(pairs, **how)

    monkeypatch.setattr(viz, "miss_sheet", spy)
    target = view("target")
    pairs = [
        Pair(view("a"), target, painted.SKELETON, "a cat"),
        Pair(view("b"), target, painted.SKELETON, "a cat"),
        Pair(view("c"), view("other"), painted.SKELETON, "a cat"),
        Pair(view("d"), view("last"), painted.SKELETON, "a cat"),
        Pair(view("e"), view("found"), painted.SKELETON, "dog"),
    ]
    away = (90.0, 90.0)
    predictions = {
        0: predicted(pairs[0], nose=away),
        1: predicted(pairs[1], nose=away, left_eye=away, left_paw=away),
        2: predicted(pairs[2], nose=away, left_eye=away),
        3: predicted(pairs[3], nose=away),
        4: predicted(pairs[4]),
    }
    sheets = keypoints.draw_failures(pairs, predictions, GECO, SETTINGS, count=2)
    assert list(sheets) == ["failures_a_cat"], "a category without misses has no sheet"
    (shown,) = drawn
    assert [len(pair.misses) for pair in shown] == [3, 2]
    assert [pair.queries for pair in shown] == [5, 5]


def test_a_sheet_draws_a_line_from_each_match_to_its_prediction():
    miss = viz.Miss("nose", XY[0], XY[1], XY[2], "elsewhere", None)
    pair = viz.MissedPair(torch.zeros(3, 100, 100, dtype=torch.uint8), torch.zeros(3, 100, 100), (miss, miss), 5)
    figure = viz.miss_sheet([pair, pair, pair], title="cats")
    assert len(figure.axes) == 8, "two pairs in a row"
    source, target = figure.axes[:2]
    assert target.get_title() == "2 of 5 missed"
    segments = [line.get_xydata().tolist() for line in target.lines if len(line.get_xydata()) == 2]
    assert segments == [[XY[1].tolist(), XY[2].tolist()]] * 2
    assert "1 nose, 2 nose" in [text.get_text() for text in source.texts]
