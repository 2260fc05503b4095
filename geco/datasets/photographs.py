"""A folder of photographs without any annotation, for distillation: pairs of images, and no keypoints to compare.

    root/**/*.jpg    and .png, .webp, …

Each photograph is the source of one pair and the target of another. One that has VOC's id as its name and is in a
validation or test list of a dataset is left out.
"""

from pathlib import Path
from random import Random

import torch

from geco import images
from geco.data import Pairs, benchmark_photographs, choose, tolerating
from geco.errors import InputError
from geco.system import listing
from geco.types import Keypoints, Skeleton, View

SPLITS = ("train",)
CATEGORY = "photograph"
NOTHING = Skeleton((), (), None)  # without a mirror table nothing is flipped
_NO_POINTS = Keypoints(torch.zeros(0, 2), torch.zeros(0, dtype=torch.bool))


def load(
    root: str | Path,
    split: str = "train",
    *,
    seed: int = 0,
    spare_benchmarks: bool = True,
    faults: list[str] | None = None,
) -> Pairs:
    """As many pairs as photographs, drawn with the seed; the box of each is the whole photograph.

    `spare_benchmarks` leaves out photographs of the validation and test lists of other datasets
    (`data.benchmark_lists`). `faults` collects what is wrong, which is left out.
    """
    choose(split, SPLITS, what="split")
    root, spared = Path(root), benchmark_photographs() if spare_benchmarks else frozenset()
    views: list[View] = []
    with tolerating(faults):
        for path in listing.image_files([root]):
            if path.stem not in spared:
                with tolerating(faults):
                    views.append(_view(path, root))
        if not views:
            raise InputError(f"{root}: every photograph is in a benchmark's validation or test list; give other ones")
    order = list(range(len(views)))
    Random(seed).shuffle(order)
    rows = list(zip(order, order[1:] + order[:1], strict=True))
    return Pairs(tuple(views), rows, [CATEGORY] * len(rows), [NOTHING] * len(rows))


def _view(path: Path, root: Path) -> View:
    height, width = size = images.size_of(path)
    box = torch.tensor([0.0, 0.0, width, height])
    return View(path, size, _NO_POINTS, box, name=path.relative_to(root).as_posix())
