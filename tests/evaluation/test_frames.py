"""Frames end to end: of an encoder whose time is known; and as a command."""

import json
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from geco.cli import build, run
from geco.errors import InputError
from geco.evaluation import frames
from geco.evaluation.settings import FrameProtocol
from geco.types import FeatureMap


class Sleeper:
    """An encoder that takes its time."""

    name, threshold, dim, stride, device = "sleeper", 0.3, 4, 8, torch.device("cpu")

    def __init__(self, seconds, clock):
        self.seconds, self.clock, self.seen = seconds, clock, []

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            self.seen.append(tuple(picture.shape))
            self.clock.now += self.seconds
            yield FeatureMap(torch.ones(4, 3, 5), (picture.shape[-2], picture.shape[-1]))

    def fingerprint(self):
        return "sleeper"


def test_a_frame_takes_what_its_encoder_takes(monkeypatch):
    """By a clock on which nothing else takes time: on a busy machine a real one may say anything."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(frames, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    slow, fast = Sleeper(0.03, clock), Sleeper(0.001, clock)
    report = frames.run({"slow": slow, "fast": fast}, FrameProtocol((40, 64), points=3, warmup=1, repeats=4))
    assert slow.seen == [(3, 40, 64)] * (1 + 1 + 4)  # the first frame, then those of the warm-up and of the rounds
    rows = [dict(zip(frames.COLUMNS, row, strict=True)) for row in report.tables[0].rows]
    assert [row["model"] for row in rows] == ["slow", "fast"]
    assert [row["ms"] for row in rows] == pytest.approx([30, 1])
    assert (rows[0]["frame"], rows[0]["points"]) == ("64×40", 3)
    for row in rows:
        assert row["fps"] == pytest.approx(1000 / row["ms"])
        assert row["slowest fps"] <= row["fps"]
    assert report.values["slow, cpu, 64×40, 3 points fps"] == rows[0]["fps"]
    assert len(report.counts["fast"]["milliseconds"]) == 4


@pytest.mark.parametrize(
    "change", [{"frame": (7, 64)}, {"frame": (64,)}, {"points": 0}, {"repeats": 0}, {"warmup": -1}]
)
def test_settings_that_are_none(change):
    with pytest.raises(InputError, match=next(iter(change))):
        FrameProtocol(**change)


def test_models_and_sizes_are_timed_side_by_side(tiny_folder):
    words = ["bench", "--end-to-end", "-m", tiny_folder, "-m", tiny_folder, "--size", "56,60", "--repeats", "1"]
    done = CliRunner().invoke(build(), [str(word) for word in (*words, "--frame", "80x60", "--json")])
    rows = json.loads(done.stdout)["tables"][0]["rows"]
    name = tiny_folder.name
    assert [row[0] for row in rows] == [
        f"{name}, 56 px",
        f"{name}, 56 px (2)",
        f"{name}, 56 px (3)",
        f"{name}, 56 px (4)",
    ]
    assert rows[0][2] == "80×60"


def test_sizes_are_rounded_and_said_to_be(tiny_folder):
    words = [
        "bench",
        "-m",
        tiny_folder,
        "--size",
        "30,28",
        "--batches",
        "1",
        "--repeats",
        "1",
        "--warmup",
        "1",
        "--json",
    ]
    done = CliRunner().invoke(build(), [str(word) for word in words])
    assert [row[3] for row in json.loads(done.stdout)["tables"][0]["rows"]] == [28]
    assert "size 30 → 28: the backbone takes multiples of 14" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--end-to-end", "--frame", "640"], "a frame is WIDTHxHEIGHT in pixels, like 640x480, got '640'"),
        (["--end-to-end", "--frame", "0x0"], "frame"),
        (["-m", "focus-small", "-m", "geco-s"], "--end-to-end takes several"),
        (["--size", "x"], "whole numbers"),
    ],
)
def test_mistakes_are_one_line(capfd, words, message):
    assert run(["bench", *words]) in (1, 2)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert message in lines[0]
