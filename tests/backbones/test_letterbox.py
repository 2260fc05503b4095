"""Letterboxes: a point goes onto the canvas and back, and the cut map shows the image and nothing else."""

import pytest
import torch

from geco import geometry
from geco.backbones import cut, paste

SIZES = [(100, 100), (480, 640), (640, 480), (37, 501), (500, 333), (1, 90)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("centred", [True, False])
def test_a_point_comes_back(size, centred):
    """Image → canvas pixels → cell of the cut map → image, to 1e-6 of its size."""
    cell, grid = 14, (60, 60)
    top, left, rows, columns = geometry.letterbox(size, grid, centred=centred)
    assert max(rows, columns) == 60
    assert (top, left) == (((60 - rows) // 2, (60 - columns) // 2) if centred else (0, 0))
    xy = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.tensor(size[::-1])
    on_canvas = xy / torch.tensor(size[::-1]) * torch.tensor([columns, rows]) * cell + torch.tensor([left, top]) * cell
    on_map = on_canvas / cell - torch.tensor([left, top])
    back = geometry.resize_points(on_map, size=(rows, columns), to=size)
    torch.testing.assert_close(back, xy, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("finer", [1, 4])
def test_the_cut_map_is_the_image(size, centred, finer):
    """A white image: the canvas is white where it lies and black elsewhere, cut maps are white throughout."""
    cell, grid = 8, (12, 12)
    canvas = paste(torch.full((3, *size), 255, dtype=torch.uint8), grid, cell=cell, centred=centred)
    assert canvas.shape == (3, 96, 96)
    cells = torch.nn.functional.avg_pool2d(canvas, cell // finer)
    shown = cut(cells, size, grid=grid, centred=centred)
    torch.testing.assert_close(shown, torch.ones_like(shown))
    assert shown.numel() * (cell // finer) ** 2 == canvas.sum().round()
