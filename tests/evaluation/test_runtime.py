"""Timing: of modules whose time, memory and size are known."""

import json
import time
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from geco.evaluation import rendering, runtime
from geco.evaluation.measures import Measure
from geco.evaluation.report import Report, load_report
from geco.evaluation.settings import RuntimeProtocol
from geco.system import devices


class Sleeper(nn.Module):
    def __init__(self, seconds, clock=None):
        super().__init__()
        self.seconds, self.clock, self.seen = seconds, clock, []
        self.weight = nn.Parameter(torch.zeros(250_000))

    def prepare(self, pixels, size):
        assert tuple(pixels.shape[-2:]) == size
        self.clock.now += 0.2  # must not be counted
        return {"images": 2 * pixels - 1, "sizes": torch.tensor(size)}

    def forward(self, images, sizes):
        assert sizes.tolist() == list(images.shape[-2:])
        self.seen.append((tuple(images.shape), images.dtype))
        self.clock.now += self.seconds
        return images


def test_times_are_those_of_the_module_and_all_combinations_are_measured(monkeypatch):
    """By a clock on which nothing else takes time: on a busy machine a real one may say anything."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(runtime, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    protocol = RuntimeProtocol(batches=(1, 4), sizes=(28,), dtypes=("float32", "bfloat16"), warmup=2, repeats=5)
    slow, fast = Sleeper(0.02, clock), Sleeper(0.002, clock)
    report = runtime.run({"slow": slow, "fast": fast}, protocol)
    assert len(report.tables[0].rows) == 2 * 4
    assert len(slow.seen) == 4 * (2 + 5)
    assert set(slow.seen) == {((b, 3, s, s), d) for b in (1, 4) for s in (28,) for d in (torch.float32, torch.bfloat16)}
    row = dict(zip(runtime.COLUMNS, report.tables[0].rows[2], strict=True))
    assert row["model"] == "slow"
    assert row["batch"] == 4
    assert row["ms"] == pytest.approx(20)
    assert row["images/s"] == pytest.approx(4000 / row["ms"])
    assert row["params M"] == 0.25
    assert row["model MB"] == pytest.approx(1e6 / 2**20)
    times = {measure.case: measure.value for measure in report.measures if measure.key.endswith("batch 1 ms")}
    assert (times["slow"], times["fast"]) == pytest.approx((20, 2))
    assert report.values["slow, cpu, float32, 28 px, batch 4 ms"] == row["ms"]
    assert report.values["slow, cpu, float32, 28 px, batch 4 fps"] == row["images/s"]


def test_quality_is_drawn_against_the_speed_of_the_same_model(tmp_path):
    def evaluated(label, pck):
        return Report("keypoints", label, "cub", (Measure("PCK", pck, "geco", 0.1),))

    protocol = RuntimeProtocol(batches=(1, 8))
    fps = {conditions.batch: conditions.name for conditions in protocol.conditions()}
    timed = Report(
        "runtime",
        "small merged",
        "random images",
        (
            Measure("fps", 9.0, fps[8], case="small merged", unit="fps"),
            Measure("ms", 4.0, fps[1], case="small merged", unit="ms"),
            Measure("fps", 3.0, fps[1], case="small merged", unit="fps"),
        ),
        settings={"protocol": asdict(protocol)},
    )
    rendering.save_report(timed, tmp_path)
    for report in (timed, load_report(tmp_path)):
        points = runtime.speed_points([evaluated("small", 0.7), report, evaluated("large", 0.8)])
        assert points == {"small": (3.0, 70.0)}


def test_speed_is_read_from_a_report_of_release_0_1(tmp_path):
    values = {"small merged, cpu, float32, 518 px, batch 1 fps": 3.0, "small ms": 4.0}
    old = {"benchmark": "runtime", "label": "x", "data": "y", "values": values}
    (tmp_path / "report.json").write_text(json.dumps(old))
    timed = load_report(tmp_path)
    assert timed.values == values
    small, large = (
        Report("keypoints", label, "cub", (Measure("geco PCK@0.1", pck),))
        for label, pck in (("small", 0.7), ("large", 0.8))
    )
    assert runtime.speed_points([small, timed, large]) == {"small": (3.0, 70.0)}


def test_median_and_spread_are_numpys():
    times = (5.0, 1.0, 9.0, 2.0, 2.5, 100.0)
    timing = runtime.Timing(times, 0)
    assert timing.median == np.median(times)
    low, high = np.percentile(times, [25, 75])
    assert timing.spread == pytest.approx(high - low)
    assert runtime.Timing((3.0,), 0).spread == 0


class Hungry(nn.Module):
    def __init__(self, megabytes):
        super().__init__()
        self.megabytes = megabytes
        self.weight = nn.Parameter(torch.zeros(1))

    def prepare(self, pixels, size):
        return {"images": pixels}

    def forward(self, images):
        eaten = torch.ones(self.megabytes * 2**18)
        time.sleep(0.02)
        return images + eaten.sum()


def test_the_peak_is_the_memory_a_call_needs():
    report = runtime.run({"hungry": Hungry(256)}, RuntimeProtocol(batches=(1,), sizes=(14,), warmup=1, repeats=1))
    peak = report.tables[0].rows[0][runtime.COLUMNS.index("peak MB")]
    assert 240 < peak < 400


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="sizes must be multiples of 14 for this backbone, got 100"):
        runtime.run({"s": Sleeper(0)}, RuntimeProtocol(sizes=(100,)), multiple=14)
    with pytest.raises(ValueError, match="dtype must be float32, float16 or bfloat16, got 'int8'"):
        devices.dtype_named("int8")
