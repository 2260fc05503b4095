"""Provenance: what a number was computed with, so that it can be computed again."""

import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from geco.errors import DISTRIBUTION

PACKAGES = (DISTRIBUTION, "torch", "transformers", "peft", "numpy", "accelerate")


def collect(seed: int | None = None) -> dict[str, Any]:
    """Versions, commit, machine, time and seed."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "versions": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": _commit(Path(__file__).parent),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
    }


def _commit(folder: Path) -> str | None:
    """Commit of the source tree this runs from, "+" if edited since; None for an installed copy."""
    answers = []
    for question in (
        ("ls-files", "--error-unmatch", "provenance.py"),
        ("rev-parse", "HEAD"),
        ("status", "--porcelain"),
    ):
        try:
            done = subprocess.run(["git", "-C", str(folder), *question], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        answers.append(done.stdout.strip())
    return answers[1] + ("+" if answers[2] else "")
