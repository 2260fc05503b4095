"""Hostile command lines, in this process: each ends with a result or one clear line, and no input changes."""

import os
from pathlib import Path

import pytest
import torch
from hostile.command_lines import fault, hostile, prepare

from geco.cli import run

PER_OPTION = 1


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    here = Path.cwd()
    place = prepare(tmp_path_factory.mktemp("place").resolve())
    os.chdir(place.root)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield place
    torch.set_num_threads(threads)
    os.chdir(here)


def ends(arguments, capfd):
    code = run(arguments)
    shown = capfd.readouterr()
    return code, shown.out, shown.err


def test_the_valid_lines_are_valid(place, capfd):
    for name, line in place.lines().items():
        code, out, err = ends(line, capfd)
        assert not fault(code, out, err), (name, err)
        # Squares are no AP-10K, and noise shows no box.
        assert code == (1 if name in ("data prepare", "pose") else 0), (name, err)


NUMBERS = ("nan", "inf", "-1", "1e400", "9" * 400)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("evaluate keypoints", "--memory"),
        ("evaluate keypoints", "--seed"),
        ("evaluate fewshot", "--alpha"),
        ("evaluate fewshot", "--seed"),
        ("table", "--memory"),
        ("train", "--learning-rate"),
        ("adapt", "--learning-rate"),
        ("masks", "--margin"),
        ("transfer", "--threshold"),
    ],
)
def test_numbers_that_are_none_are_refused(place, capfd, command, option):
    for number in NUMBERS:
        code, out, err = ends([*place.lines()[command], option, number], capfd)
        assert not fault(code, out, err), (number, err)
        assert code in (1, 2) or (number == "-1" and option == "--threshold"), (number, out)


def test_hostile_lines_end_well(place, capfd):
    before = place.digests()
    failures, count = [], 0
    for line in hostile(place, per_option=PER_OPTION):
        code, out, err = ends(line, capfd)
        wrong = fault(code, out, err)
        count += 1
        if wrong:
            failures.append(f"{wrong}: geco {' '.join(map(repr, line))[:300]} → {code} {err[-300:]}")
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures)
    assert place.digests() == before
    assert count > 180
