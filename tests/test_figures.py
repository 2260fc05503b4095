"""Figures hold what they were given: read back from their artists, and drawn to pixels."""

import math
import sys

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from geco import figures


def drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


def has(pixels, colour, least=10):
    """Whether some pixels are near a colour given as #rrggbb."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - wanted).sum(-1) < 40).sum()) >= least


def test_curves_hold_their_points_and_names():
    lines = {"ours": ((0.05, 0.1), (40.0, 60.0)), "bare": ((0.05, 0.1), (30.0, math.nan))}
    figure = figures.curves(lines, title="PCK over radius", y_label="PCK in %")
    drawn(figure)
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["ours", "bare"]
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.05, 40], [0.1, 60]])
    assert axes.get_ylabel() == "PCK in %"


def test_speed_places_models_by_frames_and_quality():
    figure = figures.speed({"s": (30.0, 70.0), "b": (8.0, 75.0)})
    drawn(figure)
    spots = [tuple(c.get_offsets()[0]) for c in figure.axes[0].collections]
    assert spots == [(30.0, 70.0), (8.0, 75.0)]
    assert [text.get_text() for text in figure.axes[0].texts] == ["s", "b"]


def test_bars_fill_one_hundred_per_cent_and_an_empty_category_has_none():
    shares = {
        "bird": {"11": 0.11, "10": 0.11, "1x": 0.78},
        "none": dict.fromkeys(("11", "10", "1x"), math.nan),
    }
    figure = figures.imbalance(shares)
    drawn(figure)
    widths = np.array([[bar.get_width() for bar in stack] for stack in figure.axes[0].containers])
    np.testing.assert_allclose(widths.sum(0), [100, 0])
    np.testing.assert_allclose(widths[0], [11, 0])


def test_the_confusion_matrix_is_shown_as_given_with_red_brackets():
    matrix = torch.tensor([[0.3, 0.2, 0.0], [0.1, 0.1, 0.0], [0.0, 0.0, 0.3]], dtype=torch.float64)
    plain = figures.confusion(matrix, ["head", "left", "right"])
    bracketed = figures.confusion(matrix, ["head", "left", "right"], [(1, 2)], title="cat")
    np.testing.assert_array_equal(bracketed.axes[0].images[0].get_array(), matrix.numpy())
    assert [label.get_text() for label in bracketed.axes[0].get_xticklabels()] == ["head", "left", "right"]
    assert not has(drawn(plain), figures.TWIN)
    assert has(drawn(bracketed), figures.TWIN)
    above, beside = (line.get_xydata() for line in bracketed.axes[0].lines)
    assert above[:, 0].tolist() == beside[:, 1].tolist() == [1, 1, 2, 2]
    assert (above[:, 1] <= -0.5).all()
    assert (beside[:, 0] >= 2.5).all()
    assert bracketed.axes[0].get_xlim() == (-0.5, 2.5)


def example(**changes):
    grey, dark = torch.full((3, 40, 60), 128, dtype=torch.uint8), torch.zeros(3, 30, 50)
    point = torch.tensor([10.5, 20.5])
    values = {"source": dark, "target": grey, "query": point, "predicted": point, "match": point + 15}
    return figures.Example(**{**values, "twin": None, "heat": torch.zeros(4, 6), "caption": "11", **changes})


def test_a_sheet_marks_query_match_and_twin_where_they_are():
    figure = figures.sheet([example(), example(twin=torch.tensor([50.5, 5.5]))], title="cat")
    pixels = drawn(figure)
    assert has(pixels, figures.MATCH)
    assert has(pixels, figures.TWIN)
    source, target, heat = figure.axes[3:6]
    np.testing.assert_allclose(source.lines[0].get_xydata(), [[10, 20]])
    np.testing.assert_allclose(target.lines[1].get_xydata(), [[50, 5]])
    np.testing.assert_array_equal(heat.images[1].get_extent(), [-0.5, 59.5, 39.5, -0.5])
    assert not has(drawn(figures.sheet([example(match=None)])), figures.MATCH)


def test_a_sheet_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one example"):
        figures.sheet([])


def test_a_part_map_colours_parts_and_leaves_background_alone():
    image = torch.full((3, 30, 40), 0.5)
    labels = torch.zeros(3, 4, dtype=torch.long)
    labels[1, 2] = 2
    figure = figures.part_map(image, labels, ["background", "head", "tail"], title="x")
    drawn(figure)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["tail"]
    assert int(np.ma.count(axes.images[1].get_array())) == 1


def test_colours_of_neighbouring_labels_differ():
    colours = figures.part_colours(20)
    assert len(set(colours)) == 20


def test_nothing_here_needs_pyplot():
    import subprocess

    code = "import sys, geco.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
