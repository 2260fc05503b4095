"""Calibration: which similarity means "not visible", and how often such a point is wrong, by the labels themselves.

Each labelled animal is predicted from the others. The threshold is the similarity that tells its hidden points from
its visible ones best. The uncertainty is a logistic function of what the votes say, which begins as the one found on
other animals and moves towards these labels the more of them there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco.propagation.references import Reference
from geco.propagation.settings import KeypointSettings
from geco.propagation.voting import Panel, Votes

# Found on 920 predictions of Animal-Pose validation animals from 5 to 20 others by geco-s: log-odds that a point said
# to be visible is wrong, by (1, score − threshold, margin, twin's margin, peak), and that one said to be hidden is
# visible, by (1, threshold − score). Tried and of no use beside these, once fitted to the labels: the share of
# references that agree, a layout fitted to the other points, how difficult each keypoint was for the labels, the
# best single reference, and how far the mirror image disagrees.
VISIBLE_WRONG = (3.0, -5.5, -3.8, 0.0, -2.5)
HIDDEN_WRONG = (0.2, -7.0)
# The same from one animal, with the model's own threshold: for labels that are too few to hold any out.
ALONE_VISIBLE_WRONG = (3.5, -7.2, -1.9, -0.5, -1.7)
ALONE_HIDDEN_WRONG = (-0.4, -8.8)
SPREAD = 2.0  # standard deviation around these that labels are expected to show
FEWEST_ANIMALS = 4  # labelled, to find anything on them: thresholds of two or three made the uncertainty worse
FEWEST = 10  # visible points of held-out animals, to find a threshold on
SHARE = 0.1  # of the visible points that may stay below it, where no hidden ones are labelled
TWIN_MOST = 0.3  # a counterpart further below is no danger


@dataclass(frozen=True)
class Calibration:
    """When a point is not visible, and how likely it is wrong."""

    threshold: float
    visible_wrong: tuple[float, ...] = ALONE_VISIBLE_WRONG
    hidden_wrong: tuple[float, ...] = ALONE_HIDDEN_WRONG
    held_out: int = 0  # labelled animals it was found on; 0: it is the model's own

    def visible(self, votes: Votes) -> Bool[Tensor, "k"]:
        """Whether each keypoint is visible."""
        return votes.score >= self.threshold

    def uncertainty(self, votes: Votes) -> Float[Tensor, "k"]:
        """The share of such points that are expected to be wrong: misplaced, or visible though said to be hidden."""
        log_odds = torch.where(
            self.visible(votes),
            _evidence(votes, self.threshold) @ torch.tensor(self.visible_wrong),
            _hidden_evidence(votes, self.threshold) @ torch.tensor(self.hidden_wrong),
        )
        return log_odds.sigmoid()


def calibrate(
    panel: Panel, references: Sequence[Reference], settings: KeypointSettings, *, fallback: float
) -> Calibration:
    """Found by predicting labelled animals from the others; `fallback` is the threshold where that tells nothing."""
    given = settings.threshold
    if len(references) < FEWEST_ANIMALS:
        return Calibration(fallback if given is None else given)
    step = max(1, -(-len(references) // settings.held_out))
    chosen = range(0, len(references), step)
    trials = [_Trial.of(panel, references[number], number, settings.radius) for number in chosen]
    score = torch.cat([trial.votes.score for trial in trials])
    visible, hidden = (torch.cat([getattr(trial, name) for trial in trials]) for name in ("visible", "hidden"))
    if given is not None:
        threshold = given
    elif int(visible.sum()) < FEWEST:
        return Calibration(fallback)
    else:
        threshold = best_threshold(score[visible], score[hidden])
    wrong = torch.cat([trial.wrong for trial in trials])
    said_visible = score >= threshold
    evidence = torch.cat([_evidence(trial.votes, threshold) for trial in trials])
    hidden_evidence = torch.cat([_hidden_evidence(trial.votes, threshold) for trial in trials])
    evaluated = said_visible & (visible | hidden)
    unseen = ~said_visible & (visible | hidden)
    return Calibration(
        threshold,
        fit_logistic(evidence[evaluated], wrong[evaluated] | hidden[evaluated], VISIBLE_WRONG),
        fit_logistic(hidden_evidence[unseen], visible[unseen], HIDDEN_WRONG),
        held_out=len(trials),
    )


@dataclass(frozen=True)
class _Trial:
    """A labelled animal as the others predict it; only keypoints that they know are counted."""

    votes: Votes
    visible: Bool[Tensor, "k"]
    hidden: Bool[Tensor, "k"]
    wrong: Bool[Tensor, "k"]  # too far from its place

    @classmethod
    def of(cls, panel: Panel, one: Reference, number: int, radius: float) -> "_Trial":
        votes = panel.vote(one.features, whole=one.whole, without=number, mirrored=one.mirrored)
        distance = (votes.xy - one.points).norm(dim=-1)
        far = distance > radius * max(one.features.size)
        return cls(votes, one.visible & votes.known, one.hidden & votes.known, far)


def best_threshold(visible: Float[Tensor, "n"], hidden: Float[Tensor, "m"]) -> float:
    """The score that most points of both kinds are on the right side of, each kind counted as one half.

    Without hidden points: the score that one in ten visible points stays below.
    """
    if not len(hidden):
        return float(visible.quantile(SHARE))
    scores = torch.cat([visible, hidden]).sort().values
    candidates = (scores[1:] + scores[:-1]) / 2
    right = (visible[:, None] >= candidates).float().mean(0) + (hidden[:, None] < candidates).float().mean(0)
    return float(candidates[right.argmax()])


def fit_logistic(evidence: Float[Tensor, "n d"], wrong: Bool[Tensor, "n"], prior: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of log-odds, most probable given these cases and a normal prior (Newton's method)."""
    x, y = evidence.double(), wrong.double()
    centre = torch.tensor(prior, dtype=torch.float64)
    value = centre.clone()
    precision = torch.eye(len(centre), dtype=torch.float64) / SPREAD**2
    for _ in range(20):
        p = (x @ value).sigmoid()
        gradient = x.T @ (p - y) + precision @ (value - centre)
        curvature = (x * (p * (1 - p))[:, None]).T @ x + precision
        value = value - torch.linalg.solve(curvature, gradient)
    return tuple(value.tolist())


def _evidence(votes: Votes, threshold: float) -> Float[Tensor, "k 5"]:
    one = torch.ones_like(votes.score)
    twin_margin = votes.twin_margin.clamp(max=TWIN_MOST)
    return torch.stack([one, votes.score - threshold, votes.margin, twin_margin, votes.peak], -1)


def _hidden_evidence(votes: Votes, threshold: float) -> Float[Tensor, "k 2"]:
    return torch.stack([torch.ones_like(votes.score), threshold - votes.score], -1)
