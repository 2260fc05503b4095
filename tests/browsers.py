"""Chromium for tests of pages: where it is, how it is started, and what to say where there is none."""

import os
import shutil
from importlib.util import find_spec

import pytest

CHROMIUM = os.environ.get("GECO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
# Root needs --no-sandbox; the others keep Chromium from looking for its maker's servers.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NEEDED = [
    pytest.mark.skipif(find_spec("playwright") is None, reason="needs playwright (pip install playwright)"),
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or set GECO_CHROMIUM to its path"
    ),
]
