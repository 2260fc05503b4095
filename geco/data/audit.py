"""The audit of a dataset: images, pairs, keypoints, cases of queries, missing and damaged files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from geco import checks, geometry, images
from geco.data.contract import DatasetFormat, PairDataset, PartDataset
from geco.data.derived import annotation_key
from geco.data.loading import Options, check_root, read_options
from geco.errors import InputError, MissingFileError
from geco.system import Progress, silent
from geco.types import Keypoints, MaskFile, Pair, Size, View

CASES = ("11", "10", "1x", "01", "00")  # match visible?, counterpart visible? (x: has none)
COUNTED = ("photographs", "instances", "pairs", "listed")  # what a dataset may have published totals of


@dataclass
class SplitCount:
    """What one split holds; `faults` are the files and entries that are missing or damaged."""

    split: str
    photographs: int = 0
    instances: int = 0
    pairs: int = 0
    keypoints: int = 0  # visible ones, each instance once
    masks: int = 0
    empty_masks: int = 0  # without any foreground; counted where masks are read
    outside: int = 0  # visible keypoints beyond the image
    listed: int = 0
    pairs_of: Counter[str] = field(default_factory=Counter)
    photographs_of: dict[str, set[str]] = field(default_factory=dict)
    keypoints_of: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def count_split(
    dataset_format: DatasetFormat,
    root: Path,
    split: str,
    options: Options = (),
    *,
    decode: bool = True,
    progress: Progress = silent,
) -> tuple[SplitCount, list[PairDataset | PartDataset]]:
    """The counts of a split, and its variants; a list that is missing altogether is a fault like any other.

    `decode=False` checks only that files exist. `progress` is told of every view that was looked at.
    """
    check_root(dataset_format, root)
    chosen = read_options(dataset_format, options)
    variants = dataset_format.variants(split)
    if {key for variant in variants for key in variant} & set(chosen):
        variants = [{}]  # the options say which one
    count, audit = SplitCount(split), _Audit(decode, progress, f"{dataset_format.name} {split}")
    datasets = []
    for variant in variants:
        try:
            dataset = dataset_format.load(root, split, faults=count.faults, **{**variant, **chosen})
        except OSError as error:
            count.faults.append(str(error))
            continue
        datasets.append(dataset)
        if isinstance(dataset, PartDataset):
            audit.add_parts(count, dataset)
        else:
            audit.add_pairs(count, dataset)
    count.faults = list(dict.fromkeys(" ".join(fault.split()) for fault in count.faults))
    return count, datasets


class _Audit:
    """Adds datasets to a count, looking at every instance and image once."""

    def __init__(self, decode: bool, progress: Progress, what: str) -> None:
        self._decode, self._progress, self._what = decode, progress, what
        self._instances: set[object] = set()
        self._images: set[str] = set()

    def add_parts(self, count: SplitCount, parts: PartDataset) -> None:
        """Add views with part maps."""
        count.listed += parts.listed
        for number, (view, category) in enumerate(zip(parts, parts.categories, strict=True), 1):
            self._add_view(count, view)
            count.photographs_of.setdefault(category, set()).add(view.identity)
            self._progress(self._what, number, len(parts))

    def add_pairs(self, count: SplitCount, pairs: PairDataset) -> None:
        """Add pairs and their views."""
        for number, view in enumerate(pairs.views, 1):
            self._add_view(count, view)
            self._progress(self._what, number, len(pairs.views))
        count.pairs += len(pairs)
        count.pairs_of.update(pairs.categories)
        bits: Bits = {}
        counted: set[object] = set()
        for pair, category in zip(pairs, pairs.categories, strict=True):
            count.cases.update(query_cases(pair, bits))
            for view in (pair.source, pair.target):
                key = (category, annotation_key(view))
                if key not in counted:
                    counted.add(key)
                    count.photographs_of.setdefault(category, set()).add(str(view.image))
                    count.keypoints_of[category] += _bits(view.points.visible, bits).bit_count()

    def _add_view(self, count: SplitCount, view: View) -> None:
        instance = (view.identity, None if view.box is None else tuple(view.box.tolist()))
        if instance in self._instances:
            return
        self._instances.add(instance)
        count.photographs += str(view.image) not in self._images
        self._images.add(str(view.image))
        count.instances += 1
        count.masks += view.mask is not None
        if view.keypoints is not None:
            count.keypoints += int(view.keypoints.visible.sum())
            count.outside += _outside(view.keypoints, view.size)
        try:
            self._look_at(view, count)
        except (ValueError, OSError) as error:
            count.faults.append(str(error))

    def _look_at(self, view: View, count: SplitCount) -> None:
        if self._decode:
            loaded = images.load_view(view)
            if loaded.mask is not None and not bool(loaded.foreground.any()):
                count.empty_masks += 1
                place = view.mask.path if isinstance(view.mask, MaskFile) else view.label
                raise InputError(f"{place}: the mask has no foreground; expected some pixels of the object")
            return
        for path in (view.image, view.mask.path if isinstance(view.mask, MaskFile) else None):
            if isinstance(path, Path) and not checks.is_file(path):
                raise MissingFileError(f"{path}: no such file")


def _outside(points: Keypoints, size: Size) -> int:
    return int((points.visible & ~geometry.inside(points.xy, size=size)).sum())


# --- cases of the queries -------------------------------------------------------------------------

Bits = dict[int, tuple[Tensor, int]]  # id of a tensor → the tensor, so that its id stays its own, and its bits


def query_cases(pair: Pair, bits: Bits | None = None) -> dict[str, int]:
    """How many of a pair's queries fall in each case; a query is a keypoint visible in the source.

    `bits` remembers the visibility of keypoints as whole numbers, bit i for row i, from one pair to the next.
    """
    bits = {} if bits is None else bits
    source, target = _bits(pair.source.points.visible, bits), _bits(pair.target.points.visible, bits)
    twin = pair.table.twin
    has_twin = sum(1 << i for i, j in enumerate(twin) if i != j)
    twin_visible = sum(1 << i for i, j in enumerate(twin) if i != j and target >> j & 1)
    matched, hidden = source & target, source & ~target
    rows = {
        "11": matched & twin_visible,
        "10": matched & has_twin & ~twin_visible,
        "1x": matched & ~has_twin,
        "01": hidden & twin_visible,
        "00": hidden & ~twin_visible,
    }
    return {case: value.bit_count() for case, value in rows.items()}


def _bits(visible: Tensor, known: Bits) -> int:
    if id(visible) not in known:
        known[id(visible)] = (visible, sum(1 << i for i, flag in enumerate(visible.tolist()) if flag))
    return known[id(visible)][1]


# --- published totals -----------------------------------------------------------------------------


def remarks(dataset_format: DatasetFormat, counts: Sequence[SplitCount]) -> list[str]:
    """One line per published total: complete, a subset of it or more; and one for categories that are absent."""
    totals = {count.split: {what: int(getattr(count, what)) for what in COUNTED} for count in counts}
    if set(dataset_format.splits) == set(totals):
        totals["all"] = {what: sum(split[what] for split in totals.values()) for what in COUNTED}
    lines = [
        f"{split}: {_compared(totals[split][what], total, what)}"
        for split, published in dataset_format.published.items()
        for what, total in published.items()
        if split in totals
    ]
    for count in counts:
        absent = sorted(set(dataset_format.published_pairs.get(count.split, ())) - set(count.pairs_of))
        if absent:
            lines.append(f"{count.split}: no pairs of {', '.join(absent)}")
    return lines


def _compared(count: int, published: int, what: str) -> str:
    label = {"listed": "images of the list", "photographs": "images"}.get(what, what)
    share = f" ({count / published:.1%})" if count < published else ""
    verdict = "complete" if count == published else "a subset" if count < published else "more than published"
    return f"{count:,} of {published:,} published {label}: {verdict}{share}"
