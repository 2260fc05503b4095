"""The running mean of the weights: smoother than those of the last step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


class Average:
    """An exponential mean of weights over the steps of a run; `values` are of the same names."""

    def __init__(self, weights: Mapping[str, Tensor], decay: float) -> None:
        self.weights, self.decay = weights, decay
        self.values = {name: value.detach().clone() for name, value in weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after this many steps.

        Early on the mean is over all steps so far, or the weights that a run begins with would weigh the most.
        """
        decay = min(self.decay, step / (step + 1))
        for name, mean in self.values.items():
            mean.lerp_(self.weights[name].to(mean.dtype), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the weights are their mean; afterwards they are what they were."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, mean in self.values.items():
            now = self.weights[name].detach().clone()
            self.weights[name].copy_(mean)
            mean.copy_(now)
