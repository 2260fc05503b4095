"""What a row will cost, from two images: parameters, memory, seconds; and how fast its model is, as in `geco bench`."""

import hashlib
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol, runtime_checkable

import torch

from geco.evaluation import runtime
from geco.evaluation.report import Report
from geco.evaluation.settings import RuntimeProtocol, TableSettings
from geco.evaluation.table.columns import Column, KeypointColumn, PartsColumn
from geco.extraction import FeatureStore, content_key
from geco.system import devices
from geco.types import Encoder, View

MEGA = 2**20
FEWEST = 3  # timed calls, however slow they are


@runtime_checkable
class Timed(runtime.Model, Protocol):
    """A model that can be timed, at the size it sees images at."""

    @property
    def input_size(self) -> int:
        """Side of the square that images are squashed to."""


@dataclass(frozen=True)
class RowCost:
    """What a row will cost; 0 where the encoder does not say, or nothing is left to encode."""

    parameters: float  # millions
    weights: float  # MB
    peak: float  # MB more than the weights, while encoding
    seconds: float  # to read and encode an image
    images: int  # left to encode, at most
    maps: float  # MB of feature maps that lie on disk meanwhile, at most

    @property
    def total(self) -> float:
        """Seconds to encode what is left."""
        return self.seconds * self.images

    def __str__(self) -> str:
        parts = [f"{self.parameters:,.1f} M parameters, {_size(self.weights)}" if self.parameters else ""]
        if self.images:
            parts.append(f"{_size(self.peak)} more while encoding" if self.peak else "")
            parts.append(f"{self.seconds:.2g} s an image, {self.images:,} images: about {_duration(self.total)}")
            parts.append(f"up to {_size(self.maps)} of feature maps on disk" if self.maps else "")
        else:
            parts.append("every image is encoded already")
        return "; ".join(part for part in parts if part)


def _size(megabytes: float) -> str:
    return f"{megabytes / 1024:,.2f} GB" if megabytes >= 10 else f"{megabytes:.1f} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimate(encoder: Encoder, columns: Sequence[Column], store: FeatureStore) -> RowCost:
    """The cost of what these columns still need; two images are encoded for it, and are in the store afterwards."""
    size = runtime.weight(encoder) if isinstance(encoder, Timed) else (0.0, 0.0)
    waiting = {content_key(view): view for column in columns for view in _pair_views(column) if not store.has(view)}
    labelled = [column for column in columns if isinstance(column, PartsColumn)]
    number = len(waiting) + sum(len(column.train) + len(column.test) for column in labelled)
    probes = list(islice(chain(waiting.values(), *(_part_views(column) for column in labelled)), 2))
    if not probes:
        return RowCost(*size, peak=0, seconds=0, images=0, maps=0)
    with runtime.peak_memory(encoder.device) as peak:
        seconds = [_timed(store, probe) for probe in probes]
    maps = len(waiting) * store.get(probes[0]).values.nbytes
    # The last of them: the first has warmed up.
    return RowCost(*size, peak=peak[0] / MEGA, seconds=seconds[-1], images=number, maps=maps / MEGA)


def _timed(store: FeatureStore, view: View) -> float:
    start = time.perf_counter()
    store.ensure([view])
    devices.synchronise(store.encoder.device)
    return time.perf_counter() - start


def _pair_views(column: Column) -> Sequence[View]:
    return list(column.views.values()) if isinstance(column, KeypointColumn) else []


def _part_views(column: PartsColumn) -> Iterator[View]:
    return (column.train[number] for number in range(len(column.train)))


def conditions(encoder: Encoder, settings: TableSettings) -> RuntimeProtocol | None:
    """The conditions that an encoder is timed under, one image at a time; None if it cannot or shall not be timed."""
    if not settings.repeats or not isinstance(encoder, Timed):
        return None
    # What it is called in: the weights of an exported model may be of other kinds.
    dtype = getattr(encoder, "dtype", None) or str(next(encoder.parameters()).dtype).removeprefix("torch.")
    return RuntimeProtocol(
        batches=(1,),
        sizes=(encoder.input_size,),
        dtypes=(dtype,),
        devices=(str(encoder.device),),
        warmup=FEWEST,
        repeats=settings.repeats,
    )


def machine(protocol: RuntimeProtocol) -> str:
    """Hash of what decides a running time besides the model: conditions, device and threads."""
    devices_named = [_device(name) for name in protocol.devices]
    identity = repr((protocol.sizes, protocol.dtypes, devices_named, platform.machine(), torch.get_num_threads()))
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _device(name: str) -> str:
    return torch.cuda.get_device_name(name) if name.startswith("cuda") else name


def timing(encoder: Encoder, label: str, protocol: RuntimeProtocol, *, seconds: float, most: float) -> Report:
    """The running time of an encoder under its `conditions`, which takes some `seconds` an image; 0: unknown.

    A slow one is called less often than the conditions say, so that timing takes about `most` seconds.
    """
    models = {label: encoder}
    if not seconds:
        once = replace(protocol, warmup=1, repeats=1)
        seconds = runtime.run(models, once).measure("ms").value / 1000  # type: ignore[arg-type]
    if seconds * (protocol.repeats + protocol.warmup) > most:
        protocol = replace(protocol, warmup=1, repeats=min(protocol.repeats, max(FEWEST, int(most / seconds))))
    return runtime.run(models, protocol)  # type: ignore[arg-type]
