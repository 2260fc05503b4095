"""Animal-Pose (Cao et al. 2019): dogs, cats, sheep, horses and cows with 20 keypoints, alone or in groups.

    root/keypoints.json    root/images/<file>    root/masks/<what an annotation's field "mask" names>, if any

There are no published splits or pairs. Ours: 70/15/15 % of the images by a hash of the file name, so
that no image is in two splits and more images do not move the others; pairs are drawn with a seed.
`splits.json` lists the images that our results are from: those that are in none of the test
sets of SPair-71k and PF-PASCAL.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from geco import checks, geometry, images
from geco.data import (
    PIXEL_CENTRE,
    Pairs,
    benchmark_images,
    box_on,
    choose,
    draw,
    field,
    hashed_split,
    keypoints,
    named_mask,
    numbers,
    on_image,
    published_skeletons,
    read_json,
    read_text,
    rows_named,
    sharing,
    squared,
    subset,
    tolerating,
)
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, MaskFile, View

SPLITS = ("train", "val", "test")
PUBLISHED = {"all": {"photographs": 4608, "instances": 6117}}
SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}
N_PAIRS = {"train": 20_000, "val": 1_000, "test": 2_000}


def load(
    root: str | Path,
    split: str,
    *,
    n_pairs: int | None = None,
    seed: int = 0,
    species: str = "same",
    category: str = "pair",
    crop: str = "none",
    margin: float = 0.1,
    min_keypoints: int = 3,
    min_shared: int = 3,
    min_box: float = 0.0,
    min_on_mask: float = 0.0,
    exclude: str | Path | None = None,
    images: str = "all",
    spare_benchmarks: bool = True,
    only: str = "",
    without: str = "",
    photographs: str | None = None,
    faults: list[str] | None = None,
) -> Pairs:
    """Pairs of animals in different images, of the same species or (`species="any"`) of any.

    The category of a pair is its species, or "animal" with `species="any"`; with `category="source"` it is always the
    species of its source, so that each species is sampled as much as any other although pairs mix them.
    `crop="square"` shows only a square around each animal's box and a margin (a share of the box). Left out
    are animals with fewer than `min_keypoints` visible, a box whose longer side is below `min_box` pixels, or
    less than `min_on_mask` of the visible keypoints on the mask (reads every mask), and the images that
    the file `exclude` names (one per line); with `images="listed"` also all that our lists do not name. With
    `spare_benchmarks` the training split leaves out what a validation or test list of another dataset has
    (`data.benchmark_lists`).
    `only` and `without` name keypoints (commas in between) that are kept or left out, as if the
    others had not been annotated; all counts above are of those kept, and no more of them are asked for than there are.
    `photographs` is what release 0.1 called `images`. `faults`: collects what is wrong and leaves it out.
    """
    root = Path(root)
    choose(split, SPLITS, what="split")
    choose(species, ("same", "any"), what="species")
    choose(category, ("pair", "source"), what="category")
    choose(crop, ("none", "square"), what="crop")
    images = images if photographs is None else photographs
    choose(images, ("all", "listed"), what="images")
    whole = published_skeletons("animalpose")["animal"]
    rows = rows_named(whole, only=only, without=without)
    skeleton = subset(whole, rows)
    checks.whole(min_keypoints, "min_keypoints", least=0)
    checks.whole(min_shared, "min_shared", least=0)
    min_keypoints, min_shared = min(min_keypoints, len(rows)), min(min_shared, len(rows))
    unwanted = _names(Path(exclude)) if exclude else set()
    unwanted |= benchmark_images() if split == "train" and spare_benchmarks else frozenset()
    views: list[View] = []
    kinds: list[str] = []
    with tolerating(faults):
        for where, file, kind, record in _records(root, split, faults):
            if Path(file).stem in unwanted or (images == "listed" and file not in listed()):
                continue
            with tolerating(faults):
                view = _view(root, file, record, where, rows)
                if not _usable(view, min_keypoints=min_keypoints, min_box=min_box, min_on_mask=min_on_mask):
                    continue
                views.append(squared(view, margin=margin) if crop == "square" else view)
                kinds.append(kind)
    groups = [range(len(views))] if species == "any" else [_where(kinds, kind) for kind in sorted(set(kinds))]
    count = N_PAIRS[split] if n_pairs is None else n_pairs
    pairs = draw(groups, count=count, seed=seed, fits=sharing(views, shared=min_shared))
    mixed = species == "any" and category == "pair"
    categories = ["animal" if mixed else kinds[i] for i, _ in pairs]
    return Pairs(tuple(views), pairs, categories, [skeleton] * len(pairs))


def variants(split: str) -> list[dict[str, Any]]:
    """The options that `geco data check` counts a split with: all that was published."""
    return [{"spare_benchmarks": False}]


@cache
def listed() -> dict[str, str]:
    """The split of every image that splits.json lists."""
    lists = json.loads(files("geco.datasets.animalpose").joinpath("splits.json").read_text())
    return {file: split for split, names in lists.items() for file in names}


def _records(root: Path, split: str, faults: list[str] | None) -> Iterator[tuple[str, str, str, Any]]:
    """(where it stands, image file, species, annotation) of the animals of a split, in the file's order."""
    path = root / "keypoints.json"
    content = read_json(path, what="the annotations of Animal-Pose")
    file_of = field(content, "images", dict, str(path))
    kinds = {
        field(entry, "id", int, f"{path}: categories"): field(entry, "name", str, f"{path}: categories")
        for entry in field(content, "categories", list, str(path))
    }
    for number, record in enumerate(field(content, "annotations", list, str(path))):
        where = f"{path}: annotations[{number}]"
        with tolerating(faults):
            image, kind = checks.shown(field(record, "image_id", int, where)), field(record, "category_id", int, where)
            if image not in file_of:
                raise InputError(f"{where}: image_id {image} is not among the file's images")
            if kind not in kinds:
                raise InputError(f"{where}: category_id {checks.shown(kind)} is not among the file's categories")
            file = field(file_of, image, str, f"{path}: images")
            if hashed_split(file, SHARES) == split:
                yield where, file, kinds[kind], record


