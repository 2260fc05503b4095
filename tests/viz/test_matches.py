"""Pictures are drawn where the points are, with every label inside the picture."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from geco import viz
from geco.types import FeatureMap, Matches

SOURCE = torch.full((3, 60, 80), 90, dtype=torch.uint8)
TARGET = torch.full((3, 100, 70), 160, dtype=torch.uint8)


def matches(count=10):
    step = torch.linspace(0, 1, count)
    source = torch.stack([step * 80, step * 60], 1)
    target = torch.stack([step * 70, step * 100], 1)
    return Matches(source, target, 1 - step, step < 0.8)


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(lambda o: hasattr(o, "get_text")))


def test_transfer_numbers_every_point_and_names_the_hidden_ones():
    figure = viz.draw_transfer(SOURCE, TARGET, matches(10), names=[f"p{i}" for i in range(10)], title="model x")
    shown = texts(figure)
    assert "model x" in shown
    assert "1 p0: 1.00" in shown
    assert "10 p9: not visible (0.00)" in shown
    left, right = figure.axes
    assert len(left.lines) == 10
    assert len(right.lines) == 8, "hidden points are not drawn in the target"


def test_points_are_drawn_at_their_pixels():
    figure = viz.draw_transfer(SOURCE, TARGET, matches(3))
    positions = [line.get_xydata()[0].tolist() for line in figure.axes[0].lines]
    np.testing.assert_allclose(positions, matches(3).source)
    assert figure.axes[0].images[0].get_extent() == [0, 80, 60, 0]


@pytest.mark.parametrize("count", [1, 12, 40])
def test_no_label_leaves_the_picture(count):
    """Also for points in the corners, and for a legend of many rows."""
    figure = viz.draw_transfer(SOURCE, TARGET, matches(count), names=["a long name"] * count, title="t" * 60)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    for text in figure.findobj(lambda o: hasattr(o, "get_text") and o.get_text() and o.get_visible()):
        box = text.get_window_extent()
        assert box.x0 >= -1, text.get_text()
        assert box.y0 >= -1, text.get_text()
        assert box.x1 <= width + 1, text.get_text()
        assert box.y1 <= height + 1, text.get_text()


def test_matches_draws_at_most_the_limit_and_only_visible_ones():
    figure = viz.draw_matches(SOURCE, TARGET, matches(50), limit=7)
    assert len(figure.axes[0].lines) == 7
    assert "7 of 40 mutual matches" in texts(figure)
    nothing = Matches(torch.zeros(0, 2), torch.zeros(0, 2), torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    assert "0 of 0" in texts(viz.draw_matches(SOURCE, TARGET, nothing))


def test_heatmap_marks_the_best_pixel_and_says_whether_it_is_visible():
    heat = torch.zeros(100, 70)
    heat[30, 20] = 0.6
    figure = viz.draw_heatmap(SOURCE, TARGET, (5.0, 6.0), heat, threshold=0.5)
    assert figure.axes[1].lines[0].get_xydata()[0].tolist() == [20.5, 30.5]
    assert "best 0.60, threshold 0.50: visible" in texts(figure)
    assert "not visible here" in texts(viz.draw_heatmap(SOURCE, TARGET, (5.0, 6.0), heat, threshold=0.7))


def test_components_equal_scikit_learns():
    from sklearn.decomposition import PCA

    maps = [FeatureMap(torch.randn(8, 4, 5), (40, 50)), FeatureMap(torch.randn(8, 3, 3), (30, 30))]
    rows = torch.cat([m.unit().values.flatten(1).mT for m in maps]).double()
    expected = PCA(3).fit_transform(rows.numpy())
    found = torch.cat([c.flatten(0, 1) for c in viz.principal_components(maps)]).numpy()
    for k in range(3):
        inside = (found[:, k] > 0) & (found[:, k] < 1)  # the outer per cent is clipped
        assert abs(np.corrcoef(found[inside, k], expected[inside, k])[0, 1]) > 0.9999
    assert found.min() >= 0
    assert found.max() <= 1


def test_save_makes_the_folder_and_reports_the_path(tmp_path):
    figure = viz.draw_components([SOURCE], [FeatureMap(torch.randn(8, 4, 5), (60, 80))], title="t")
    path = viz.save(figure, tmp_path / "new" / "a.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_pyplot_is_never_touched():
    import subprocess
    import sys

    code = (
        "import sys; from geco import viz; assert all(getattr(viz, name) for name in viz.__all__); "
        "assert 'matplotlib.figure' in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
