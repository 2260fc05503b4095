"""Shape checks on while testing, and the small encoders and images that several test files use."""

import os
from pathlib import Path

# Beside other workers, threads only wait for each other; read by OpenMP and BLAS when they are loaded, and inherited
# by the processes that tests start.
ALONE = "PYTEST_XDIST_WORKER" not in os.environ
if not ALONE:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import shapecheck  # noqa: E402

import geco  # noqa: E402

# Settings are left out: they check their own values, with messages that tests read.
ROOT = Path(geco.__file__).parent
MODULES = [path.relative_to(ROOT).with_suffix("").parts for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
# The command line is left out as well.
CHECKED = [parts for parts in MODULES if parts[0] != "cli" and parts[-1] != "settings"]
shapecheck.install([".".join(("geco", *parts)) for parts in CHECKED])

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may depend on a network

# Examples are drawn at random, but not where an unlucky one would stop an unrelated change; `make fuzz` finds those.
settings.register_profile("ci", derandomize=True, database=None, print_blob=True)
settings.register_profile("fuzz", derandomize=False, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

TESTS = Path(__file__).parent
# Files of half a minute and more come first: at the end, one of them would keep one core busy and the others idle.
LONG = (
    "training/test_loop.py",
    "speed/test_speed.py",
    "cli/test_evaluate.py",
    "demo/test_browser.py",
    "cli/test_train.py",
    "training/test_step.py",
    "hostile/test_commands.py",
    "matching/test_matching.py",
    "hostile/test_datasets.py",
    "transport/test_solver.py",
)


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.relative_to(TESTS).as_posix(), len(LONG)))


@pytest.fixture(autouse=True, scope="session")
def _few_threads():
    torch.set_num_threads(min(2, os.cpu_count() or 1) if ALONE else 1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A small random DINOv2 in Hugging Face format: 2 blocks of 3 heads, 14-pixel patches."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        image_size=56,
        patch_size=14,
        layerscale_value=0.5,
    )
    folder = tmp_path_factory.mktemp("tiny")
    Dinov2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture
def image_file(tmp_path):
    """Writes a JPEG of smooth random colours and returns its path."""
    from PIL import Image

    def write(name: str = "photo.jpg", size: tuple[int, int] = (120, 90), seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        noise = (torch.rand(6, 8, 3, generator=generator) * 255).byte().numpy()
        path = tmp_path / name
        Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(path)
        return path

    return write


@pytest.fixture(scope="session")
def diffusion_parts(tmp_path_factory, tiny_folder):
    """A folder with small Stable Diffusion, CLIP, ODISE and head, and the models that are made of them."""
    pytest.importorskip("diffusers", reason="needs the extra diffusion")
    import small_diffusion

    root = tmp_path_factory.mktemp("diffusion")
    for model in ("geo", "geo-empty"):
        small_diffusion.write_geo(root, tiny_folder, model=model)
    small_diffusion.write_cleandift(root)
    small_diffusion.write_sphere_pairs(root, tiny_folder)
    return root
