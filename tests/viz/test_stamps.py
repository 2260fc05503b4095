"""Points on pixels: at their centres, lines between visible ones, nothing for hidden ones."""

import numpy as np
import torch

from geco import viz

BLACK = torch.zeros(3, 100, 120, dtype=torch.uint8)


def test_a_disc_has_its_centre_at_the_point():
    xy = torch.tensor([[40.5, 30.5], [90.0, 70.0], [torch.nan, torch.nan]])
    picture = np.asarray(viz.stamp(BLACK, [(xy, torch.tensor([True, False, False]))]))
    rows, columns = np.nonzero(picture.any(-1))
    assert (columns.mean() + 0.5, rows.mean() + 0.5) == (40.5, 30.5)
    assert tuple(picture[30, 40]) == (230, 159, 0), "the palette's orange"
    assert np.ptp(rows) <= 6


def test_lines_join_visible_points_only():
    xy = torch.tensor([[20.0, 20.0], [60.0, 20.0], [60.0, 80.0]])
    picture = np.asarray(
        viz.stamp(BLACK, [(xy, torch.tensor([True, True, False]))], edges=((0, 1), (1, 2)), names=("a", "b", "c"))
    )
    assert picture[19:21, 40].any()
    assert not picture[50, 58:62].any()


def test_points_far_outside_and_no_objects_do_no_harm():
    xy = torch.tensor([[1e12, 3.0], [-1e12, torch.inf]])
    picture = viz.stamp(BLACK, [(xy, torch.tensor([True, True]))], edges=((0, 1),), names=("a", "b"))
    assert not np.asarray(picture).any()
    assert np.array_equal(np.asarray(viz.stamp(BLACK, [])), np.zeros((100, 120, 3)))
