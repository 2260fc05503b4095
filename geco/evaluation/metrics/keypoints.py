"""PCK and PGCK: how many keypoints reach their match, and how many their twin (GECO §4).

A hit is a distance ≤ radius: a prediction exactly on the circle counts. A share of nothing is NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco.types import Keypoints

CASES = ("11", "10", "1x", "01", "00")  # match visible?, twin visible? (x: no twin exists)
IN_PCK = 3  # the first three cases: PCK looks only at queries whose match is visible
ROUNDING = 1e-12  # relative; 0.29 × 100 must not be less than 29


def share(part: Tensor, whole: Tensor) -> Float[Tensor, "..."]:
    """part / whole in double precision, NaN where there is nothing to divide by."""
    part, whole = part.double(), whole.double()
    return torch.where(whole > 0, part / whole, torch.full_like(whole, torch.nan))


def within(
    distance: Float[Tensor, "k"], alphas: Float[Tensor, "a"], size: int | float | Float[Tensor, "k"]
) -> Bool[Tensor, "a k"]:
    """Whether each distance is at most α · size, for each α, whatever the last bit of the product is."""
    return distance <= alphas[:, None] * size * (1 + ROUNDING)


@dataclass(frozen=True)
class Outcome:
    """What became of queries; a query is a keypoint visible in the source of its pair."""

    case: Int[Tensor, "k"]  # index into CASES
    to_match: Float[Tensor, "k"]  # pixels from the prediction to the annotated match; infinite where it is hidden
    to_twin: Float[Tensor, "k"]  # pixels to the match's twin; infinite where it is hidden or does not exist
    score: Float[Tensor, "k"]  # similarity at the prediction

    def only(self, chosen: Bool[Tensor, "k"]) -> "Outcome":
        """The chosen queries."""
        return Outcome(*(getattr(self, f.name)[chosen] for f in fields(self)))


def evaluate(
    predicted: Float[Tensor, "k 2"],
    score: Float[Tensor, "k"],
    *,
    source: Keypoints,
    target: Keypoints,
    twin: Sequence[int],
) -> Outcome:
    """Outcome of the predictions, one for each visible source keypoint in their order.

    Many pairs are evaluated at once if their keypoints are concatenated and `twin` counts on from pair to pair.
    """
    queries = source.visible.nonzero()[:, 0]
    counterpart = torch.tensor(twin, dtype=torch.long, device=queries.device)[queries]
    has_twin = counterpart != queries
    match_visible = target.visible[queries]
    twin_visible = target.visible[counterpart] & has_twin
    case = torch.where(
        match_visible,
        torch.where(twin_visible, 0, torch.where(has_twin, 1, 2)),
        torch.where(twin_visible, 3, 4),
    )
    infinite = torch.tensor(torch.inf, dtype=torch.float64, device=queries.device)
    away = [
        torch.where(visible, torch.linalg.vector_norm(predicted.double() - target.xy[rows].double(), dim=-1), infinite)
        for rows, visible in ((queries, match_visible), (counterpart, twin_visible))
    ]
    return Outcome(case, away[0], away[1], score.double())


@dataclass(frozen=True)
class Counts:
    """Counters of PGCK; `a` radii, leading dimensions are pairs."""

    cases: Int[Tensor, "*b 5"]  # queries in each case
    hat: Int[Tensor, "*b a 3"]  # correct, within 11, 10 and 1x
    tilde: Int[Tensor, "*b a"]  # 11: within the radius of match and twin (ambiguous)
    underline: Int[Tensor, "*b a"]  # 11: correct and not near the twin (unambiguous true positive)
    overline: Int[Tensor, "*b a"]  # 11: not correct, near the twin (false correspondence)
    hidden_to_twin: Int[Tensor, "*b a"]  # 01: near the twin although the match is hidden

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def count(outcome: Outcome, alphas: Float[Tensor, "a"], size: int | float | Float[Tensor, "k"]) -> Counts:
    """Counters of these queries at each radius α · size."""
    near_match, near_twin = (within(away, alphas, size) for away in (outcome.to_match, outcome.to_twin))  # (a, k)
    member = outcome.case == torch.arange(len(CASES), device=outcome.case.device)[:, None]  # (5, k)
    both = member[0]
    return Counts(
        cases=member.sum(-1),
        hat=(near_match[:, None] & member[:IN_PCK]).sum(-1),
        tilde=(near_match & near_twin & both).sum(-1),
        underline=(near_match & ~near_twin & both).sum(-1),
        overline=(~near_match & near_twin & both).sum(-1),
        hidden_to_twin=(near_twin & member[3]).sum(-1),
    )


SHARES = (
    "hat_11",
    "underline_11",
    "tilde_11",
    "overline_11",
    "confused_11",
    "hat_10",
    "hat_1x",
    "overline_01",
)


def contributions(
    outcome: Outcome, alpha: float, size: Float[Tensor, "p"], pair: Int[Tensor, "k"]
) -> tuple[Float[Tensor, "p f"], Float[Tensor, "p f"]]:
    """What each of `p` pairs adds to numerator and denominator of each of SHARES, given the pair of each query."""
    alphas = torch.tensor([alpha], dtype=torch.float64)
    near_match, near_twin = (within(away, alphas, size[pair])[0] for away in (outcome.to_match, outcome.to_twin))
    both, alone, single, hidden, _ = outcome.case == torch.arange(len(CASES))[:, None]
    correct, false = both & near_match, both & ~near_match & near_twin
    parts = {
        "hat_11": (correct, both),
        "underline_11": (correct & ~near_twin, both),
        "tilde_11": (correct & near_twin, both),
        "overline_11": (false, both),
        "confused_11": (false, correct | false),
        "hat_10": (alone & near_match, alone),
        "hat_1x": (single & near_match, single),
        "overline_01": (hidden & near_twin, hidden),
    }
    zeros = torch.zeros(len(size), len(SHARES), dtype=torch.float64)
    numerator, denominator = (
        zeros.index_add(0, pair, torch.stack([parts[name][side] for name in SHARES], -1).double()) for side in (0, 1)
    )
    return numerator, denominator


class PCK:
    """Share of keypoints carried to within α × size of the truth.

    `average="point"`: hits over all keypoints; `"image"`: the mean over pairs of each pair's share.
    """

    def __init__(self, alphas: Sequence[float], average: Literal["point", "image"] = "point") -> None:
        self.alphas, self.average = torch.tensor(list(alphas), dtype=torch.float64), average
        self.numerator, self.denominator = (
            torch.zeros_like(self.alphas),
            torch.tensor(0.0, dtype=torch.float64),
        )

    def contributions(
        self, outcome: Outcome, size: Float[Tensor, "p"], pair: Int[Tensor, "k"]
    ) -> tuple[Float[Tensor, "p a"], Float[Tensor, "p"]]:
        """What each of `p` pairs adds to numerator and denominator, given the pair of each query.

        Both are zero for a pair in which no match is visible.
        """
        in_pck = outcome.to_match.isfinite()
        hits = within(outcome.to_match[in_pck], self.alphas, size[pair[in_pck]]).double()  # (a, k)
        numerator = hits.new_zeros(len(size), len(self.alphas)).index_add(0, pair[in_pck], hits.T)
        denominator = hits.new_zeros(len(size)).index_add(0, pair[in_pck], hits.new_ones(hits.shape[1]))
        if self.average == "point":
            return numerator, denominator
        return numerator / denominator.clamp_min(1)[:, None], (denominator > 0).double()

    def update(self, outcome: Outcome, size: int | float) -> None:
        """Add one pair; `size` is the side, in pixels, that α is a share of."""
        sides = torch.tensor([float(size)], dtype=torch.float64)
        numerator, denominator = self.contributions(outcome, sides, torch.zeros_like(outcome.case))
        self.numerator = self.numerator + numerator[0]
        self.denominator = self.denominator + denominator[0]

    def merge(self, other: "PCK") -> None:
        """Add what another process counted."""
        self.numerator = self.numerator + other.numerator
        self.denominator = self.denominator + other.denominator

    def compute(self) -> Float[Tensor, "a"]:
        """PCK at each α."""
        return share(self.numerator, self.denominator.expand_as(self.numerator))


class PGCK:
    """Counters of geometry-aware keypoint transfer (GECO §4), at α × size for several α at once."""

    def __init__(self, alphas: Sequence[float]) -> None:
        self.alphas = torch.tensor(list(alphas), dtype=torch.float64)
        a = len(self.alphas)
        zeros = torch.zeros(a, dtype=torch.long)
        self.counts = Counts(torch.zeros(5, dtype=torch.long), torch.zeros(a, 3, dtype=torch.long), *[zeros] * 4)

    def update(self, outcome: Outcome, size: int | float | Float[Tensor, "k"]) -> None:
        """Add queries; `size` is the side, in pixels, that α is a share of (of all, or of each query's pair)."""
        self.counts = self.counts + count(outcome, self.alphas, size)

    def merge(self, other: "PGCK") -> None:
        """Add what another process counted."""
        self.counts = self.counts + other.counts

    def compute(self) -> dict[str, Float[Tensor, "a"]]:
        """Shares at each α: PCK, the same within 11, 10 and 1x, the sets of 11, 01 sent to the twin."""
        counts = self.counts
        number = counts.cases[:IN_PCK]
        both, hidden = counts.cases[0].expand(len(self.alphas)), counts.cases[3].expand(len(self.alphas))
        within_case = share(counts.hat, number.expand_as(counts.hat))
        return {
            "pck": share(counts.hat.sum(-1), number.sum().expand(len(self.alphas))),
            "hat_11": within_case[:, 0],
            "hat_10": within_case[:, 1],
            "hat_1x": within_case[:, 2],
            "underline_11": share(counts.underline, both),
            "tilde_11": share(counts.tilde, both),
            "overline_11": share(counts.overline, both),
            "confused_11": share(counts.overline, counts.hat[:, 0] + counts.overline),
            "overline_01": share(counts.hidden_to_twin, hidden),
        }

    def imbalance(self) -> dict[str, float]:
        """n11/n, n10/n, n1x/n with n = n11 + n10 + n1x."""
        number = self.counts.cases[:IN_PCK]
        return dict(zip(CASES, share(number, number.sum().expand(IN_PCK)).tolist(), strict=False))
