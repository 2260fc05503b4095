"""Constants of the transport problem."""

from dataclasses import dataclass
from typing import Literal

from geco.errors import InputError
from geco.system import strict

MOST_ITERATIONS = 1_000_000  # a mistake, not a wish: a thousand are far beyond convergence


@dataclass(frozen=True)
class TransportSettings:
    """The paper's transport problem: how sharp, how strictly the marginals hold, and what the marginals are.

    `alpha = beta = math.inf` is the balanced problem (the paper's "w/o KL").
    """

    lam: float = 0.1  # λ, weight of the entropy
    alpha: float = 10.0  # weight of KL(P1 ‖ a), the source's marginal
    beta: float = 10.0  # weight of KL(Pᵀ1 ‖ b), the target's marginal
    iterations: int = 10
    z: float = 0.3  # score of the bin: a cosine below it means "hidden"
    s: float = 0.9  # mass of the object, visible or hidden; the background shares the rest
    marginals: Literal["masks", "uniform"] = "masks"  # uniform: the paper's "-N", masks and visibility ignored
    share: Literal["smoothed", "plain"] = "smoothed"  # visible share x: (k+1)/(n+1) (authors' code) or k/n (paper)
    count_padding: bool = False  # n counts the rows that pad a batch, as the authors' code does

    def __post_init__(self) -> None:
        strict.check(self, infinite=("alpha", "beta"))
        strict.within(self, "lam", "alpha", "beta", "iterations", above=0)
        strict.within(self, "iterations", most=MOST_ITERATIONS)
        if not 0 < self.s < 1:
            raise InputError(f"s is the mass of the object, expected between 0 and 1, got {self.s}")
