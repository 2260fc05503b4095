"""Running time: several modules side by side on the same inputs; loading and resizing of images is not counted."""

import ctypes
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from geco import report
from geco.benchmarks._features import Progress, silent
from geco.config.evaluation import RuntimeProtocol
from geco.report import Report, Table

MEGA = 2**20
DEFAULTS = RuntimeProtocol()
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


@dataclass(frozen=True)
class Timing:
    """Milliseconds of the repeated calls, and the memory they needed beyond what was there before."""

    milliseconds: tuple[float, ...]
    peak: int  # bytes: of the device's allocator, or of the process on a CPU

    @property
    def median(self) -> float:
        """The middle time of a call."""
        return statistics.median(self.milliseconds)

    @property
    def spread(self) -> float:
        """Interquartile range of the times; 0 for a single one."""
        if len(self.milliseconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.milliseconds, n=4, method="inclusive")
        return high - low


def run(
    modules: Mapping[str, nn.Module],
    protocol: RuntimeProtocol = DEFAULTS,
    *,
    patch: int = 14,
    progress: Progress = silent,
) -> Report:
    """Time every module on every combination; a round calls all of them, so a busy machine slows all alike."""
    rows: list[tuple[report.Cell, ...]] = []
    values: dict[str, float] = {}
    measured = {}
    combinations = [
        (device, dtype, size, batch)
        for device in protocol.devices
        for dtype in protocol.dtypes
        for size in protocol.sizes
        for batch in protocol.batches
    ]
    for done, (device, dtype, size, batch) in enumerate(combinations):
        if size % patch:
            raise ValueError(f"sizes must be multiples of the patch, {patch}, got {size}")
        kind = dtype_named(dtype)
        placed = {name: module.to(device=device, dtype=kind).eval() for name, module in modules.items()}
        inputs = torch.randn(batch, 3, size, size, device=device, dtype=kind)
        for name, timing in measure(placed, inputs, protocol).items():
            place = (device, dtype, size, batch)
            key = f"{name}, {device}, {dtype}, {size} px, batch {batch}"
            speed = 1000 * batch / timing.median
            numbers = (timing.median, timing.spread, speed, timing.peak / MEGA)
            rows.append((name, *place, *numbers, *weight(placed[name])))
            values |= {f"{key} ms": timing.median, f"{key} fps": speed}
            measured[key] = asdict(timing)
        progress("time", done + 1, len(combinations))
    table = Table("runtime", "Running time", COLUMNS, tuple(rows), note="ms: median of a call, IQR beside it.")
    return Report(
        benchmark="runtime",
        label=", ".join(modules),
        data="random images",
        values=values,
        tables=(table,),
        counts=measured,
        settings={"protocol": asdict(protocol), "threads": torch.get_num_threads()},
        provenance=report.provenance(),
    )


def dtype_named(name: str) -> torch.dtype:
    """float32, float16 or bfloat16."""
    found = getattr(torch, name, None)
    if found not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"dtype must be float32, float16 or bfloat16, got {name!r}")
    return found


def weight(module: nn.Module) -> tuple[float, float]:
    """Millions of parameters, and megabytes they take."""
    parameters = list(module.parameters())
    return sum(p.numel() for p in parameters) / 1e6, sum(p.nbytes for p in parameters) / MEGA


@torch.inference_mode()
def measure(modules: Mapping[str, nn.Module], inputs: Tensor, protocol: RuntimeProtocol) -> dict[str, Timing]:
    """Timings of each module on these inputs: warmed up, synchronised, in alternating rounds."""
    device = inputs.device
    peaks = {}
    for name, module in modules.items():
        with _peak(device) as peak:
            for _ in range(max(1, protocol.warmup)):
                module(inputs)
            _synchronise(device)
        peaks[name] = peak[0]
    times: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(protocol.repeats):
        for name, module in modules.items():
            _synchronise(device)
            start = time.perf_counter()
            module(inputs)
            _synchronise(device)
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: Timing(tuple(times[name]), peaks[name]) for name in modules}


def _synchronise(device: torch.device) -> None:
    """Wait for work that was only queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def _peak(device: torch.device) -> Iterator[list[int]]:
    """Bytes needed inside the block, at most: the device's allocator on CUDA, resident memory of the process else."""
    found = [0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield found
        found[0] = torch.cuda.max_memory_allocated(device) - before
        return
    release()
    before = resident()
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(found, before, stop))
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()


def _watch(found: list[int], before: int, stop: threading.Event) -> None:
    while True:
        found[0] = max(found[0], resident() - before)
        if stop.wait(0.002):
            return


def release() -> None:
    """Give freed memory back to the system (glibc), so that the next call's need is seen and not served from it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def resident() -> int:
    """Bytes of memory this process has now; its maximum so far where the system does not say (macOS)."""
    import resource  # not on Windows
    import sys

    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
