"""Charts hold what they were given: read back from their artists, and drawn to pixels."""

import math

import numpy as np
import torch
from drawn import drawn, has

from geco.viz import charts
from geco.viz.palette import TWIN


def test_curves_hold_their_points_and_names():
    lines = {"ours": ((0.05, 0.1), (40.0, 60.0)), "bare": ((0.05, 0.1), (30.0, math.nan))}
    figure = charts.curves(lines, title="PCK over radius", y_label="PCK in %")
    drawn(figure)
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["ours", "bare"]
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.05, 40], [0.1, 60]])
    assert axes.get_ylabel() == "PCK in %"


def test_speed_places_models_by_frames_and_quality():
    figure = charts.speed({"s": (30.0, 70.0), "b": (8.0, 75.0)})
    drawn(figure)
    spots = [tuple(c.get_offsets()[0]) for c in figure.axes[0].collections]
    assert spots == [(30.0, 70.0), (8.0, 75.0)]
    assert [text.get_text() for text in figure.axes[0].texts] == ["s", "b"]


def test_panels_of_speed_keep_shape_and_colour_and_published_points_are_hollow():
    of_cub = [charts.SpeedPoint("b", 8.0, 75.0), charts.SpeedPoint("DINOv2-B", 25.0, 92.8, quoted_for="b")]
    of_spair = [charts.SpeedPoint("s", 30.0, 50.0), charts.SpeedPoint("b", 8.0, 60.0)]
    figure = charts.speed_panels({"CUB": of_cub, "SPair": of_spair}, quoted="(paper)")
    drawn(figure)
    cub, spair = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["CUB", "SPair"]
    assert [tuple(c.get_offsets()[0]) for c in cub.collections] == [(8.0, 75.0), (25.0, 92.8)]
    ours, theirs = cub.collections
    other, same = spair.collections
    assert len(theirs.get_facecolors()) == 0
    np.testing.assert_array_equal(same.get_facecolors(), ours.get_facecolors())
    np.testing.assert_array_equal(theirs.get_paths()[0].vertices, ours.get_paths()[0].vertices)
    assert not np.array_equal(other.get_facecolors(), same.get_facecolors())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b", "DINOv2-B (paper)", "s"]


def test_frames_per_second_are_plain_numbers():
    """A log axis writes formulas by itself, and formulas are not drawn: a name may hold a $."""
    for points in ({"s": (0.5, 70.0), "b": (200.0, 75.0)}, {"s": (5.0, 70.0)}):
        figure = charts.speed(points)
        drawn(figure)
        labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
        assert labels
        assert all(float(label) > 0 for label in labels)


def test_bars_fill_one_hundred_per_cent_and_an_empty_category_has_none():
    shares = {
        "bird": {"11": 0.11, "10": 0.11, "1x": 0.78},
        "none": dict.fromkeys(("11", "10", "1x"), math.nan),
    }
    figure = charts.imbalance(shares)
    drawn(figure)
    widths = np.array([[bar.get_width() for bar in stack] for stack in figure.axes[0].containers])
    np.testing.assert_allclose(widths.sum(0), [100, 0])
    np.testing.assert_allclose(widths[0], [11, 0])


def test_the_confusion_matrix_is_shown_as_given_with_red_brackets():
    matrix = torch.tensor([[0.3, 0.2, 0.0], [0.1, 0.1, 0.0], [0.0, 0.0, 0.3]], dtype=torch.float64)
    plain = charts.confusion(matrix, ["head", "left", "right"])
    bracketed = charts.confusion(matrix, ["head", "left", "right"], [(1, 2)], title="cat")
    np.testing.assert_array_equal(bracketed.axes[0].images[0].get_array(), matrix.numpy())
    assert [label.get_text() for label in bracketed.axes[0].get_xticklabels()] == ["head", "left", "right"]
    assert not has(drawn(plain), TWIN)
    assert has(drawn(bracketed), TWIN)
    above, beside = (line.get_xydata() for line in bracketed.axes[0].lines)
    assert above[:, 0].tolist() == beside[:, 1].tolist() == [1, 1, 2, 2]
    assert (above[:, 1] <= -0.5).all()
    assert (beside[:, 0] >= 2.5).all()
    assert bracketed.axes[0].get_xlim() == (-0.5, 2.5)
