"""One step of training: pairs → features in one forward pass → loss with global set sizes → gradient → optimiser.

The numbers of a step are those of its whole batch, however it is divided between processes and parts: means are over
sets of the whole batch, so their sizes are summed first, and gradients are summed, not averaged.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from geco import images, types
from geco.losses import LossValue
from geco.types import FeatureMap, Pair

try:
    from accelerate import Accelerator
    from accelerate.utils import gather_object
except ImportError as error:  # pragma: no cover (accelerate is there whenever tests run)
    raise ImportError("training needs accelerate; install it with: pip install 'geco[train]'") from error


class DivergedError(ValueError):
    """The loss or its gradient is not a number; the weights are still those of the step before."""


@dataclass(frozen=True)
class StepValues:
    """What a step did, summed over processes and parts."""

    loss: float
    terms: dict[str, float]  # before they are weighted
    counts: dict[str, int]  # entries of each term; also skipped pairs and clamped entries
    gradient: float  # norm, before clipping
    pairs: int


class Stepper:
    """Takes the steps; `parts` are this process's share of a batch, encoded one after the other."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        loss: Callable[..., LossValue],
        accelerator: Accelerator,
        *,
        clip: float | None = None,
    ) -> None:
        self.model, self.optimizer, self.loss, self.accelerator = model, optimizer, loss, accelerator
        self.clip = clip

    def __call__(self, parts: Sequence[Pair]) -> StepValues:
        """Take one step; raises `DivergedError` before anything has changed."""
        on_device = [moved(pairs, self.accelerator.device) for pairs in parts]
        sizes = self._set_sizes(on_device) if len(parts) > 1 else None
        values = []
        for number, pairs in enumerate(on_device):
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.model):
                values.append(self._backward(pairs, sizes))
        gradient = self._apply(parts)
        return self._summed(values, gradient, pairs=sum(len(pairs.category) for pairs in parts))

    def _backward(self, pairs: Pair, sizes: Tensor | None) -> LossValue:
        source, target = encode(self.model, pairs)
        reduce_counts = self._over_processes if sizes is None else lambda _: sizes
        value = self.loss(source, target, pairs, reduce_counts=reduce_counts)
        if self._anywhere(not bool(torch.isfinite(value.total))):
            self.optimizer.zero_grad()
            raise DivergedError(
                f"the loss is not a number for {self._list(self._culprits(pairs, source, target))}"
            )
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

    # --- over parts and processes -----------------------------------------------------------------------------

    def _set_sizes(self, parts: Sequence[Pair]) -> Tensor | None:
        """Set sizes of the whole step, before its first part is encoded: any features make the loss tell them."""
        found: list[Tensor] = []

        def note(counts: Tensor) -> Tensor:
            found.append(counts)
            return counts

        patch = self.accelerator.unwrap_model(self.model).patch
        with torch.no_grad():
            for pairs in parts:
                height, width = pairs.source.size
                shape = (len(pairs.category), 1, height // patch, width // patch)
                alike = FeatureMap(torch.ones(shape, device=self.accelerator.device), pairs.source.size)
                self.loss(alike, alike, pairs, reduce_counts=note)
        return self._over_processes(torch.stack(found).sum(0)) if found else None

    def _over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")

    def _anywhere(self, fact: bool) -> bool:
        return bool(self._over_processes(torch.tensor(float(fact), device=self.accelerator.device)))

    def _summed(self, values: Sequence[LossValue], gradient: float, *, pairs: int) -> StepValues:
        terms, counts = list(values[0].terms), list(values[0].counts)
        rows = [
            torch.stack([value.total.detach(), *(value.terms[name].detach() for name in terms)]).float()
            for value in values
        ]
        numbers = [sum(value.counts[name] for value in values) for name in counts]
        local = torch.cat([torch.stack(rows).sum(0), rows[0].new_tensor([*numbers, pairs])])
        total, *rest = self._over_processes(local).tolist()
        return StepValues(
            total,
            dict(zip(terms, rest[: len(terms)], strict=True)),
            {name: int(n) for name, n in zip(counts, rest[len(terms) : -1], strict=True)},
            gradient,
            int(rest[-1]),
        )

    # --- when something is not a number -------------------------------------------------------------------------

    @torch.no_grad()
    def _culprits(self, pairs: Pair, source: FeatureMap, target: FeatureMap) -> list[str]:
        """Names of the pairs whose own loss is not a number; all of them if each on its own is fine."""
        names, wrong = pair_names(pairs), []
        for i, name in enumerate(names):
            one = [FeatureMap(features.values[i : i + 1], features.size) for features in (source, target)]
            if not torch.isfinite(self.loss(*one, picked(pairs, i)).total):
                wrong.append(name)
        return wrong

    def _list(self, names: list[str]) -> str:
        everywhere = gather_object(names) if self.accelerator.num_processes > 1 else names
        return "; ".join(everywhere) or "a batch of pairs each of which is fine on its own"


def encode(model: Callable[[Tensor], FeatureMap], pairs: Pair) -> tuple[FeatureMap, FeatureMap]:
    """Features of all sources and all targets, by one forward pass."""
    assert isinstance(pairs.source.image, Tensor)
    assert isinstance(pairs.target.image, Tensor)
    pixels = images.prepare(torch.cat([pairs.source.image, pairs.target.image]), pairs.source.size)
    source, target = model(pixels).values.float().chunk(2)
    return FeatureMap(source, pairs.source.size), FeatureMap(target, pairs.target.size)


def pair_names(pairs: Pair) -> list[str]:
    """Each pair of a batch in words."""
    sides = zip(pairs.category, pairs.source.name, pairs.target.name, strict=True)
    return [f"{category}: {source} → {target}" for category, source, target in sides]


def moved(pairs: Pair, device: torch.device) -> Pair:
    """The batch on a device."""
    return _mapped(pairs, lambda tensor: tensor.to(device, non_blocking=True), lambda entries: entries)


def picked(pairs: Pair, index: int) -> Pair:
    """A batch of one pair of the batch."""
    keep = slice(index, index + 1)
    return _mapped(pairs, lambda tensor: tensor[keep], lambda entries: entries[keep])


def _mapped(item: Any, of_tensor: Callable[[Tensor], Tensor], of_entries: Callable[[Any], Any]) -> Any:
    """The object with every tensor and every tuple with an entry per sample replaced."""
    values: dict[str, Any] = {}
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, Tensor):
            values[field.name] = of_tensor(value)
        elif field.name in types.PER_SAMPLE:
            values[field.name] = of_entries(value)
        elif is_dataclass(value):
            values[field.name] = _mapped(value, of_tensor, of_entries)
    return replace(item, **values)
