"""Pairs of a dataset: rows of two view numbers, collected from a list or drawn when there is none."""

from collections.abc import Callable, Sequence
from random import Random
from typing import overload

import torch
from torch import Tensor

from geco import checks
from geco.data.parsing import tolerating
from geco.data.skeletons import unnamed
from geco.errors import InputError
from geco.types import Pair, Skeleton, View


class Pairs(Sequence[Pair]):
    """The pairs of a split, in a fixed order; immutable, picklable, each put together when asked for.

    `views` are the split's views, each once (also those that no pair uses); `categories[i]` is the category
    of pair i, so that a sampler can group the pairs without building them.
    """

    def __init__(
        self,
        views: Sequence[View],
        rows: Sequence[tuple[int, int]] | Tensor,
        categories: Sequence[str],
        skeletons: Sequence[Skeleton],
    ) -> None:
        self.views = views
        self.categories = tuple(categories)
        self._rows = torch.as_tensor(rows, dtype=torch.int32).reshape(-1, 2)
        self._skeletons = tuple(skeletons)
        if not len(self._rows) == len(self.categories) == len(self._skeletons):
            raise InputError(
                "every pair needs a row of two view numbers, a category and a skeleton, "
                f"got {len(self._rows)}, {len(self.categories)} and {len(self._skeletons)} of them"
            )

    def __len__(self) -> int:
        return len(self.categories)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "Pairs": ...
    def __getitem__(self, index: int | slice) -> "Pair | Pairs":
        if isinstance(index, slice):
            return Pairs(self.views, self._rows[index], self.categories[index], self._skeletons[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        source, target = self._rows[index].tolist()
        return Pair(self.views[source], self.views[target], self._skeletons[index], self.categories[index])

    def __repr__(self) -> str:
        return f"Pairs({len(self)} pairs of {len(self.views)} views, {len(set(self.categories))} categories)"


class PairBuilder:
    """Collects listed pairs; each view is made once, and a faulty one takes its pairs with it."""

    def __init__(self, make: Callable[..., View], faults: list[str] | None) -> None:
        self._make, self._faults = make, faults
        self._numbers: dict[tuple[str, ...], int | None] = {}
        self._views: list[View] = []
        self._rows: list[tuple[int, int]] = []
        self._categories: list[str] = []
        self._skeletons: list[Skeleton] = []

    def add(
        self,
        source: tuple[str, ...],
        target: tuple[str, ...],
        category: str,
        skeleton: Skeleton | None = None,
    ) -> None:
        """Add the pair of the views made from these arguments; without a skeleton its points are unnamed."""
        i, j = self._number(source), self._number(target)
        if i is None or j is None:
            return
        views = (self._views[i], self._views[j])
        counts = [len(view.points.visible) for view in views]
        skeleton = unnamed(counts[0]) if skeleton is None else skeleton
        if counts != [len(skeleton)] * 2:
            names = f"{views[0].name} and {views[1].name}"
            raise InputError(f"{names}: expected {len(skeleton)} keypoints in both, got {counts}")
        self._rows.append((i, j))
        self._categories.append(category)
        self._skeletons.append(skeleton)

    def pairs(self) -> Pairs:
        """What has been collected."""
        return Pairs(tuple(self._views), self._rows, self._categories, self._skeletons)

    def _number(self, key: tuple[str, ...]) -> int | None:
        if key not in self._numbers:
            self._numbers[key] = None
            with tolerating(self._faults):
                self._views.append(self._make(*key))
                self._numbers[key] = len(self._views) - 1
        return self._numbers[key]


def draw(
    groups: Sequence[Sequence[int]], *, count: int, seed: int, fits: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """`count` different ordered pairs (all, if there are fewer), both of one group, that `fits` accepts.

    The source is uniform over the members of all groups and the target over the other members of its group,
    so a group's share of the pairs is its share of the members. Only `Random.random` is used: Python promises
    that its sequence stays the same in later versions.
    """
    checks.whole(count, "the number of pairs", least=1)
    random = Random(checks.whole(seed, "the seed")).random
    members = [(i, group) for group in groups if len(group) > 1 for i in group]
    possible = sum(len(group) - 1 for _, group in members)
    if possible <= 4 * count:
        every = [(i, j) for i, group in members for j in group if i != j and fits(i, j)]
        return sorted(every, key=lambda _: random())[:count]
    drawn: dict[tuple[int, int], None] = {}  # a set that remembers the order
    for _ in range(50 * count):  # enough unless hardly any pair fits
        i, group = members[int(random() * len(members))]
        j = group[int(random() * len(group))]
        if i != j and (i, j) not in drawn and fits(i, j):
            drawn[i, j] = None
            if len(drawn) == count:
                break
    return list(drawn)


def sharing(views: Sequence[View], *, shared: int) -> Callable[[int, int], bool]:
    """Whether two views are of different images and at least `shared` keypoints are visible in both."""
    checks.whole(shared, "the least number of shared keypoints", least=0)
    paths = [view.image for view in views]
    visible = [sum(1 << k for k, v in enumerate(view.points.visible.tolist()) if v) for view in views]

    def fits(i: int, j: int) -> bool:
        return paths[i] != paths[j] and (visible[i] & visible[j]).bit_count() >= shared

    return fits
