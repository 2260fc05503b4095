"""SPair-71k (Min et al. 2019): 18 categories × 100 VOC images, up to 30 keypoints, 70,958 ordered pairs.

    root/ImageAnnotation/<category>/<image>.json    root/JPEGImages/<category>/<image>.jpg
    root/Layout/{large,small}/{trn,val,test}.txt    or, without it, root/PairAnnotation/{trn,val,test}/*.json
    root/Segmentation/<category>/<image>.png        VOC class masks, used where they are

A pair holds *all* keypoints of its two images, not only the shared ones that the pair files list: what is
hidden in one image is what the bin learns from. So only the names of the pair files are read.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

from geco.data import (
    PIXEL_CENTRE,
    VOC_CLASSES,
    PairBuilder,
    Pairs,
    benchmark_images,
    box_on,
    choose,
    field,
    image_size,
    keypoints,
    locate,
    mask_file,
    numbers,
    published_skeletons,
    read_json,
    read_text,
    tolerating,
)
from geco.errors import InputError
from geco.types import View

SPLITS = ("train", "val", "test")
# pairs of the large layout per category: train, val, test
_LARGE = {
    "aeroplane": (2924, 304, 690),
    "bicycle": (2946, 334, 650),
    "bird": (3080, 272, 702),
    "boat": (2936, 302, 702),
    "bottle": (2448, 374, 870),
    "bus": (2708, 250, 644),
    "car": (2960, 274, 564),
    "cat": (3306, 272, 600),
    "chair": (3060, 306, 646),
    "cow": (3118, 272, 640),
    "dog": (3192, 306, 600),
    "horse": (3136, 306, 600),
    "motorbike": (3180, 238, 702),
    "person": (3066, 306, 650),
    "pottedplant": (2446, 380, 862),
    "sheep": (3140, 240, 664),
    "train": (2752, 342, 756),
    "tvmonitor": (2942, 306, 692),
}
PUBLISHED_PAIRS = {split: {c: n[i] for c, n in _LARGE.items()} for i, split in enumerate(SPLITS)}
PUBLISHED = {split: {"pairs": sum(pairs.values())} for split, pairs in PUBLISHED_PAIRS.items()}

_PAIR_NAME = re.compile(r"(\d+)-(\d{4}_\d{6})-(\d{4}_\d{6})[:_]([a-z]+)")  # some copies have _ for : (Windows)


def load(
    root: str | Path,
    split: str,
    *,
    layout: str = "large",
    masks: str | Path | None = None,
    spare_benchmarks: bool = True,
    faults: list[str] | None = None,
) -> Pairs:
    """Pairs in the order of the layout file.

    `masks`: a folder of VOC class masks, `<image>.png` or `<category>/<image>.png`; without it
    root/Segmentation, if there is one. `spare_benchmarks`: the training split leaves out pairs with an image
    that a validation or test list has, of this or another dataset (`data.benchmark_lists`). `faults`: collects
    what is wrong and leaves those pairs out, instead of raising.
    """
    root = Path(root)
    folder = "trn" if choose(split, (*SPLITS, "trn"), what="split") == "train" else split
    choose(layout, ("large", "small"), what="layout")
    own_masks = root / "Segmentation"
    mask_folder = Path(masks) if masks else own_masks if own_masks.is_dir() else None
    builder = PairBuilder(partial(_view, root, mask_folder), faults)
    spared = benchmark_images() if folder == "trn" and spare_benchmarks else frozenset()
    for where, name in _pair_names(root, folder, layout):
        with tolerating(faults):
            source, target, category = _parse_name(name, where)
            if spared.isdisjoint((source, target)):
                builder.add((category, source), (category, target), category, published_skeletons("spair")[category])
    return builder.pairs()


def variants(split: str) -> list[dict[str, Any]]:
    """The options that `geco data check` counts a split with: all that was published."""
    return [{"spare_benchmarks": False}]


def _pair_names(root: Path, folder: str, layout: str) -> list[tuple[str, str]]:
    """(where it stands, pair name) of every pair of a split."""
    pair_list = root / "Layout" / layout / f"{folder}.txt"
    if pair_list.is_file():
        lines = read_text(pair_list, what="one pair name per line").splitlines()
        return [(f"{pair_list}:{number}", line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    what = f"Layout/{layout}/{folder}.txt or a folder of pair files; is {root} the SPair-71k folder?"
    pairs = locate(root, f"PairAnnotation/{folder}", what=what)
    return [(str(path), path.stem) for path in sorted(pairs.glob("*.json"))]


def _parse_name(name: str, where: str) -> tuple[str, str, str]:
    match = _PAIR_NAME.fullmatch(name)
    if match is None or match[4] not in published_skeletons("spair"):
        raise InputError(f"{where}: expected `<id>-<source>-<target>:<category>`, got {name!r}")
    return match[2], match[3], match[4]


def _view(root: Path, masks: Path | None, category: str, image: str) -> View:
    path = root / "ImageAnnotation" / category / f"{image}.json"
    record = read_json(path, what="an SPair-71k image annotation")
    where = str(path)
    points = field(record, "kps", dict, where)
    size = image_size(field(record, "image_height", int, where), field(record, "image_width", int, where), where)
    xy, visible = [], []
    for index in range(len(published_skeletons("spair")[category])):
        point = points.get(str(index))  # null: not visible in this image
        xy.append((0.0, 0.0) if point is None else numbers(point, 2, f"{where}: kps {index}", form="[x, y] or null"))
        visible.append(point is not None)
    box = numbers(field(record, "bndbox", list, where), 4, f"{where}: bndbox", form="[x0, y0, x1, y1]")
    return View(
        root / "JPEGImages" / category / f"{image}.jpg",
        size,
        # Clicks on whole pixels, counted from 0. Some lie outside the box; the benchmark scores them too.
        keypoints(xy, visible, shift=PIXEL_CENTRE),
        # The box stays as written: published thresholds are shares of its x1 − x0 and y1 − y0.
        box_on(size, box, f"{where}: bndbox"),
        mask_file(masks, f"{category}/{image}.png", f"{image}.png", label=VOC_CLASSES.index(category) + 1),
        name=image,
    )
