"""Collections of small images on disk, and an encoder that is fast enough to be killed often."""

import io
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from geco import images
from geco.types import FeatureMap


class Averager:
    """An encoder whose features are mean colours of a 4 × 4 grid; it batches as ours do, and may wait before each."""

    name, threshold, dim, stride, device = "averager", 0.3, 3, 4, torch.device("cpu")

    def __init__(self, wait=lambda: None):
        self.wait, self.batches = wait, []

    def fingerprint(self):
        return "averager"

    def extract_stream(self, pictures, *, batch_size=8):
        group = []
        for picture in pictures:
            group.append(picture)
            if len(group) == batch_size:
                yield from self._encoded(group)
                group = []
        if group:
            yield from self._encoded(group)

    def _encoded(self, group):
        pixels = [images.read(picture) for picture in group]
        self.batches.append(len(group))
        self.wait()
        for one in pixels:
            values = torch.nn.functional.adaptive_avg_pool2d(one.float(), 4) / 255
            yield FeatureMap(values, (one.shape[1], one.shape[2]))


def picture(number, side=24):
    noise = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((side, side + 8 * (number % 2)), Image.Resampling.BICUBIC)


def encoded(number):
    buffer = io.BytesIO()
    picture(number).save(buffer, "PNG")
    return buffer.getvalue()


def write_images(folder, count, *, bad=()):
    """Images 000.png, 001.png, … of which some are damaged: cut short, or no image at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        content = encoded(number)
        if number in bad:
            content = content[: len(content) // 2] if number % 2 else b"no image"
        (folder / f"{number:03d}.png").write_bytes(content)
    return folder


def archive(path, numbers):
    """A tar archive in webdataset's layout: 000000.png and 000000.json for each sample."""
    with tarfile.open(path, "w") as file:
        for number in numbers:
            for ending, content in ((".png", encoded(number)), (".json", b"{}")):
                member = tarfile.TarInfo(f"{number:06d}{ending}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    return path


def contents(folder):
    """Every file of a folder by its relative path."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
