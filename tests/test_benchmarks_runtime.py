"""Timing: of modules whose time, memory and size are known."""

import time

import numpy as np
import pytest
import torch
from torch import nn

from geco.benchmarks import runtime
from geco.config.evaluation import RuntimeProtocol


class Sleeper(nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.seen = seconds, []
        self.weight = nn.Parameter(torch.zeros(250_000))

    def forward(self, images):
        self.seen.append((tuple(images.shape), images.dtype))
        time.sleep(self.seconds)
        return images


def test_times_are_those_of_the_module_and_all_combinations_are_measured():
    protocol = RuntimeProtocol(batches=(1, 4), sizes=(28,), dtypes=("float32", "bfloat16"), warmup=2, repeats=5)
    slow, fast = Sleeper(0.02), Sleeper(0.002)
    report = runtime.run({"slow": slow, "fast": fast}, protocol)
    assert len(report.tables[0].rows) == 2 * 4
    assert len(slow.seen) == 4 * (2 + 5)
    assert set(slow.seen) == {((b, 3, s, s), d) for b in (1, 4) for s in (28,) for d in (torch.float32, torch.bfloat16)}
    row = dict(zip(runtime.COLUMNS, report.tables[0].rows[2], strict=True))
    assert row["model"] == "slow"
    assert row["batch"] == 4
    assert 20 <= row["ms"] < 400
    assert row["images/s"] == pytest.approx(4000 / row["ms"])
    assert row["params M"] == 0.25
    assert row["model MB"] == pytest.approx(1e6 / 2**20)
    assert (
        report.values["slow, cpu, float32, 28 px, batch 1 ms"] > report.values["fast, cpu, float32, 28 px, batch 1 ms"]
    )


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

    def forward(self, images):
        eaten = torch.ones(self.megabytes * 2**18)
        time.sleep(0.02)
        return images + eaten.sum()


def test_the_peak_is_the_memory_a_call_needs():
    report = runtime.run({"hungry": Hungry(256)}, RuntimeProtocol(batches=(1,), sizes=(14,), warmup=1, repeats=1))
    peak = report.tables[0].rows[0][runtime.COLUMNS.index("peak MB")]
    assert 240 < peak < 400


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="sizes must be multiples of the patch, 14, got 100"):
        runtime.run({"s": Sleeper(0)}, RuntimeProtocol(sizes=(100,)))
    with pytest.raises(ValueError, match="dtype must be float32, float16 or bfloat16, got 'int8'"):
        runtime.dtype_named("int8")
