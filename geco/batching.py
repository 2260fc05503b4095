"""Batches of the types that flow: stacked, joined, picked from, moved. The only file that walks their fields."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from geco.errors import InputError
from geco.types import Keypoints, Pair, View

T = TypeVar("T")
PER_SAMPLE = ("name", "category", "skeleton")  # fields that become tuples in a batch
OPTIONAL = ("keypoints", "box", "mask", "parts")  # fields that not every dataset has


def stack(items: Sequence[T]) -> T:
    """One object whose tensors have a new leading batch dimension; every other field must be the same in all items.

    Keypoints of different number are padded with `visible=False`, so categories can be mixed in a batch.
    """
    first = items[0]
    if isinstance(first, Keypoints):
        return _stack_keypoints(items)  # type: ignore[arg-type, return-value]
    values: dict[str, Any] = {}
    for field in dataclasses.fields(first):  # type: ignore[arg-type]
        parts = [getattr(item, field.name) for item in items]
        values[field.name] = _stack_field(field.name, parts)
    return type(first)(**values)


def collate(pairs: Sequence[Pair]) -> Pair:
    """One batch; a field that some views lack (a box, say, where datasets are mixed) is left out of all."""
    views = [view for pair in pairs for view in (pair.source, pair.target)]
    absent: dict[str, Any] = {name: None for name in OPTIONAL if any(getattr(view, name) is None for view in views)}
    even = [
        replace(pair, source=replace(pair.source, **absent), target=replace(pair.target, **absent)) for pair in pairs
    ]
    return stack(even)


def join(first: T, second: T) -> T:
    """Two batches end to end."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(first):  # type: ignore[arg-type]
        head, tail = getattr(first, field.name), getattr(second, field.name)
        if isinstance(head, Tensor):
            values[field.name] = torch.cat([head, tail])
        elif isinstance(head, Keypoints | View):
            values[field.name] = join(head, tail)
        else:
            values[field.name] = head + tail if field.name in PER_SAMPLE else head
    return type(first)(**values)


def pick(batch: T, index: Int[Tensor, "n"]) -> T:
    """A batch of the samples with these numbers."""
    return _mapped(batch, lambda tensor: tensor[index], lambda entries: tuple(entries[i] for i in index.tolist()))


def move(item: T, device: torch.device | str) -> T:
    """The same on a device."""
    return _mapped(item, lambda tensor: tensor.to(device, non_blocking=True))


def _mapped(
    item: T, of_tensor: Callable[[Tensor], Tensor], of_entries: Callable[[Any], Any] = lambda entries: entries
) -> T:
    """The item with every tensor, and every tuple that has an entry per sample, replaced."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(item):  # type: ignore[arg-type]
        value = getattr(item, field.name)
        if isinstance(value, Tensor):
            values[field.name] = of_tensor(value)
        elif field.name in PER_SAMPLE:
            values[field.name] = of_entries(value)
        elif dataclasses.is_dataclass(value):
            values[field.name] = _mapped(value, of_tensor, of_entries)
    return dataclasses.replace(item, **values)  # type: ignore[type-var]


def _stack_field(name: str, parts: list[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.stack(parts)
    if name in PER_SAMPLE:
        return tuple(parts)
    if isinstance(parts[0], Keypoints | View):
        return stack(parts)
    if any(part != parts[0] for part in parts[1:]):
        raise InputError(f"cannot stack items whose {name} differ: {parts[0]!r} and others")
    return parts[0]


def _stack_keypoints(items: Sequence[Keypoints]) -> Keypoints:
    longest = max(item.visible.shape[-1] for item in items)
    xy = [torch.nn.functional.pad(item.xy, (0, 0, 0, longest - item.xy.shape[-2])) for item in items]
    visible = [
        torch.nn.functional.pad(item.visible, (0, longest - item.visible.shape[-1]), value=False) for item in items
    ]
    return Keypoints(torch.stack(xy), torch.stack(visible))
