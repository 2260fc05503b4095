"""What became of the keypoints of a few-shot run: all targets of all draws in one row per keypoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco.evaluation.fewshot.draws import Draw
from geco.evaluation.metrics.keypoints import PCK, SHARES, Outcome, contributions, evaluate
from geco.types import Keypoints


@dataclass(frozen=True)
class Prediction:
    """What targets were labelled with, row by row of the skeleton."""

    xy: Float[Tensor, "*t k 2"]  # pixels of the view; 0 where no reference shows the keypoint
    score: Float[Tensor, "*t k"]
    known: Bool[Tensor, "*t k"]  # some reference shows it
    visible: Bool[Tensor, "*t k"]  # it is said to be visible; everywhere, for methods that do not say
    uncertainty: Float[Tensor, "*t k"]  # 0 for methods that have none


Predictions = Mapping[tuple[str, int], Prediction]  # of a draw, by method and number of references


@dataclass(frozen=True)
class Points:
    """The keypoints of all targets under one method and number of references, in one row each."""

    outcome: Outcome
    image: Int[Tensor, "n"]  # number of its image: what the bootstrap draws
    draw: Int[Tensor, "n"]
    side: Float[Tensor, "n"]  # longer side of its image in pixels
    wrong: Bool[Tensor, "n"]  # misplaced, or said to be visible although hidden, or the other way round
    said_visible: Bool[Tensor, "n"]
    uncertainty: Float[Tensor, "n"]


def collect(
    draws: Sequence[Draw],
    predictions: Sequence[Predictions],
    method: str,
    size: int,
    *,
    alpha: float,
    known_to: int | None = None,
) -> Points:
    """What became of each keypoint that some reference shows, and already some of the first `known_to`."""
    images = {name: number for number, name in enumerate(image_names(draws))}
    parts: list[Points] = []
    for draw, predicted in zip(draws, predictions, strict=True):
        if (method, size) in predicted:
            some = predicted[method, size]
            if known_to is not None:
                some = replace(some, known=some.known & predicted[method, known_to].known)
            parts.append(_of_draw(draw, some, images, alpha))
    outcome = Outcome(*(torch.cat([getattr(p.outcome, f) for p in parts]) for f in Outcome.__annotations__))
    names = [name for name in Points.__annotations__ if name != "outcome"]
    return Points(outcome, **{name: torch.cat([getattr(part, name) for part in parts]) for name in names})


def image_names(draws: Sequence[Draw]) -> list[str]:
    """The images of all targets, each once."""
    return list(dict.fromkeys(view.identity for draw in draws for view in draw.targets))


def _of_draw(draw: Draw, predicted: Prediction, images: dict[str, int], alpha: float) -> Points:
    keypoints, targets = len(draw.skeleton), len(draw.targets)
    truth = Keypoints(
        torch.cat([view.points.xy for view in draw.targets]), torch.cat([view.points.visible for view in draw.targets])
    )
    known = predicted.known.flatten()
    twin = [keypoints * t + j for t in range(targets) for j in draw.skeleton.twin]
    outcome = evaluate(
        predicted.xy.flatten(0, 1)[known],
        predicted.score.flatten()[known],
        source=Keypoints(truth.xy, known),
        target=truth,
        twin=twin,
    )
    image = torch.tensor([images[view.identity] for view in draw.targets])
    side = torch.tensor([float(max(view.size)) for view in draw.targets], dtype=torch.float64)
    sides = side.repeat_interleave(keypoints)[known]
    said_visible, visible = predicted.visible.flatten()[known], truth.visible[known]
    near = outcome.to_match <= alpha * sides
    return Points(
        outcome,
        image.repeat_interleave(keypoints)[known],
        torch.full_like(sides, draw.number, dtype=torch.long),
        sides,
        torch.where(said_visible, ~near, visible),
        said_visible,
        predicted.uncertainty.flatten()[known].double(),
    )


def added(points: Points, alpha: float, *, images: int) -> tuple[Float[Tensor, "p 2"], Float[Tensor, "p 2"]]:
    """What each image adds to numerator and denominator of PCK and of the share of confused points."""
    side = torch.ones(images, dtype=torch.float64).index_put((points.image,), points.side)
    hits, total = PCK([alpha]).contributions(points.outcome, side, points.image)
    shares = contributions(points.outcome, alpha, side, points.image)
    confused = SHARES.index("confused_11")
    numerator = torch.stack([hits[:, 0], shares[0][:, confused]], 1)
    return numerator, torch.stack([total, shares[1][:, confused]], 1)
