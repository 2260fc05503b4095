"""Running time: several models side by side on the same images; reading and preparing them is not counted."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from geco.errors import InputError
from geco.evaluation.measures import Measure
from geco.evaluation.report import Cell, Report, Table
from geco.evaluation.settings import Conditions, RuntimeProtocol
from geco.system import Progress, codec, cost, devices, provenance, silent
from geco.types import Image, Size

MEGA = 2**20
DEFAULTS = RuntimeProtocol()
MERGED = " merged"  # ending of the name under which a model with a merged adapter is timed
COLUMNS = (
    "model",
    "device",
    "dtype",
    "size",
    "batch",
    "ms",
    "IQR ms",
    "images/s",
    "peak MB",
    "params M",
    "model MB",
)


@runtime_checkable
class Model(Protocol):
    """A `torch.nn.Module` that says what it takes for images to be seen at a size."""

    def prepare(self, pixels: Image, size: Size) -> dict[str, Tensor]:
        """What the model takes, by name, for images in [0, 1]."""

    def __call__(self, **inputs: Tensor) -> Any:
        """Features of the prepared images."""

    def to(self, device: str, dtype: torch.dtype) -> "Model":
        """The model on a device, in a precision."""

    def eval(self) -> "Model":
        """The model ready for inference."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds of the repeated calls, and the memory they needed beyond what was in use before."""

    milliseconds: tuple[float, ...]
    peak: int  # bytes: of the device's allocator, or of the process on a CPU

    @property
    def median(self) -> float:
        """The median time of a call."""
        return statistics.median(self.milliseconds)

    @property
    def spread(self) -> float:
        """Interquartile range of the times; 0 for a single one."""
        if len(self.milliseconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.milliseconds, n=4, method="inclusive")
        return high - low


def run(
    models: Mapping[str, Model],
    protocol: RuntimeProtocol = DEFAULTS,
    *,
    multiple: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> Report:
    """Time every model under all conditions; a round calls all of them, so a busy machine slows all alike.

    The sides of images must be multiples of `multiple`, as the models' backbones ask for. Sizes that cost too much
    (`geco.system.cost`) are refused unless they are forced.
    """
    rows: list[tuple[Cell, ...]] = []
    measures: list[Measure] = []
    timings: dict[str, Any] = {}
    combinations = list(protocol.conditions())
    for conditions in combinations:
        _check(conditions, multiple=multiple, force=force)
    for done, conditions in enumerate(combinations, 1):
        dtype = devices.dtype_named(conditions.dtype)
        placed = {name: model.to(device=conditions.device, dtype=dtype).eval() for name, model in models.items()}
        inputs = {name: _inputs(model, conditions, dtype) for name, model in placed.items()}
        for name, timing in measure(placed, inputs, protocol, torch.device(conditions.device)).items():
            speed = 1000 * conditions.batch / timing.median
            numbers = (timing.median, timing.spread, speed, timing.peak / MEGA)
            rows.append((name, *conditions, *numbers, *weight(placed[name])))
            measures.append(Measure("ms", timing.median, conditions.name, case=name, unit="ms"))
            measures.append(Measure("fps", speed, conditions.name, case=name, unit="fps"))
            timings[f"{name}, {conditions.name}"] = asdict(timing)
        progress("time", done, len(combinations))
    table = Table("runtime", "Running time", COLUMNS, tuple(rows), note="ms: median of a call, IQR beside it.")
    return Report(
        benchmark="runtime",
        label=", ".join(models),
        data="random images",
        measures=tuple(measures),
        tables=(table,),
        counts=timings,
        settings={"protocol": asdict(protocol), "threads": torch.get_num_threads()},
        provenance=provenance.collect(),
    )


def _check(conditions: Conditions, *, multiple: int, force: bool) -> None:
    """Refuse conditions that cannot be had, before the first is timed."""
    if conditions.size % multiple:
        raise InputError(f"sizes must be multiples of {multiple} for this backbone, got {conditions.size}")
    devices.dtype_named(conditions.dtype)
    devices.choose(conditions.device)
    if multiple > 1:  # else what takes images of any size is no vision transformer
        cost.check(conditions.size, stride=multiple, force=force)


def _inputs(model: Model, conditions: Conditions, dtype: torch.dtype) -> dict[str, Tensor]:
    """Random images, prepared and on the device."""
    side = conditions.size
    pixels = torch.rand(conditions.batch, 3, side, side, device=conditions.device)
    prepared = model.prepare(pixels, (side, side))
    return {name: x.to(dtype) if x.is_floating_point() else x for name, x in prepared.items()}


def weight(model: Model) -> tuple[float, float]:
    """Millions of parameters, and megabytes they take."""
    parameters = list(model.parameters())
    return sum(p.numel() for p in parameters) / 1e6, sum(p.nbytes for p in parameters) / MEGA


@torch.inference_mode()
def measure(
    models: Mapping[str, Model],
    inputs: Mapping[str, Mapping[str, Tensor]],
    protocol: RuntimeProtocol,
    device: torch.device,
) -> dict[str, Timing]:
    """Timings of each model on its inputs: warmed up, synchronised, in alternating rounds."""
    peaks = {}
    for name, model in models.items():
        with peak_memory(device) as peak:
            for _ in range(max(1, protocol.warmup)):
                model(**inputs[name])
            devices.synchronise(device)
        peaks[name] = peak[0]
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(protocol.repeats):
        for name, model in models.items():
            devices.synchronise(device)
            start = time.perf_counter()
            model(**inputs[name])
            devices.synchronise(device)
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: Timing(tuple(times[name]), peaks[name]) for name in models}


@contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int]]:
    """Bytes needed inside the block, at most: the device's allocator on CUDA, resident memory of the process else."""
    most = [0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield most
        most[0] = torch.cuda.max_memory_allocated(device) - before
        return
    devices.release()
    before = devices.resident()
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(most, before, stop))
    watcher.start()
    try:
        yield most
    finally:
        stop.set()
        watcher.join()


def _watch(most: list[int], before: int, stop: threading.Event) -> None:
    while True:
        most[0] = max(most[0], devices.resident() - before)
        if stop.wait(0.002):
            return


def speed_points(reports: Sequence[Report]) -> dict[str, tuple[float, float]]:
    """(frames per second at batch 1, PCK@0.1 in %) of the models that were both evaluated and timed."""
    frames: dict[str, float] = {}
    for report in reports:
        if report.benchmark == "runtime":
            for model, speed in _frames(report).items():
                frames.setdefault(model, speed)
    quality = Measure("PCK", 0.0, "geco", 0.1).key
    return {
        report.label: (frames[report.label], 100 * report.values[quality])
        for report in reports
        if report.label in frames and quality in report.values
    }


def _frames(report: Report) -> dict[str, float]:
    """Frames per second of each model, one image at a time, under the first conditions that it was timed under."""
    name = f"the report of {report.label}: settings.protocol"
    protocol = codec.build(RuntimeProtocol, report.settings.get("protocol", {}), name)
    single = {conditions.name for conditions in protocol.conditions() if conditions.batch == 1}
    frames: dict[str, float] = {}
    for entry in report.measures:
        if entry.metric == "fps" and entry.protocol in single:
            frames.setdefault(entry.case.removesuffix(MERGED), entry.value)
    return frames
