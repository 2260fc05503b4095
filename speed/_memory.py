"""Peak memory of a piece of work, above what was in use before it. Linux only."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def resident(which: str) -> float:
    """Megabytes of this process, now (VmRSS) or at its peak so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def peak(work: Callable[[], object]) -> float:
    """Peak megabytes of the work; run it in a fresh process, so that an earlier peak does not hide it."""
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def peak_in_subprocess(script: str, *arguments: object) -> float:
    """What the script prints when it is called with these arguments: its own peak."""
    command = [sys.executable, script, *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
