"""One step of training: pairs → features in one forward pass → loss with global set sizes → gradient → optimiser.

The numbers of a step are those of its whole batch, however it is divided between processes and parts: means are over
sets of the whole batch, so their sizes are summed first, and gradients are summed, not averaged. (With pairing "all"
only images of one part meet, so there the division decides which pairs there are.)
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from geco import batching
from geco.errors import InputError, MissingPackageError
from geco.losses import Loss, LossValue
from geco.training import pairing
from geco.types import FeatureMap, Pair, Size

try:
    from accelerate import Accelerator
    from accelerate.utils import gather_object
except ImportError as error:  # pragma: no cover (accelerate is there whenever tests run)
    raise MissingPackageError.of_extra("train", "accelerate", what="training") from error


class DivergedError(InputError):
    """The loss or its gradient is not a number; the weights are still those of the step before."""


@dataclass(frozen=True)
class StepValues:
    """What a step did, summed over processes and parts."""

    loss: float
    terms: dict[str, float]  # before they are weighted
    counts: dict[str, int]  # entries of each term; also skipped pairs and clamped entries
    gradient: float  # norm, before clipping
    images: int
    pairs: int  # that were compared


class Stepper:
    """Takes the steps; `parts` are this process's share of a batch, encoded one after the other."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        loss: Loss,
        accelerator: Accelerator,
        *,
        clip: float | None = None,
        pairing: str = "given",
        side: int | None = None,
    ) -> None:
        self.model, self.optimizer, self.loss, self.accelerator = model, optimizer, loss, accelerator
        self.clip, self.pairing = clip, pairing
        self.size = None if side is None else (side, side)  # that the model sees the pairs at; None: their own
        self.unwrapped = accelerator.unwrap_model(model)

    def __call__(self, parts: Sequence[Pair]) -> StepValues:
        """Take one step; raises `DivergedError` before anything has changed."""
        on_device = [batching.move(pairs, self.accelerator.device) for pairs in parts]
        sizes = self._set_sizes(on_device) if len(parts) > 1 else None
        values, compared = [], 0
        for number, part in enumerate(on_device):
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.model):
                source, target = encode(self.unwrapped, part, size=self.size, forward=self.model)
                pairs, source, target = self._compared(part, source, target)
                values.append(self._backward(source, target, pairs, sizes))
                compared += len(pairs.category)
        gradient = self._apply(parts)
        encoded = 2 * sum(len(pairs.category) for pairs in parts)
        return self._summed(values, gradient, encoded=encoded, compared=compared)

    def _compared(self, pairs: Pair, source: FeatureMap, target: FeatureMap) -> tuple[Pair, FeatureMap, FeatureMap]:
        """The pairs that are compared, and their features."""
        if self.pairing == "given":
            return pairs, source, target
        regrouped = pairing.every_two(pairs)
        return regrouped.pairs, *regrouped.features(source, target)

    def _backward(self, source: FeatureMap, target: FeatureMap, pairs: Pair, sizes: Tensor | None) -> LossValue:
        reduce_counts = self._over_processes if sizes is None else lambda _: sizes
        value = self.loss(source, target, pairs, reduce_counts=reduce_counts)
        if self._anywhere(not bool(torch.isfinite(value.total))):
            self.optimizer.zero_grad()
            raise DivergedError(f"the loss is not a number for {self._list(self._culprits(pairs, source, target))}")
        # The gradients of the processes will be averaged; with global set sizes they are to be summed.
        self.accelerator.backward(value.total * self.accelerator.num_processes)
        return value

    def _apply(self, parts: Sequence[Pair]) -> float:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        norm = self.accelerator.clip_grad_norm_(parameters, math.inf if self.clip is None else self.clip)
        # In fp16 an overflow is no accident: the scaler leaves the step out and lowers its scale.
        if self.accelerator.scaler is None and not math.isfinite(float(norm)):
            self.optimizer.zero_grad()
            names = [name for pairs in parts for name in pair_names(pairs)]
            raise DivergedError(f"the gradient is not a number in a batch of {self._list(names)}")
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)

    # --- over parts and processes -------------------------------------------------------------------------------------

    def _set_sizes(self, parts: Sequence[Pair]) -> Tensor:
        """Set sizes of the whole step, before its first part is encoded."""
        sizes = []
        for part in parts:
            height, width = self.size or part.source.size
            grid = height // self.unwrapped.stride, width // self.unwrapped.stride
            pairs = part if self.pairing == "given" else pairing.every_two(part).pairs
            sizes.append(self.loss.set_sizes(pairs, (grid, grid)))
        return self._over_processes(torch.stack(sizes).sum(0))

    def _over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")

    def _anywhere(self, fact: bool) -> bool:
        return bool(self._over_processes(torch.tensor(float(fact), device=self.accelerator.device)))

    def _summed(self, values: Sequence[LossValue], gradient: float, *, encoded: int, compared: int) -> StepValues:
        terms, counts = list(values[0].terms), list(values[0].counts)
        rows = [
            torch.stack([value.total.detach(), *(value.terms[name].detach() for name in terms)]).float()
            for value in values
        ]
        numbers = [sum(value.counts[name] for value in values) for name in counts]
        local = torch.cat([torch.stack(rows).sum(0), rows[0].new_tensor([*numbers, encoded, compared])])
        total, *rest = self._over_processes(local).tolist()
        return StepValues(
            total,
            dict(zip(terms, rest[: len(terms)], strict=True)),
            {name: int(n) for name, n in zip(counts, rest[len(terms) : -2], strict=True)},
            gradient,
            images=int(rest[-2]),
            pairs=int(rest[-1]),
        )

    # --- when something is not a number -------------------------------------------------------------------------------

    @torch.no_grad()
    def _culprits(self, pairs: Pair, source: FeatureMap, target: FeatureMap) -> list[str]:
        """Names of the pairs whose own loss is not a number; all of them if each on its own is fine."""
        names, wrong = pair_names(pairs), []
        for i, name in enumerate(names):
            f, g = (FeatureMap(features.values[i : i + 1], features.size) for features in (source, target))
            if not torch.isfinite(self.loss(f, g, batching.pick(pairs, torch.tensor([i]))).total):
                wrong.append(name)
        return wrong

    def _list(self, names: list[str]) -> str:
        everywhere = gather_object(names) if self.accelerator.num_processes > 1 else names
        return "; ".join(everywhere) or "a batch of pairs each of which is fine on its own"


def encode(
    model: Any, pairs: Pair, *, size: Size | None = None, forward: nn.Module | None = None
) -> tuple[FeatureMap, FeatureMap]:
    """Features of all sources and all targets, by one forward pass, seen at `size`, or at that of the pairs.

    `forward` is the model as it is wrapped for several processes, if it is.
    """
    inputs = model.prepare(torch.cat([pairs.source.pixels, pairs.target.pixels]), size or pairs.source.size)
    source, target = (forward or model)(**inputs).float().chunk(2)
    return FeatureMap(source, pairs.source.size), FeatureMap(target, pairs.target.size)


def pair_names(pairs: Pair) -> list[str]:
    """Each pair of a batch in words."""
    sides = zip(pairs.category, pairs.source.name, pairs.target.name, strict=True)
    return [f"{category}: {source} → {target}" for category, source, target in sides]
