"""Contact sheets of a search: each crop shows its place, in a ring."""

import pytest
import torch
from PIL import ImageColor

from geco.errors import InputError
from geco.viz import Crop, hit_sheet
from geco.viz.contact import CAPTION, TILE
from geco.viz.hits import INNER, RING
from geco.viz.palette import MATCH, QUERY


def rings(sheet, colour):
    """Centre of the pixels that have this colour."""
    pixels = torch.frombuffer(bytearray(sheet.tobytes()), dtype=torch.uint8).reshape(sheet.height, sheet.width, 3)
    places = (pixels == torch.tensor(ImageColor.getrgb(colour))).all(-1).nonzero().double()
    return (places.amin(0) + places.amax(0)).flip(0).div(2).tolist(), len(places)


@pytest.mark.parametrize(
    ("xy", "centre"),
    [((50.0, 40.0), (0.5, 0.5)), ((0.0, 40.0), (0.0, 0.5)), ((100.0, 80.0), (1.0, 1.0))],
)
def test_the_ring_is_where_the_place_is(xy, centre):
    sheet = hit_sheet([Crop(torch.zeros(3, 80, 100, dtype=torch.uint8), xy, "a")])
    assert sheet.size == (TILE, TILE + CAPTION)
    expected = [INNER * share - 0.5 for share in centre]
    found, count = rings(sheet, MATCH)
    assert count > 0
    visible = [max(0, e - RING) / 2 + min(INNER - 1, e + RING) / 2 for e in expected]  # the rest is cut off
    assert found == pytest.approx(visible, abs=1.5)


def test_what_was_asked_has_another_colour():
    pixels = torch.zeros(3, 60, 60, dtype=torch.uint8)
    sheet = hit_sheet([Crop(pixels, (30.0, 30.0), "asked", asked=True), Crop(pixels, (30.0, 30.0), "found")])
    assert rings(sheet, QUERY)[0][0] < TILE < rings(sheet, MATCH)[0][0]


def test_a_sheet_needs_a_place():
    with pytest.raises(InputError, match="at least one place"):
        hit_sheet([])
