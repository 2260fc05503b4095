"""The benchmark scripts run and end in a line that a script can read; their numbers are not checked here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEED = Path(__file__).parents[2] / "speed"
# Small problems; a script without an entry here has none and is only compiled.
SMALL = {
    "keypoints.py": {"pairs": 3, "keypoints": 2, "channels": 8, "grid": 5, "repeats": 1},
    "loading.py": {"pairs": 6, "size": 28, "repeats": 1},
    "search.py": {"images": 12, "channels": 8, "grid": 5, "questions": 1, "repeats": 1},
    "training.py": {"pairs": 1, "sizes": 56, "repeats": 1, "blocks": 1},
    "pose.py": {"views": 3, "vertices": 200, "channels": 8, "repeats": 1},
    "transport.py": {"pairs": 1, "grid": 6, "repeats": 1},
}


@pytest.mark.parametrize("path", sorted(SPEED.glob("[a-z]*.py")), ids=lambda path: path.name)
def test_every_script_says_what_it_measures_and_prints_a_result(path):
    text = path.read_text()
    assert text.startswith('"""')
    assert '"speedup"' in text
    assert '"memory_ratio"' in text
    assert "RESULT" in text


@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_last_line_is_the_result(name):
    arguments = [word for option, value in SMALL[name].items() for word in (f"--{option}", str(value))]
    done = subprocess.run([sys.executable, SPEED / name, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    label, _, figures = done.stdout.strip().splitlines()[-1].partition(" ")
    assert label == "RESULT"
    assert {"speedup", "memory_ratio"} <= set(json.loads(figures))
