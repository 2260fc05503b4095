"""Pairs per second of the training loader (read, augment, stack) at 518 px, against reading the files alone.

    python speed/loading.py [--pairs 60] [--size 518] [--repeats 3]

The images are generated here, or are the JPEG files of the folder that GECO_DATA names.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from kornia import augmentation as kornia
from PIL import Image as Pillow
from torch.utils.data import DataLoader

from geco import images
from geco.batching import collate
from geco.training import EpochSampler, Joint, TrainingPairs
from geco.training.settings import AugmentSettings, SamplingSettings
from geco.types import Keypoints, MaskFile, Pair, Skeleton, View

KEYPOINTS = 17
SKELETON = Skeleton(tuple(str(i) for i in range(KEYPOINTS)), tuple(range(KEYPOINTS)), tuple(range(KEYPOINTS)))
BATCH = 6


def image_files(folder: Path, count: int) -> list[Path]:
    """JPEG files: real ones where GECO_DATA is set, else noise with about as much detail as a camera image."""
    if root := os.environ.get("GECO_DATA"):
        real = sorted(Path(root).rglob("*.jpg"))
        return [real[i * len(real) // count] for i in range(min(count, len(real)))]
    rng = np.random.default_rng(0)
    paths = []
    for number in range(count):
        pixels = np.zeros((375, 500, 3))
        for octave in range(1, 7):
            rows = rng.normal(0, 60 / octave, (3 * 2**octave, 4 * 2**octave, 3)) + 128
            small = Pillow.fromarray(rows.clip(0, 255).astype(np.uint8))
            pixels += np.asarray(small.resize((500, 375), Pillow.Resampling.BICUBIC), dtype=float) - 128
        paths.append(folder / f"{number}.jpg")
        Pillow.fromarray((pixels + 128).clip(0, 255).astype(np.uint8)).save(paths[-1], quality=92)
    return paths


def view(path: Path, folder: Path) -> View:
    height, width = size = images.size_of(path)
    mask = np.zeros(size, np.uint8)
    mask[height // 4 : -height // 4, width // 4 : -width // 4] = 255
    place = folder / f"mask-{abs(hash(path))}.png"
    Pillow.fromarray(mask).save(place)
    xy = torch.rand(KEYPOINTS, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([width, height])
    box = torch.tensor([width * 0.2, height * 0.2, width * 0.8, height * 0.8])
    return View(
        path,
        size,
        Keypoints(xy, torch.ones(KEYPOINTS, dtype=torch.bool)),
        box,
        MaskFile(place),
        name=path.name,
    )


def read_only(pairs: Joint) -> int:
    for pair in pairs:
        images.load_view(pair.source)
        images.load_view(pair.target)
    return 0


def loader(pairs: Joint, settings: AugmentSettings, workers: int) -> DataLoader:
    """As in training: workers are started once and stay, so starting them is part of the warm-up."""
    return DataLoader(
        TrainingPairs(pairs, settings, seed=0),
        batch_size=BATCH,
        sampler=EpochSampler(pairs, SamplingSettings(None), seed=0),
        num_workers=workers,
        collate_fn=collate,
        persistent_workers=workers > 0,
    )


def epoch(loader: DataLoader) -> int:
    """Bytes of the largest batch of images."""
    return max(batch.source.image.nbytes + batch.target.image.nbytes for batch in loader)


class KorniaPairs:
    """The same recipe as kornia's own sequence of modules: what one would write without this package."""

    def __init__(self, pairs: Joint, settings: AugmentSettings) -> None:
        self.pairs = pairs
        self.sequence = kornia.AugmentationSequential(
            kornia.RandomHorizontalFlip(p=settings.flip),
            kornia.RandomResizedCrop(
                (settings.size, settings.size),
                scale=settings.scale,
                ratio=settings.ratio,
                align_corners=False,
            ),
            kornia.ColorJitter(
                settings.brightness, settings.contrast, settings.saturation, settings.hue, p=settings.jitter
            ),
            kornia.RandomGaussianBlur((settings.kernel,) * 2, settings.sigma, p=settings.blur),
            kornia.RandomSolarize(thresholds=0.5, additions=0.0, p=settings.solarise),
            data_keys=["input", "mask", "keypoints", "bbox_xyxy"],
        )

    def altered(self, one: View) -> torch.Tensor:
        one = images.load_view(one)
        mask, xy, box = one.mask[None, None].float(), one.keypoints.xy[None], one.box[None, None]
        return self.sequence(one.image[None].float() / 255, mask, xy, box)[0][0]

    def epoch(self) -> int:
        most, batch = 0, []
        for pair in self.pairs:
            batch.append(torch.stack([self.altered(pair.source), self.altered(pair.target)]))
            if len(batch) == BATCH:
                most = max(most, torch.stack(batch).nbytes)
                batch = []
        return most


def measure(work: Callable[[], int], pairs: int, repeats: int) -> tuple[float, float, int]:
    """Pairs per second: median and spread over the repeats after one warm-up; and what the work returned."""
    returned = work()
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        rates.append(pairs / (time.perf_counter() - start))
    return statistics.median(rates), max(rates) - min(rates), returned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--size", type=int, default=518)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # as in a worker, so that 0 and 1 workers compare
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        views = [view(path, folder) for path in image_files(folder, arguments.pairs + 1)]
        pairs = Joint({"images": [Pair(a, b, SKELETON) for a, b in pairwise(views)]})
        settings = AugmentSettings(size=arguments.size)
        report(pairs, settings, arguments.repeats)


def report(pairs: Joint, settings: AugmentSettings, repeats: int) -> None:
    count = len(pairs)
    limit, spread, _ = measure(lambda: read_only(pairs), count, repeats)
    print(f"{count} pairs, {settings.size} px, {os.cpu_count()} cores, median of {repeats} ± half the range")
    print(f"{'read files only, 1 process':34s}{limit:8.1f} ± {spread / 2:.1f} pairs/s")
    rates = {}
    for workers in (0, 1, 2):
        loading = partial(epoch, loader(pairs, settings, workers))
        rates[workers], spread, ours = measure(loading, count, repeats)
        line = f"{f'loader, {workers} workers':34s}{rates[workers]:8.1f} ± {spread / 2:.1f} pairs/s"
        print(f"{line}  ({rates[workers] / limit:.0%} of reading)")
    plain, spread, theirs = measure(KorniaPairs(pairs, settings).epoch, count, repeats)
    print(f"{'kornia AugmentationSequential, 0':34s}{plain:8.1f} ± {spread / 2:.1f} pairs/s")
    print("speedup: pairs/s of the loader without workers over kornia's own sequence in the same process")
    print("memory_ratio: bytes of a batch's images as the loader hands them over (8-bit) over kornia's (32-bit)")
    print("RESULT", json.dumps({"speedup": round(rates[0] / plain, 2), "memory_ratio": round(ours / theirs, 3)}))


if __name__ == "__main__":
    main()
