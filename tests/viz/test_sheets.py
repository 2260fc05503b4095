"""Sheets show every point of an example where it is."""

import numpy as np
import pytest
import torch
from drawn import drawn, has

from geco.viz import Example, sheet
from geco.viz.palette import MATCH, TWIN


def example(**changes):
    grey, dark = torch.full((3, 40, 60), 128, dtype=torch.uint8), torch.zeros(3, 30, 50)
    point = torch.tensor([10.5, 20.5])
    values = {"source": dark, "target": grey, "query": point, "predicted": point, "match": point + 15}
    return Example(**{**values, "twin": None, "heat": torch.zeros(4, 6), "caption": "11", **changes})


def test_a_sheet_marks_query_match_and_twin_where_they_are():
    figure = sheet([example(), example(twin=torch.tensor([50.5, 5.5]))], title="cat")
    pixels = drawn(figure)
    assert has(pixels, MATCH)
    assert has(pixels, TWIN)
    source, target, heat = figure.axes[3:6]
    np.testing.assert_allclose(source.lines[0].get_xydata(), [[10.5, 20.5]])
    np.testing.assert_allclose(target.lines[1].get_xydata(), [[50.5, 5.5]])
    np.testing.assert_array_equal(heat.images[1].get_extent(), [0, 60, 40, 0])
    assert not has(drawn(sheet([example(match=None)])), MATCH)


def test_a_sheet_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one example"):
        sheet([])
