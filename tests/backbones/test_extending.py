"""A third party's backbone: the plug-in of the documentation, found by its entry point, used without a fork."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import geco

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def package(tmp_path):
    """An installed package as pip leaves it: its module, and the entry point in its dist-info."""
    text = (DOCS / "extending.md").read_text()
    section = text[text.index("## Write a backbone") :]
    folder, about = tmp_path / "site" / "my_package", tmp_path / "site" / "my_package-1.0.dist-info"
    folder.mkdir(parents=True)
    about.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "colours.py").write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1])
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[geco.backbones]\ncolours = my_package.colours\n")
    return folder.parent


def run(package, code, *arguments):
    places = os.pathsep.join([str(package), str(Path(geco.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": places}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=package.parent)


MAIN = "from geco.cli import main; main()"


def test_the_command_line_uses_it_by_its_short_name(package, image_file):
    first, second = image_file("a.jpg", seed=1), image_file("b.jpg", seed=1)
    result = run(package, MAIN, "transfer", first, second, "-m", "colours", "-p", "30,40", "--json")
    assert result.returncode == 0, result.stderr
    (match,) = json.loads(result.stdout)
    assert match["score"] > 0.999  # the same image, so this colour is in it
    assert match["visible"]
    info = json.loads(run(package, MAIN, "info", "--json").stdout)
    entry = {"name": "colours", "origin": "the package itself", "licence": "", "available": True}
    assert entry in info["models"]


def test_its_options_reach_it_and_its_fingerprint(package, image_file):
    code = f"""
import geco
coarse, fine = geco.load("colours"), geco.load("colours", cell=4)
assert coarse.extract({str(image_file())!r}).values.shape == (5, 32, 32)
assert fine.extract({str(image_file())!r}).values.shape == (5, 64, 64)
assert coarse.fingerprint() != fine.fingerprint() == geco.load("colours", cell=4).fingerprint()
assert coarse.threshold == 0.9
"""
    result = run(package, code)
    assert result.returncode == 0, result.stderr
    result = run(package, MAIN, "features", image_file(), "-m", "colours", "--layer", 3)
    assert result.returncode == 1
    assert "error: colours backbones have no option layer; options: cell" in result.stderr
