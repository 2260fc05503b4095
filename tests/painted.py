"""Painted animals: images whose keypoints are coloured patches; an encoder whose features are colours."""

import hashlib
import os
import signal
from pathlib import Path

import torch
from PIL import Image as Pillow
from torch.nn import functional

from geco.types import FeatureMap, Keypoints, Pair, Skeleton, View

PATCH = 8
SKELETON = Skeleton(
    ("nose", "left eye", "right eye", "left paw", "right paw"), twin=(0, 2, 1, 4, 3), mirror=(0, 2, 1, 4, 3)
)
COLOURS = torch.tensor([[250, 10, 10], [10, 250, 10], [10, 10, 250], [250, 250, 10], [10, 250, 250]])


def views(count, seed=0, folder=None, sizes=((64, 64), (48, 80))):
    """Views with up to five visible keypoints in the middle of patches no two of which touch."""
    generator = torch.Generator().manual_seed(seed)
    painted = []
    for number in range(count):
        height, width = sizes[number % len(sizes)]
        rows, columns = ((side // PATCH - 1) // 2 for side in (height, width))
        spots = torch.randperm(rows * columns, generator=generator)[:5]
        cells = 2 * torch.stack([spots % columns, spots // columns], -1) + 1  # at the border the peak is flat
        visible = torch.rand(5, generator=generator) < 0.75
        pixels = torch.zeros(3, height, width, dtype=torch.uint8)
        for (x, y), colour, is_visible in zip(cells.tolist(), COLOURS, visible.tolist(), strict=True):
            if is_visible:
                patch = pixels[:, PATCH * y : PATCH * (y + 1), PATCH * x : PATCH * (x + 1)]
                patch[:] = colour[:, None, None]
        image = pixels
        if folder is not None:
            image = Path(folder) / f"{number}.png"
            if not image.exists():  # a run that resumes must find its files unchanged
                Pillow.fromarray(pixels.permute(1, 2, 0).numpy()).save(image)
        xy = (cells + 0.5) * PATCH
        box = torch.tensor([0.0, 0.0, width / 2, height / 2])
        painted.append(View(image, (height, width), Keypoints(xy, visible), box, name=f"animal {number}"))
    return painted


def pairs(count=30, images=8, seed=0, folder=None):
    """Random ordered pairs of two categories."""
    all_views = views(images, seed, folder)
    generator = torch.Generator().manual_seed(seed + 1)
    drawn = []
    for number in range(count):
        source, target = torch.randperm(images // 2, generator=generator)[:2].tolist()
        shift = number % 2 * (images // 2)
        category = ("cat", "dog")[number % 2]
        drawn.append(Pair(all_views[source + shift], all_views[target + shift], SKELETON, category))
    return drawn


class Painter:
    """An encoder whose features are mean colours of patches and a constant; a `blind` one confuses left and right."""

    name, threshold, dim, stride, device = "painter", 0.3, 4, PATCH, torch.device("cpu")

    def __init__(self, blind=False, log=None, die_after=None):
        self.blind, self.log, self.die_after, self.seen = blind, log, die_after, 0

    def fingerprint(self):
        return f"painter-{self.blind}"

    def extract_stream(self, pictures, *, batch_size=8):
        return (self._extract(picture) for picture in pictures)

    def _extract(self, picture):
        self.seen += 1
        if self.log is not None:
            with Path(self.log).open("a") as log:
                log.write(hashlib.sha256(picture.contiguous().numpy().tobytes()).hexdigest() + "\n")
        if self.die_after is not None and self.seen > self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        colours = functional.avg_pool2d(picture.double()[None], PATCH)[0] / 255
        if self.blind:
            colours = self._without_sides(colours)
        constant = torch.full_like(colours[:1], 0.2)
        return FeatureMap(torch.cat([colours, constant]).float(), tuple(picture.shape[-2:]))

    def _without_sides(self, colours):
        painted = COLOURS.double() / 255
        seen = colours.clone()
        for left, right in ((1, 2), (3, 4)):
            same = (colours - painted[right][:, None, None]).abs().sum(0) < 0.01
            seen[:, same] = painted[left][:, None]
        return seen
