"""Builds the wheel and uses it from another folder: what is not in the wheel is not found there.

Run by `make test`; not a pytest file, because it needs an environment of its own.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Only the wheel's files and the installed dependencies are on the path of this interpreter.
PROBE = """
import sys, json
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import geco
assert Path(geco.__file__).is_relative_to(sys.argv[1]), geco.__file__
assert (Path(geco.__file__).parent / "demo" / "static" / "page.js").is_file(), "the page's scripts"
from geco.system import plugins
for room in ("backbones", "datasets", "cli"):
    for name in plugins.names(room):
        plugins.find(room, name)
import numpy as np, torch
from transformers import Dinov2Config, Dinov2Model
torch.manual_seed(0)
config = Dinov2Config(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=56, patch_size=14)
Dinov2Model(config).save_pretrained("tiny")
model = geco.load("tiny", size=112, device="cpu")
image = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
matches = geco.transfer(image, image, [(20, 30)], model=model)
assert matches.target.shape == (1, 2)
from geco.cli import build
from typer.testing import CliRunner
assert CliRunner().invoke(build(), ["info", "--json"]).exit_code == 0
print("wheel: 1 passed, 0 failed")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("geco_features-*.whl")
        site = Path(folder) / "site"
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(site),
            str(wheel),
        ]
        subprocess.run(install, check=True)
        assert not (site / "tests").exists(), "tests do not belong into the wheel"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        subprocess.run([sys.executable, "-P", "-c", PROBE, str(site)], check=True, cwd=folder, env=environment)


if __name__ == "__main__":
    main()
