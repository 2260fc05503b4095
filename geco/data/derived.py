"""Datasets made from a dataset: some of its entries, or its views with other masks; as lazy and picklable as it is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from geco import checks, masks
from geco.data.contract import PairDataset, PartDataset, views_of
from geco.errors import InputError
from geco.types import Pair, View

Change = Callable[[View], View]


def annotation_key(view: View) -> tuple[object, ...]:
    """Equal for views of one image with one annotation: box and keypoints."""
    points = view.keypoints
    marks = None if points is None else (points.xy.numpy().tobytes(), points.visible.numpy().tobytes())
    return view.identity, None if view.box is None else tuple(view.box.tolist()), marks


# --- some of the entries --------------------------------------------------------------------------


def spread(dataset: PairDataset | PartDataset, count: int) -> PairDataset | PartDataset:
    """`count` entries spread evenly over a dataset (all, if there are fewer): entry i is its number i·len // count."""
    if checks.whole(count, "the number of entries") < 1:
        raise InputError(f"expected at least one entry, got {count}")
    if count >= len(dataset):
        return dataset
    numbers = [i * len(dataset) // count for i in range(count)]
    return SelectedParts(dataset, numbers) if isinstance(dataset, PartDataset) else SelectedPairs(dataset, numbers)


class SelectedPairs(Sequence[Pair]):
    """The pairs of these numbers."""

    def __init__(self, pairs: PairDataset, numbers: Sequence[int]) -> None:
        self._pairs, self._numbers = pairs, tuple(numbers)
        self.categories = tuple(pairs.categories[number] for number in numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]
        return self._pairs[self._numbers[index]]

    @cached_property
    def views(self) -> Sequence[View]:
        """The views that the selected pairs use, each once."""
        ends: dict[tuple[object, ...], tuple[int, int]] = {}
        for number in self._numbers:
            pair = self._pairs[number]
            for end, view in enumerate((pair.source, pair.target)):
                ends.setdefault(annotation_key(view), (number, end))
        return _Ends(self._pairs, tuple(ends.values()))


class _Ends(Sequence[View]):
    """Sources (0) and targets (1) of pairs, by (number of the pair, which end)."""

    def __init__(self, pairs: PairDataset, ends: Sequence[tuple[int, int]]) -> None:
        self._pairs, self._ends = pairs, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> View:  # type: ignore[override]
        number, end = self._ends[index]
        pair = self._pairs[number]
        return pair.target if end else pair.source


class SelectedParts(Sequence[View]):
    """The views of these numbers."""

    def __init__(self, parts: PartDataset, numbers: Sequence[int]) -> None:
        self._parts, self._numbers, self.listed = parts, tuple(numbers), parts.listed
        self.categories = tuple(parts.categories[number] for number in numbers)
        self.skeletons = {category: parts.skeletons[category] for category in sorted(set(self.categories))}

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> View:  # type: ignore[override]
        return self._parts[self._numbers[index]]


# --- other masks ----------------------------------------------------------------------------------


def attach_masks(
    dataset: PairDataset | PartDataset, source: str | Path, *, keep_own: bool = False
) -> PairDataset | PartDataset:
    """The dataset with the masks of a folder that `geco masks` made, or, if `source` is "box", its boxes as masks.

    A mask or box that is missing is named at once. `keep_own`: only where the dataset ships no mask; "own-or-box" as
    `source` is "box" with that.
    """
    change: Change
    source = checks.path(source, "masks")
    if source in (Path("box"), Path("own-or-box")):
        keep_own = keep_own or source == Path("own-or-box")
        change = partial(_boxed, keep_own=keep_own)
        for view in views_of(dataset):
            change(view)
    else:
        masks.check_folder(views_of(dataset), source, keep_own=keep_own)
        change = partial(masks.attach, folder=source, keep_own=keep_own)
    return ChangedParts(dataset, change) if isinstance(dataset, PartDataset) else ChangedPairs(dataset, change)


def _boxed(view: View, *, keep_own: bool) -> View:
    return view if keep_own and view.mask is not None else replace(view, mask=masks.box(view))


class ChangedViews(Sequence[View]):
    """Views, each changed when it is asked for."""

    def __init__(self, views: Sequence[View] | PartDataset, change: Change) -> None:
        self._views, self._change = views, change

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, index: int) -> View:  # type: ignore[override]
        return self._change(self._views[index])


class ChangedParts(ChangedViews):
    """Views with part maps, each changed when it is asked for."""

    def __init__(self, parts: PartDataset, change: Change) -> None:
        super().__init__(parts, change)
        self.categories, self.skeletons, self.listed = parts.categories, parts.skeletons, parts.listed


class ChangedPairs(Sequence[Pair]):
    """Pairs whose views are changed when a pair is asked for."""

    def __init__(self, pairs: PairDataset, change: Change) -> None:
        self._pairs, self._change, self.categories = pairs, change, pairs.categories

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]
        pair = self._pairs[index]
        return replace(pair, source=self._change(pair.source), target=self._change(pair.target))

    @property
    def views(self) -> Sequence[View]:
        """The views of the split, each once."""
        return ChangedViews(self._pairs.views, self._change)
