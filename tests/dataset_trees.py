"""Small datasets written to disk in the layouts of the real ones, and where the real ones are."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

from geco import images
from geco.types import Pair, View

DATA = os.environ.get("GECO_DATA")
real = pytest.mark.skipif(DATA is None, reason="set GECO_DATA to the folder of real datasets to run this test")


def real_root(name: str) -> Path:
    assert DATA is not None
    return Path(DATA) / name


def write_image(path: Path, size: tuple[int, int] = (60, 80)) -> Path:
    """An image of (height, width), different for every name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(crc32(path.name.encode()))
    Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)).save(path)
    return path


def write_mask(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint8)).save(path)
    return path


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def share_on_mask(views: Iterable[View]) -> float:
    """Share of the visible keypoints whose pixel is foreground; checks sizes on the way, because it reads the files."""
    on = total = 0
    for view in views:
        loaded = images.load_view(view)
        for (x, y), visible in zip(loaded.keypoints.xy.tolist(), loaded.keypoints.visible.tolist(), strict=True):
            if visible:
                column, row = min(int(x), loaded.size[1] - 1), min(int(y), loaded.size[0] - 1)
                total += 1
                on += bool(loaded.mask[row, column])
    return on / total


def names(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    return [(pair.source.name, pair.target.name) for pair in pairs]


def write_birds(root: Path, *, count: int = 6) -> Path:
    """Birds in the layout of CUB-200-2011, 15 parts at random places, about a quarter of them hidden."""
    random = np.random.default_rng(0)
    lines: dict[str, list[str]] = {
        name: [] for name in ("images", "train_test_split", "bounding_boxes", "parts/part_locs")
    }
    (root / "parts").mkdir(parents=True)
    (root / "images" / "001.bird").mkdir(parents=True)
    for number in range(1, count + 1):
        file = f"001.bird/{number}.jpg"
        noise = Image.fromarray(random.integers(0, 255, (6, 8, 3), dtype=np.uint8))
        noise.resize((80, 60), Image.Resampling.BICUBIC).save(root / "images" / file)
        lines["images"].append(f"{number} {file}")
        lines["train_test_split"].append(f"{number} 0")
        lines["bounding_boxes"].append(f"{number} 5.0 5.0 60.0 50.0")
        for part in range(1, 16):
            seen = int(random.random() < 0.75)
            x, y = (random.integers(0, 80), random.integers(0, 60)) if seen else (0, 0)
            lines["parts/part_locs"].append(f"{number} {part} {float(x)} {float(y)} {seen}")
    for name, text in lines.items():
        (root / f"{name}.txt").write_text("\n".join(text) + "\n")
    return root
