"""Parity: a file that differs from its model is noticed and refused, by how much its precision allows."""

import pytest
import torch

from geco import images
from geco.errors import InputError
from geco.export import parity
from geco.export.parity import Parity
from geco.export.settings import LEAST_COSINE, MOST_DIFFERENCE


def changed(model, change):
    return lambda pixels: change(model(pixels=pixels))


def test_the_largest_difference_and_the_smallest_cosine_are_found(model, image_files):
    pictures = [images.read(path) for path in image_files]
    same = parity.compare(model, changed(model, lambda values: values), pictures, dynamic=True)
    assert (same.difference, same.maps) == (0.0, 3 + 2 * 2)
    assert same.cosine == pytest.approx(1.0)
    assert same.sizes == ((56, 56), (56, 28), (42, 98))

    def one_number(values):
        values = values.clone()
        values[-1, 3, 1, 1] += 0.25
        return values

    assert parity.compare(model, changed(model, one_number), pictures, dynamic=False).difference == pytest.approx(0.25)
    turned = parity.compare(model, changed(model, torch.neg), pictures, dynamic=False)
    assert turned.cosine == pytest.approx(-1.0)
    broken = parity.compare(model, changed(model, lambda values: values * torch.nan), pictures, dynamic=False)
    assert (broken.difference, broken.cosine) == (float("inf"), -1.0)
    with pytest.raises(InputError, match="gives maps"):
        parity.compare(model, changed(model, lambda values: values[..., 1:]), pictures, dynamic=False)
    with pytest.raises(InputError, match="no images"):
        parity.compare(model, changed(model, lambda values: values), [], dynamic=False)


@pytest.mark.parametrize(
    ("precision", "difference", "cosine", "accepted"),
    [
        ("float32", MOST_DIFFERENCE, 1.0, True),
        ("float32", 1.01 * MOST_DIFFERENCE, 1.0, False),
        ("float32", float("inf"), -1.0, False),
        ("float16", 0.1, LEAST_COSINE, True),
        ("float16", 0.1, LEAST_COSINE - 1e-4, False),
        ("int8", 3.0, 0.9, True),  # evaluated by what it finds
    ],
)
def test_bounds_are_those_of_the_precision(precision, difference, cosine, accepted):
    measured = Parity(difference, cosine, 1, ((56, 56),))
    if accepted:
        parity.check(measured, precision, name="a.onnx")
    else:
        with pytest.raises(InputError, match=r"a.onnx was not written: .* is accepted in"):
            parity.check(measured, precision, name="a.onnx")
