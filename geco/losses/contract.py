"""What a loss is: feature maps and annotated pairs → a value, its terms and their counts.

All are called alike, `loss(source, target, pairs)`, with the feature maps of the two images and the annotation. Means
are over the sets of the whole batch. Where a batch is divided between processes or parts, `reduce_counts` turns the
set sizes of one part into those of the whole; on several processes multiply the total by their number before the
backward pass, because the gradients will be averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from geco.types import FeatureMap, Pair, Size

ReduceCounts = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LossValue:
    """A loss, its terms before they are weighted, and how many entries of this process they were taken over."""

    total: Float[Tensor, ""]
    terms: dict[str, Float[Tensor, ""]]
    counts: dict[str, int]  # by term; also "skipped" pairs and "clamped" entries


def whole(counts: Tensor) -> Tensor:
    """Set sizes of a batch that is not divided: its own."""
    return counts


@runtime_checkable
class Loss(Protocol):
    """What the training step asks of a loss."""

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = whole
    ) -> LossValue:
        """The loss of a batch of pairs; features need not be of unit length."""

    def set_sizes(self, pairs: Pair, grids: tuple[Size, Size]) -> Int[Tensor, "*n"]:
        """What `reduce_counts` is given for these pairs on these patch grids: known before anything is encoded."""