def _view(root: Path, file: str, record: Any, where: str, rows: Sequence[int]) -> View:
    path = root / "images" / file
    if not checks.is_file(path):
        raise MissingFileError(f"{path}: no such file; {where} needs it")
    size = images.size_of(path)
    points = on_image(_keypoints(field(record, "keypoints", list, where), where), size)
    box = numbers(field(record, "bbox", list, where), 4, f"{where}: bbox", form="[x0, y0, x1, y1]")
    return View(
        path,
        size,
        Keypoints(points.xy[rows], points.visible[rows]),
        box_on(size, box, f"{where}: bbox"),
        named_mask(root / "masks", record.get("mask"), where),
        name=Path(file).stem,
    )


def _keypoints(rows: list[Any], where: str) -> Keypoints:
    count = len(published_skeletons("animalpose")["animal"])
    if len(rows) != count:
        raise InputError(f"{where}: expected {count} keypoints [x, y, visible], got {len(rows)}")
    points = [numbers(row, 3, f"{where}: keypoints[{i}]", form="[x, y, visible]") for i, row in enumerate(rows)]
    # Clicks on whole pixels, counted from 0.
    return keypoints([p[:2] for p in points], [p[2] > 0 for p in points], shift=PIXEL_CENTRE)


def _usable(view: View, *, min_keypoints: int, min_box: float, min_on_mask: float) -> bool:
    visible = view.points.xy[view.points.visible]
    side = 0.0 if view.box is None else float((view.box[2:] - view.box[:2]).max())
    if len(visible) < max(1, min_keypoints) or side < min_box:
        return False
    if min_on_mask <= 0 or not isinstance(view.mask, MaskFile):
        return True
    mask = images.read_mask(view.mask)
    cells = geometry.cells(visible, size=view.size, grid=view.size)
    return float(mask.flatten()[cells].float().mean()) >= min_on_mask


def _names(path: Path) -> set[str]:
    lines = read_text(path, what="one image name per line").splitlines()
    return {Path(line.strip()).stem for line in lines if line.strip()}


def _where(kinds: list[str], kind: str) -> list[int]:
    return [i for i, other in enumerate(kinds) if other == kind]
