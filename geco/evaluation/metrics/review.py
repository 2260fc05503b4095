"""Reviewing predictions: does an uncertainty say how often such points are wrong, and how much work does it save?

Points of equal uncertainty are reviewed in no particular order: each counts as the mean of them. So an uncertainty that
is the same for all is exactly as good as reviewing at random.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

ROUNDING = 1e-9  # points; a sum of means is a whole number of errors up to this


@dataclass(frozen=True)
class Bin:
    """Points whose uncertainty lies between two bounds."""

    low: float
    high: float
    expected: float  # their mean uncertainty, NaN of none
    wrong: float  # the share of them that is wrong, NaN of none
    count: int


def reliability(uncertainty: Float[Tensor, "n"], wrong: Bool[Tensor, "n"], *, bins: int = 10) -> list[Bin]:
    """How many points of each uncertainty are wrong, in bins of equal width from 0 to 1; 1 is in the last."""
    number = (uncertainty.double() * bins).long().clamp(0, bins - 1)
    rows = []
    for index in range(bins):
        chosen = number == index
        count = int(chosen.sum())
        expected, true = (float(x[chosen].double().mean()) if count else math.nan for x in (uncertainty, wrong))
        rows.append(Bin(index / bins, (index + 1) / bins, expected, true, count))
    return rows


def calibration_error(bins: list[Bin]) -> float:
    """Mean distance between expected and true share of errors, over points (ECE); NaN without points."""
    total = sum(row.count for row in bins)
    return sum(row.count * abs(row.expected - row.wrong) for row in bins if row.count) / total if total else math.nan


def errors_found(uncertainty: Float[Tensor, "n"], wrong: Bool[Tensor, "n"]) -> Float[Tensor, "n1"]:
    """How many errors are found among the first 0, 1, …, n points, the most uncertain first."""
    values, group = torch.unique(-uncertainty.double(), return_inverse=True)
    errors = torch.zeros_like(values).index_add(0, group, wrong.double())
    size = torch.zeros_like(values).index_add(0, group, torch.ones_like(errors[group]))
    each = (errors / size)[group.sort().values]
    return torch.cat([each.new_zeros(1), each.cumsum(0)])


def share_found(uncertainty: Float[Tensor, "n"], wrong: Bool[Tensor, "n"], *, reviewed: float) -> float:
    """Share of all errors among the most uncertain `reviewed` of the points; NaN without errors."""
    found = errors_found(uncertainty, wrong)
    if found[-1] < 0.5:
        return math.nan
    place = reviewed * (len(found) - 1)
    below = int(place)
    above = min(below + 1, len(found) - 1)
    return float((found[below] + (place - below) * (found[above] - found[below])) / found[-1])


def effort(uncertainty: Float[Tensor, "n"], wrong: Bool[Tensor, "n"], *, right: float) -> float:
    """Share of the points to review, the most uncertain first, until `right` of all points are right; NaN without."""
    found = errors_found(uncertainty, wrong)
    points = len(found) - 1
    if not points:
        return math.nan
    left = found[-1] - found
    enough = left <= (1 - right) * points + ROUNDING
    return int(enough.long().argmax()) / points


def effort_at_random(wrong: Bool[Tensor, "n"], *, right: float) -> float:
    """The same for a reviewer who takes points in any order, on average; NaN without points."""
    return effort(torch.zeros(len(wrong)), wrong, right=right)


def oracle(wrong: Bool[Tensor, "n"], *, reviewed: float) -> float:
    """The largest possible `share_found`: at most one error is found for each point reviewed."""
    return share_found(wrong.double(), wrong, reviewed=reviewed)
