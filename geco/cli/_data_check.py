"""What `geco data check` counts: images, pairs, keypoints, cases of queries, missing and damaged files."""

import inspect
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from geco import geometry, images
from geco.types import Keypoints, MaskFile, Pair, Size, View

CASES = ("11", "10", "1x", "01", "00")  # match visible?, counterpart visible? (x: has none)


@dataclass
class SplitCount:
    """What one split holds; `faults` are the files and entries that are missing or damaged."""

    split: str
    photographs: int = 0
    instances: int = 0
    pairs: int = 0
    keypoints: int = 0  # visible ones, each instance once
    masks: int = 0
    outside: int = 0  # visible keypoints beyond the image
    listed: int = 0
    pairs_of: Counter[str] = field(default_factory=Counter)
    photographs_of: dict[str, set[str]] = field(default_factory=dict)
    keypoints_of: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def load_options(plugin: ModuleType, settings: Sequence[str], *, option: str = "--set") -> dict[str, Any]:
    """Options of the loader from `key=value` texts, converted to what its signature says."""
    known = {name: p for name, p in inspect.signature(plugin.load).parameters.items() if p.kind is p.KEYWORD_ONLY}
    known.pop("faults", None)
    options = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found or key not in known:
            raise ValueError(f"{option} takes key=value with a key of {', '.join(known) or '(none)'}, got {setting!r}")
        options[key] = _converted(value, known[key].annotation, f"{option} {setting}")
    return options


def _converted(text: str, annotation: Any, setting: str) -> Any:
    kinds = typing.get_args(annotation) or (annotation,)
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise ValueError(f"{setting}: expected a number") from None
    return text


def count_split(
    plugin: ModuleType,
    root: Path,
    split: str,
    *,
    options: dict[str, Any],
    step: Callable[[], None],
    decode: bool,
) -> tuple[SplitCount, list[Sequence[Any]]]:
    """The counts of a split, and its data; a list that is missing altogether is a fault like any other.

    `decode=False` looks only whether files are there. `step` is called for every view that was looked at.
    """
    count = SplitCount(split)
    variants = plugin.variants(split) if hasattr(plugin, "variants") else [{}]
    loaded = []
    seen: set[Any] = set()
    for variant in [options] if set(options) & {key for v in variants for key in v} else variants:
        try:
            data = plugin.load(root, split, faults=count.faults, **{**variant, **options})
        except FileNotFoundError as error:
            count.faults.append(str(error))
            continue
        loaded.append(data)
        _count_views(count, getattr(data, "views", data), seen, decode=decode, step=step)
        _count_categories(count, data)
        count.listed += getattr(data, "listed", 0)
    count.faults = list(dict.fromkeys(" ".join(fault.split()) for fault in count.faults))
    return count, loaded


def _count_views(
    count: SplitCount, views: Iterable[View], seen: set[Any], *, decode: bool, step: Callable[[], None]
) -> None:
    for view in views:
        step()
        box = None if view.box is None else tuple(view.box.tolist())
        if (view.name, box) in seen:
            continue
        seen.add((view.name, box))
        count.photographs += str(view.image) not in seen
        seen.add(str(view.image))
        count.instances += 1
        count.masks += view.mask is not None
        if view.keypoints is not None:
            count.keypoints += int(view.keypoints.visible.sum())
            count.outside += _outside(view.keypoints, view.size)
        try:
            _look_at(view, decode=decode)
        except (ValueError, OSError) as error:
            count.faults.append(str(error))


def _outside(points: Keypoints, size: Size) -> int:
    return int((points.visible & ~geometry.inside(points.xy, size=size)).sum())


def _look_at(view: View, *, decode: bool) -> None:
    if decode:
        images.load_view(view)
        return
    for path in (view.image, view.mask.path if isinstance(view.mask, MaskFile) else None):
        if isinstance(path, Path) and not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")


def _count_categories(count: SplitCount, data: Sequence[Any]) -> None:
    categories = getattr(data, "categories", ())
    if not hasattr(data, "views"):  # part views
        for view, category in zip(data, categories, strict=True):
            count.photographs_of.setdefault(category, set()).add(str(view.name))
        return
    count.pairs += len(data)
    count.pairs_of.update(categories)
    bits: dict[int, int] = {}
    counted: set[tuple[str, int]] = set()
    for pair in data:
        count.cases.update(query_cases(pair, bits))
        for view in (pair.source, pair.target):
            key = (pair.category, id(view.keypoints.visible))
            if key not in counted:
                counted.add(key)
                count.photographs_of.setdefault(pair.category, set()).add(str(view.image))
                count.keypoints_of[pair.category] += bits[key[1]].bit_count()


def query_cases(pair: Pair, bits: dict[int, int] | None = None) -> dict[str, int]:
    """How many of a pair's queries fall in each case; a query is a keypoint visible in the source.

    `bits` remembers the visibility of keypoints as whole numbers, bit i for row i, from one pair to the next.
    """
    assert pair.source.keypoints is not None
    assert pair.target.keypoints is not None
    bits = {} if bits is None else bits
    source = _bits(pair.source.keypoints.visible, bits)
    target = _bits(pair.target.keypoints.visible, bits)
    twin = pair.skeleton.twin  # type: ignore[union-attr]
    has_twin = sum(1 << i for i, j in enumerate(twin) if i != j)
    twin_seen = sum(1 << i for i, j in enumerate(twin) if i != j and target >> j & 1)
    found, hidden = source & target, source & ~target
    rows = {
        "11": found & twin_seen,
        "10": found & has_twin & ~twin_seen,
        "1x": found & ~has_twin,
        "01": hidden & twin_seen,
        "00": hidden & ~twin_seen,
    }
    return {case: value.bit_count() for case, value in rows.items()}


def _bits(visible: Tensor, known: dict[int, int]) -> int:
    if id(visible) not in known:
        known[id(visible)] = sum(1 << i for i, seen in enumerate(visible.tolist()) if seen)
    return known[id(visible)]


def shown(data: Sequence[Any], number: int) -> Iterator[tuple[int, Any]]:
    """(index, item) of items spread evenly over the data, with their images and masks read."""
    for i in range(min(number, len(data))):
        index = i * len(data) // min(number, len(data))
        item = data[index]
        if isinstance(item, View):
            yield index, images.load_view(item)
        else:
            source, target = images.load_view(item.source), images.load_view(item.target)
            yield index, replace(item, source=source, target=target)
