"""A folder of images without any annotation, for distillation: pairs of images without keypoints.

    root/**/*.jpg    and .png, .webp, …

Each image is the source of one pair and the target of another. An image whose file name is a PASCAL VOC id in the
validation or test list of a benchmark is left out.
"""

from pathlib import Path
from random import Random

import torch

from geco import images
from geco.data import Pairs, benchmark_images, choose, tolerating
from geco.errors import InputError
from geco.system import listing
from geco.types import Keypoints, Skeleton, View

SPLITS = ("train",)
CATEGORY = "image"
NO_SKELETON = Skeleton((), (), None)  # without a mirror table nothing is flipped
_NO_POINTS = Keypoints(torch.zeros(0, 2), torch.zeros(0, dtype=torch.bool))


def load(
    root: str | Path,
    split: str = "train",
    *,
    seed: int = 0,
    spare_benchmarks: bool = True,
    faults: list[str] | None = None,
) -> Pairs:
    """One pair for each image, drawn with the seed; the box of each view is its whole image.

    `spare_benchmarks` leaves out images of the validation and test lists of other datasets
    (`data.benchmark_lists`). `faults` collects what is wrong, which is left out.
    """
    choose(split, SPLITS, what="split")
    root, spared = Path(root), benchmark_images() if spare_benchmarks else frozenset()
    views: list[View] = []
    with tolerating(faults):
        for path in listing.image_files([root]):
            if path.stem not in spared:
                with tolerating(faults):
                    views.append(_view(path, root))
        if not views:
            raise InputError(f"{root}: every image is in a benchmark's validation or test list; give other images")
    order = list(range(len(views)))
    Random(seed).shuffle(order)
    rows = list(zip(order, order[1:] + order[:1], strict=True))
    return Pairs(tuple(views), rows, [CATEGORY] * len(rows), [NO_SKELETON] * len(rows))


def _view(path: Path, root: Path) -> View:
    height, width = size = images.size_of(path)
    box = torch.tensor([0.0, 0.0, width, height])
    return View(path, size, _NO_POINTS, box, name=path.relative_to(root).as_posix())
