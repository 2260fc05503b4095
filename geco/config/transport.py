"""Constants of the transport layer and of the losses built on it."""

from dataclasses import dataclass
from typing import Literal


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


@dataclass(frozen=True)
class LossSettings:
    """Weights and reduction of the transport loss, and the constants of the losses it is compared with.

    A weight of None is that of the reduction (`WEIGHTS`).
    """

    transport: TransportSettings = TransportSettings()
    reduction: Literal["reference", "sum", "conditional"] = "reference"
    positive: float | None = None  # M⁺: visible in both images
    bin: float | None = None  # M⁰: visible in one image only
    negative: float | None = None  # M⁻: a keypoint and its geometric twin
    background: float | None = None  # M^{fg/bg}: object against background
    eps: float = 1e-6  # −log(1 − p) is taken of at most p = 1 − eps
    floor: float = 1e-30  # −log p is taken of at least this
    contrast_temperature: float = 0.07  # contrastive: of the softmax over the keypoints of a pair
    position_temperature: float = 0.04  # soft-argmax: of the softmax over all patches of the other image

    def __post_init__(self) -> None:
        if self.reduction not in WEIGHTS:
            raise ValueError(f"reduction must be one of {', '.join(WEIGHTS)}, got {self.reduction!r}")

    def weights(self) -> dict[str, float]:
        """Weight of each term: the one given, or that of the reduction."""
        chosen = {name: getattr(self, name) for name in TERMS}
        defaults = dict(zip(TERMS, WEIGHTS[self.reduction], strict=True))
        return {name: defaults[name] if weight is None else weight for name, weight in chosen.items()}


TERMS = ("positive", "bin", "negative", "background")
WEIGHTS = {
    "reference": (1.0, 1.0, 10.0, 10.0),  # means over the sets of a batch, −log p terms divided by l + 1
    "sum": (1.0, 1.0, 10.0, 10.0),  # the paper's formula as printed
    "conditional": (1.0, 0.5, 1.0, 20.0),  # ours: means of −log of conditional probabilities
}
