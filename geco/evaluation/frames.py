"""Frames per second, end to end: a decoded frame → resized → features → points of a first frame found in it."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geco import matching
from geco.evaluation.measures import Measure
from geco.evaluation.report import Report, Table
from geco.evaluation.runtime import Timing
from geco.evaluation.settings import FrameProtocol
from geco.matching.settings import MatchSettings
from geco.system import Progress, devices, provenance, silent
from geco.types import Encoder, FeatureMap

DEFAULTS = FrameProtocol()
COLUMNS = ("model", "device", "frame", "points", "ms", "IQR ms", "fps", "slowest fps")


def run(encoders: Mapping[str, Encoder], protocol: FrameProtocol = DEFAULTS, *, progress: Progress = silent) -> Report:
    """Time every encoder on frames one after the other; a round takes all of them, so a busy machine slows all alike.

    Frames are 8-bit pixels in memory, as a camera or a video decoder gives them. The first one, whose points are
    looked for, is encoded before.
    """
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 3, *protocol.frame), dtype=torch.uint8, generator=generator)
    points = torch.rand(protocol.points, 2, generator=generator) * torch.tensor([*protocol.frame[::-1]])
    first = {name: _encoded(encoder, frames[0]) for name, encoder in encoders.items()}
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for number in range(protocol.warmup + protocol.repeats):
        for name, encoder in encoders.items():
            devices.synchronise(encoder.device)
            start = time.perf_counter()
            found = _followed(encoder, first[name], frames[1], points.to(encoder.device))
            devices.synchronise(encoder.device)
            assert len(found) == protocol.points
            if number >= protocol.warmup:
                times[name].append(1000 * (time.perf_counter() - start))
        progress("time", number + 1, protocol.warmup + protocol.repeats)
    return _report(encoders, {name: Timing(tuple(values), 0) for name, values in times.items()}, protocol)


def _encoded(encoder: Encoder, frame: UInt8[Tensor, "3 h w"]) -> FeatureMap:
    (features,) = encoder.extract_stream([frame], batch_size=1)
    return features


def _followed(
    encoder: Encoder, first: FeatureMap, frame: UInt8[Tensor, "3 h w"], points: Float[Tensor, "k 2"]
) -> Float[Tensor, "k 2"]:
    """Where the points of the first frame are in another, on the CPU, ready to be drawn."""
    source, target = matching.paired(encoder, first, _encoded(encoder, frame))
    settings = matching.suited(MatchSettings(threshold=encoder.threshold), encoder)
    return matching.transfer(source, target, points, settings).target.cpu()


def _report(encoders: Mapping[str, Encoder], timings: Mapping[str, Timing], protocol: FrameProtocol) -> Report:
    height, width = protocol.frame
    frame = f"{width}×{height}"
    rows, measures = [], []
    for name, timing in timings.items():
        speed, slowest = 1000 / timing.median, 1000 / max(timing.milliseconds)
        device = str(encoders[name].device)
        rows.append((name, device, frame, protocol.points, timing.median, timing.spread, speed, slowest))
        about = f"{device}, {frame}, {protocol.points} points"
        measures.append(Measure("ms", timing.median, about, case=name, unit="ms"))
        measures.append(Measure("fps", speed, about, case=name, unit="fps"))
    note = "Decoded frame → resized → features → points transferred; ms: median of a frame, IQR beside it."
    return Report(
        benchmark="frames",
        label=", ".join(encoders),
        data="random frames",
        measures=tuple(measures),
        tables=(Table("frames", "End to end", COLUMNS, tuple(rows), note=note),),
        counts={name: asdict(timing) for name, timing in timings.items()},
        settings={"protocol": asdict(protocol), "threads": torch.get_num_threads()},
        provenance=provenance.collect(),
    )
