"""A third party's dataset: the plug-in of the documentation, found by its entry point, used without a fork."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dataset_trees import write_image, write_json

import geco

DOCS = Path(__file__).parents[2] / "docs"
BOX, POINTS = [5, 5, 60, 50], {"nose": [10, 20], "left eye": [14, 12], "right eye": [20, 12]}


def documented() -> str:
    """The plug-in in the documentation."""
    text = (DOCS / "extending.md").read_text()
    section = text[text.index("## Write a dataset") :]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def package(tmp_path):
    """An installed package as pip leaves it: its modules, and the entry points in its dist-info."""
    folder = tmp_path / "site"
    (folder / "my_package").mkdir(parents=True)
    (folder / "my_package/__init__.py").write_text("")
    (folder / "my_package/zebras.py").write_text(documented())
    (folder / "my_package/broken.py").write_text("SPLITS = ()\n")
    about = folder / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    modules = "zebras = my_package.zebras\nbroken-one = my_package.broken\n"
    (about / "entry_points.txt").write_text(f"[geco.datasets]\n{modules}")
    return folder


@pytest.fixture
def root(tmp_path):
    """Four zebras to train on, one of them without an eye; three to test on, one of them without an image."""
    folder = tmp_path / "zebras"
    for split, count in (("train", 4), ("test", 3)):
        records = [{"file": f"{split}-{i}.jpg", "box": BOX, "points": dict(POINTS)} for i in range(count)]
        for record in records:
            write_image(folder / record["file"])
        write_json(folder / f"{split}.json", records)
    train = json.loads((folder / "train.json").read_text())
    del train[0]["points"]["left eye"]
    write_json(folder / "train.json", train)
    (folder / "test-2.jpg").unlink()
    return folder


def run(package, *arguments, python=None):
    """The command line, or a line of Python, in a process of its own that has the package on its path."""
    command = [sys.executable, "-c", python or "from geco.cli import main; main()", *map(str, arguments)]
    places = os.pathsep.join([str(package), str(Path(geco.__file__).parents[1])])
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places}, cwd=package.parent
    )


def test_the_command_line_checks_it(package, root):
    result = run(package, "data", "check", "zebras", root, "--json", "--set", "n_pairs=10")
    assert result.returncode == 1, result.stderr
    train, test = json.loads(result.stdout)["splits"]
    assert (train["instances"], train["keypoints"], train["pairs"], train["faults"]) == (4, 11, 10, [])
    assert (test["instances"], test["pairs"]) == (2, 2)
    assert len(test["faults"]) == 1
    assert "test-2.jpg: no such file" in test["faults"][0]


def test_python_loads_it(package, root):
    script = f"""
from geco import data, images
pairs = data.load("Zebras", {str(root)!r}, "train", ["n_pairs=8"], masks="box", limit=5)
mask = images.load_view(pairs[4].target).mask
print(len(pairs), sorted(set(pairs.categories)), int(mask.sum()), data.find("zebras").about)
"""
    result = run(package, python=script)
    assert result.returncode == 0, result.stderr
    about = "Zebras of the reserve: images with up to three keypoints, a JSON list for each split."
    assert result.stdout.strip() == f"5 ['zebra'] {55 * 45} {about}"


def test_a_module_that_does_not_keep_the_contract_is_named_in_one_line(package, root):
    result = run(package, "data", "check", "broken-one", root)
    assert result.returncode == 1
    assert result.stderr.strip() == "error: the dataset 'broken-one' (my_package.broken) must define load"
