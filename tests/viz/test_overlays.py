"""Pictures that are laid over images: colours where they belong, and the file a browser can read."""

import io

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image

from geco import viz


def pixels(png):
    with Image.open(io.BytesIO(png)) as picture:
        return picture.format, np.asarray(picture)


def test_heat_is_viridis_and_the_lower_the_more_transparent():
    kind, heat = pixels(viz.heat_png(torch.tensor([[-1.0, 0.0, 0.5, 1.0, 2.0]]), low=0, high=1))
    assert kind == "PNG"
    assert heat[0, :, 3].tolist() == [0, 0, 102, 204, 204]
    expected = np.array([colormaps["viridis"](share)[:3] for share in (0.0, 0.0, 0.5, 1.0, 1.0)]) * 255
    assert abs(heat[0, :, :3] - expected).max() <= 1.5


def test_large_maps_become_small_pictures():
    ramp = torch.linspace(0, 1, 1000)[:, None].expand(1000, 500)
    _, heat = pixels(viz.heat_png(ramp))
    assert max(heat.shape[:2]) <= 192
    assert abs(heat[len(heat) // 2, 0, 3] - 102) <= 2, "the middle stays in the middle"


def test_labels_take_the_colours_of_the_palette():
    _, labels = pixels(viz.labels_png(torch.tensor([[0, 1], [2, 3]])))
    assert labels[0, 0, 3] == 0
    for place, colour in (((0, 1), "#E69F00"), ((1, 0), "#56B4E9"), ((1, 1), "#009E73")):
        assert "#{:02X}{:02X}{:02X}".format(*labels[place][:3]) == colour
        assert labels[place][3] == 255


def test_components_are_red_green_and_blue():
    _, colours = pixels(viz.components_png(torch.tensor([[[0.0, 0.5, 1.0]]])))
    assert colours.tolist() == [[[0, 128, 255]]]
