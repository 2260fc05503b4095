"""The checker of the tests itself: what it must refuse while the suite runs, and what it lets through."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, TypeCheckError, config
from shapecheck import checked
from torch import Tensor

from geco import geometry
from geco.types import Keypoints


@checked
def row_sums(values: Float[Tensor, "rows columns"], scale: Float[Tensor, "columns"]) -> Float[Tensor, "rows"]:
    return (values * scale).sum(1) if len(scale) > 1 else scale


@checked
@dataclass(frozen=True)
class Points:
    xy: Float[Tensor, "*b n 2"]
    weight: Float[Tensor, "*b n"]


def test_one_axis_has_one_size_in_a_call_and_its_result():
    assert row_sums(torch.ones(3, 2), torch.ones(2)).tolist() == [2, 2, 2]
    with pytest.raises(TypeCheckError, match="scale"):
        row_sums(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(TypeCheckError, match="return"):
        row_sums(torch.ones(3, 1), torch.ones(1))
    with pytest.raises(TypeCheckError, match="values"):
        row_sums(torch.ones(3, 2, dtype=torch.int64), torch.ones(2))


def test_a_call_within_a_call_has_axes_of_its_own():
    @checked
    def outer(values: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows"]:
        assert row_sums(torch.ones(7, 5), torch.ones(5)).shape == (7,)
        return values[:, 0]

    assert outer(torch.ones(3, 2)).shape == (3,)


def test_fields_of_a_dataclass_share_their_axes():
    assert Points(torch.zeros(4, 3, 2), torch.zeros(4, 3)).xy.shape == (4, 3, 2)
    with pytest.raises(TypeCheckError, match="weight"):
        Points(torch.zeros(4, 3, 2), torch.zeros(5, 3))


def test_plain_types_generators_and_names_for_the_type_checker_only():
    @checked
    def repeat(count: int, factor: float, other: "Unknown" = None) -> Iterator[float]:
        yield from [factor] * count

    assert list(repeat(2, 1)) == [1, 1]  # an int may stand where a float is asked for
    assert list(repeat(1, 2.0, other="anything")) == [2.0]
    with pytest.raises(TypeCheckError, match="count"):
        repeat(2.5, 1.0)


def test_it_can_be_switched_off():
    config.update("jaxtyping_disable", True)
    try:
        assert row_sums(torch.ones(3, 2), torch.ones(3, 1)).shape == (3,)
    finally:
        config.update("jaxtyping_disable", False)


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError):
        Keypoints(torch.zeros(3, 2), torch.zeros(4, dtype=torch.bool))
    with pytest.raises(TypeCheckError):
        geometry.cell_centres("all", size=(64, 64), grid=(8, 8))
