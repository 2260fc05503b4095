"""Detecting hidden keypoints by a low best similarity: ROC, average precision, rates at a threshold."""

import torch
from jaxtyping import Float
from torch import Tensor

from geco.evaluation.metrics.keypoints import IN_PCK, Outcome, share


class HiddenDetector:
    """How well a low best similarity tells that a query's match is hidden in the target (the positives)."""

    def __init__(self) -> None:
        self.scores: list[Tensor] = []
        self.hidden: list[Tensor] = []

    def update(self, outcome: Outcome) -> None:
        """Add the queries of one pair."""
        self.scores.append(outcome.score)
        self.hidden.append(outcome.case >= IN_PCK)

    def merge(self, other: "HiddenDetector") -> None:
        """Add what another process saw."""
        self.scores += other.scores
        self.hidden += other.hidden

    def _steps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores in the order in which queries are declared hidden; true and false positives up to each."""
        scores = torch.cat([torch.zeros(0, dtype=torch.float64), *self.scores])
        hidden = torch.cat([torch.zeros(0, dtype=torch.bool), *self.hidden])
        order = scores.argsort()
        scores, hidden = scores[order], hidden[order]
        last = torch.cat([scores[1:] != scores[:-1], torch.ones(min(1, len(scores)), dtype=torch.bool)])
        return scores[last], hidden.cumsum(0)[last].double(), (~hidden).cumsum(0)[last].double()

    def curve(self) -> tuple[Float[Tensor, "t"], Float[Tensor, "t"]]:
        """False positive rate and true positive rate (ROC), from (0, 0) to (1, 1)."""
        _, detected, false = self._steps()
        start = torch.zeros(1, dtype=torch.float64)
        rates = [share(x, x[-1:].expand_as(x)) for x in (false, detected)]
        return torch.cat([start, rates[0]]), torch.cat([start, rates[1]])

    def threshold(self, false_alarms: float) -> float:
        """The score below which this share of the visible queries lies; NaN if none is visible."""
        scores = torch.cat([torch.zeros(0, dtype=torch.float64), *self.scores])
        visible = scores[~torch.cat([torch.zeros(0, dtype=torch.bool), *self.hidden])]
        return float(visible.quantile(false_alarms)) if len(visible) else float("nan")

    def compute(self, threshold: float) -> dict[str, float]:
        """Area under the ROC, average precision, and both rates if scores below `threshold` mean hidden."""
        scores, detected, false = self._steps()
        if not len(scores) or detected[-1] == 0 or false[-1] == 0:
            return dict.fromkeys(("auc", "ap", "detected", "false_alarms"), float("nan"))
        x, y = self.curve()
        precision = detected / (detected + false)
        gained = torch.diff(detected, prepend=torch.zeros(1, dtype=torch.float64)) / detected[-1]
        at = int((scores < threshold).sum())
        return {
            "auc": float(torch.trapezoid(y, x)),
            "ap": float((gained * precision).sum()),
            "detected": float(y[at]),
            "false_alarms": float(x[at]),
        }
