"""Pictures of meshes: what is drawn where."""

import numpy as np
import torch

from geco import viz


def test_a_mesh_is_laid_over_the_right_hand_image_only():
    image = torch.zeros(3, 40, 60, dtype=torch.uint8)
    overlay = np.zeros((40, 60, 4))
    overlay[10:20, 5:25] = (1, 0, 0, 1)
    figure = viz.draw_pose(image, overlay, title="t", note="n")
    left, right = figure.axes
    assert (len(left.images), len(right.images)) == (1, 2)
    shown = np.asarray(right.images[1].get_array())
    assert shown[15, 10, 0] == 1
    assert 0 < shown[15, 10, 3] < 1
    assert shown[30, 30, 3] == 0
    assert overlay[15, 10, 3] == 1  # the caller's array is left alone


def test_wrong_matches_are_outlined_and_places_have_colours():
    colours = viz.surface_colours(np.array([[0.0, 0, 0], [1, 2, 3]]), low=np.zeros(3), high=np.array([1.0, 2, 3]))
    assert np.allclose(colours, [[0.15] * 3, [1.0] * 3])
    panel = viz.SurfacePicture(
        torch.zeros(3, 20, 20, dtype=torch.uint8),
        xy=np.array([[5.0, 5.0], [10.0, 10.0]]),
        colours=colours,
        wrong=np.array([False, True]),
    )
    figure = viz.draw_surface_matches([[panel]], columns=("matches",))
    (drawn,) = figure.axes[0].collections
    assert drawn.get_edgecolors()[:, 3].tolist() == [0, 1]
