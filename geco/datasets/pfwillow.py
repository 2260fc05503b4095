"""PF-WILLOW (Ham et al. 2016): 10 classes × 10 images with 10 keypoints; all 900 ordered pairs in a class.

    root/<class>/<name>.png    root/<class>/<name>.mat    (root may be the folder above PF-dataset-WILLOW)

The points have no names, so none has a counterpart and nothing is ever flipped.
"""

from functools import partial
from itertools import permutations
from pathlib import Path

import torch

from geco import checks, images
from geco.data import MATLAB_CENTRE, PairBuilder, Pairs, choose, keypoints, matrix, numbers, tolerating
from geco.errors import InputError, MissingFileError
from geco.types import View

SPLITS = ("test",)
PUBLISHED = {"test": {"photographs": 100, "instances": 100, "pairs": 900}}
_POINTS = 10


def load(root: str | Path, split: str = "test", *, faults: list[str] | None = None) -> Pairs:
    """All ordered pairs of each class, sorted; `faults` collects what is wrong, which is left out."""
    root = Path(root)
    choose(split, SPLITS, what="split")
    root = root / "PF-dataset-WILLOW" if (root / "PF-dataset-WILLOW").is_dir() else root
    builder = PairBuilder(partial(_view, root), faults)
    with tolerating(faults):
        annotations = sorted(root.glob("*/*.mat"))
        if not annotations:
            raise MissingFileError(f"{root}: found no <class>/<name>.mat; is this the PF-dataset-WILLOW folder?")
        for source, target in permutations(annotations, 2):
            if source.parent == target.parent:
                kind = source.parent.name
                builder.add((kind, source.stem), (kind, target.stem), kind)
    return builder.pairs()


def _view(root: Path, category: str, name: str) -> View:
    path = root / category / f"{name}.mat"
    points = matrix(path, "pts_coord")
    if points.shape != (2, _POINTS):
        raise InputError(f"{path}: pts_coord should be 2×{_POINTS} (x over y), got {points.shape}")
    for place in points.T.tolist():
        numbers(place, 2, f"{path}: pts_coord", form="[x, y]")
    image = path.with_suffix(".png")
    if not checks.is_file(image):
        raise MissingFileError(f"{image}: no such file; {path.name} describes it")
    # Marked in MATLAB, where the centre of the first pixel is (1, 1).
    marked = keypoints(points.T.tolist(), [True] * _POINTS, shift=MATLAB_CENTRE)
    # The usual "box" of this dataset is the extent of its keypoints.
    box = torch.cat([marked.xy.amin(0), marked.xy.amax(0)])
    return View(image, images.size_of(image), marked, box, name=f"{category}/{name}")
