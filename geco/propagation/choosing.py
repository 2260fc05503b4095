"""Which images to label next: those that would tell most about many uncertain ones."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from geco.propagation.annotations import Animal
from geco.propagation.journal import Result

MOST = 4000  # images that are compared with each other: the most uncertain ones


def expected_errors(animals: Sequence[Animal]) -> float:
    """How many of the animals' points are expected to be wrong; points that no label shows count as one half."""
    return sum(float(one.uncertainty.where(one.state > 0, 0.5).sum()) for one in animals if one.uncertainty is not None)


def worth_labelling(results: Sequence[Result], labelled: Float[Tensor, "r c"], count: int) -> list[int]:
    """Numbers of the images whose labels promise most, best first; `labelled` is how labelled images look.

    An image tells about another by as much as it looks like it beyond those labelled already; that is weighed with
    the other's expected errors. Images are chosen one after the other, so alike ones are not chosen twice.
    """
    errors = torch.tensor([expected_errors(result.image.animals) for result in results])
    rows = errors.argsort(descending=True, stable=True)[:MOST]
    looks = (
        torch.stack([results[row].look for row in rows.tolist()]) if len(rows) else torch.zeros(0, labelled.shape[-1])
    )
    alike = looks @ looks.T
    known = (looks @ labelled.T.to(looks)).amax(1)
    chosen: list[int] = []
    for _ in range(min(count, len(rows))):
        gain = ((alike - known).clamp(min=0) * errors[rows]).sum(1)
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        known = torch.maximum(known, alike[best])
    return rows[chosen].tolist()
