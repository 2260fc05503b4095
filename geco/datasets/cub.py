"""CUB-200-2011 (Wah et al. 2011): 11,788 birds with 15 parts, boxes and segmentations, paired at random.

    root/{images,train_test_split,bounding_boxes}.txt   root/parts/part_locs.txt   root/images/<class>/<file>
    root/segmentations/<class>/<stem>.png               or beside the root; optional

There are no published pairs: the protocol is 10,000 random pairs of images with at least 7 visible parts.
"""

from collections.abc import Iterator
from pathlib import Path

from geco import checks, images
from geco.data import (
    PIXEL_CENTRE,
    Pairs,
    box_on,
    choose,
    draw,
    keypoints,
    mask_file,
    number,
    on_image,
    published_skeletons,
    read_rows,
    sharing,
    squared,
    tolerating,
)
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, View

SPLITS = ("train", "test")
# images with at least 7 visible parts, and the protocol's pairs
PUBLISHED = {
    "train": {"photographs": 5965, "pairs": 10_000},
    "test": {"photographs": 5771, "pairs": 10_000},
}
_MARGIN = 0.05  # of the box at each end of the square crop, as CMR (Kanazawa et al. 2018) cuts the birds


def load(
    root: str | Path,
    split: str,
    *,
    n_pairs: int = 10_000,
    seed: int = 123,
    min_parts: int = 7,
    crop: str = "none",
    faults: list[str] | None = None,
) -> Pairs:
    """Random pairs of different birds; the same for the same seed.

    `crop="square"` shows only a square around each bird's box. `faults`: collects what is wrong and leaves
    those images out, instead of raising.
    """
    root = Path(root)
    choose(split, SPLITS, what="split")
    choose(crop, ("none", "square"), what="crop")
    checks.whole(min_parts, "min_parts", least=0)
    with tolerating(faults):
        views = []
        for where, file, points, box in _records(root, split):
            if int(points.visible.sum()) >= min_parts:
                with tolerating(faults):
                    view = _view(root, file, points, box, where)
                    views.append(squared(view, margin=_MARGIN) if crop == "square" else view)
        rows = draw([range(len(views))], count=n_pairs, seed=seed, fits=sharing(views, shared=0))
        bird = published_skeletons("cub")["bird"]
        return Pairs(tuple(views), rows, ["bird"] * len(rows), [bird] * len(rows))
    return Pairs((), [], [], [])


def _records(root: Path, split: str) -> Iterator[tuple[str, str, Keypoints, list[float]]]:
    """(where it is listed, image file, parts, box) of the images of a split, in the order of images.txt."""
    wanted = "1" if split == "train" else "0"
    chosen = {
        cells[0] for _, cells in read_rows(root / "train_test_split.txt", "image_id", "is_train") if cells[1] == wanted
    }
    boxes = {
        cells[0]: [number(cell, where, what="a box") for cell in cells[1:]]
        for where, cells in read_rows(root / "bounding_boxes.txt", "image_id", "x", "y", "width", "height")
    }
    parts = _parts(root / "parts" / "part_locs.txt")
    for where, (image, file) in read_rows(root / "images.txt", "image_id", "file"):
        if image not in chosen:
            continue
        for name, table in (("bounding_boxes.txt", boxes), ("parts/part_locs.txt", parts)):
            if image not in table:
                raise InputError(f"{root / name}: image {image} of images.txt is missing; is the file cut short?")
        yield where, file, parts[image], boxes[image]


def _parts(path: Path) -> dict[str, Keypoints]:
    count = len(published_skeletons("cub")["bird"])
    xy: dict[str, list[list[float]]] = {}
    visible: dict[str, list[bool]] = {}
    for where, (image, part, x, y, flag) in read_rows(path, "image_id", "part_id", "x", "y", "visible"):
        if not part.isdecimal() or not 1 <= int(part[:9]) <= count:
            raise InputError(f"{where}: expected a part number from 1 to {count}, got {part!r}")
        row = int(part) - 1
        xy.setdefault(image, [[0.0, 0.0] for _ in range(count)])[row] = [
            number(x, where, what="x"),
            number(y, where, what="y"),
        ]
        visible.setdefault(image, [False] * count)[row] = flag.strip() == "1"
    # Clicks on whole pixels, counted from 0.
    return {image: keypoints(xy[image], visible[image], shift=PIXEL_CENTRE) for image in xy}


def _view(root: Path, file: str, points: Keypoints, box: list[float], where: str) -> View:
    path = root / "images" / file
    if not checks.is_file(path):
        raise MissingFileError(f"{path}: no such file; {where} lists it")
    size = images.size_of(path)
    x, y, width, height = box
    masks = next((base / "segmentations" for base in (root, root.parent) if (base / "segmentations").is_dir()), None)
    return View(
        path,
        size,
        on_image(points, size),
        box_on(size, (x, y, x + width, y + height), f"{where}: its box"),
        mask_file(masks, str(Path(file).with_suffix(".png"))),
        name=str(Path(file).with_suffix("").as_posix()),
    )
