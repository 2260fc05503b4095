"""Sampling: several datasets as one training set, and each epoch's share of it for each process."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from zlib import crc32

import numpy as np
from jaxtyping import Int

from geco.data import PairDataset, Pairs
from geco.errors import InputError
from geco.training.settings import SamplingSettings
from geco.types import Pair, View

Datasets = Mapping[str, PairDataset | Sequence[Pair]]  # by name, as in `geco.datasets`
Group = tuple[str, str]  # (dataset, category)
Key = tuple[int, int]  # (epoch, index of the pair): all that a loading process has to know


class Joint(Sequence[Pair]):
    """Several datasets end to end."""

    def __init__(self, datasets: Datasets) -> None:
        if not any(len(pairs) for pairs in datasets.values()):
            raise InputError(f"a training set needs pairs, got none from {', '.join(datasets) or 'no dataset'}")
        self.datasets = {name: as_dataset(pairs) for name, pairs in datasets.items()}
        self._ends = list(accumulate(len(pairs) for pairs in datasets.values()))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]
        name, position = self.locate(index)
        return self.datasets[name][position]

    def locate(self, index: int) -> tuple[str, int]:
        """Name of the dataset that holds this pair, and the pair's position in it."""
        if not 0 <= index < len(self):
            raise IndexError(f"the training set has {len(self)} pairs, there is no number {index}")
        number = bisect_right(self._ends, index)
        name = list(self.datasets)[number]
        return name, index - (self._ends[number] - len(self.datasets[name]))

    def groups(self) -> dict[Group, Int[np.ndarray, "n"]]:
        """Indices of the pairs of each category of each dataset; a category of two datasets is two groups."""
        members: dict[Group, list[int]] = {}
        index = 0
        for name, pairs in self.datasets.items():
            for category in pairs.categories:
                members.setdefault((name, category), []).append(index)
                index += 1
        return {group: np.array(indices) for group, indices in members.items()}


def as_dataset(pairs: PairDataset | Sequence[Pair]) -> PairDataset:
    """The pairs as a dataset, which knows its views and categories without putting a pair together."""
    if isinstance(pairs, PairDataset):
        return pairs
    views: dict[int, View] = {id(view): view for pair in pairs for view in (pair.source, pair.target)}
    place = {key: number for number, key in enumerate(views)}
    rows = [(place[id(pair.source)], place[id(pair.target)]) for pair in pairs]
    return Pairs(tuple(views.values()), rows, [str(pair.category) for pair in pairs], [pair.table for pair in pairs])


def draw(
    groups: Mapping[Group, Int[np.ndarray, "n"]], settings: SamplingSettings, *, seed: int, epoch: int
) -> Int[np.ndarray, "m"]:
    """Indices of an epoch's pairs, in order: the same in every process, another in every epoch.

    Each group has a generator of its own, so adding a dataset does not change what is drawn from the others. Runs of
    `in_a_row` pairs stay within one group (a group's last run may be shorter).
    """
    drawn = []
    for (dataset, category), indices in groups.items():
        most = settings.most(dataset)
        rng = np.random.default_rng((seed, epoch, crc32(f"{dataset}/{category}".encode())))
        few = most is None or len(indices) <= most
        drawn.append(indices if few else rng.choice(indices, most, replace=False))
    rng = np.random.default_rng((seed, epoch))
    if settings.in_a_row == 1:
        return rng.permutation(np.concatenate(drawn))
    runs = [run for indices in drawn for run in _runs(rng.permutation(indices), settings.in_a_row)]
    return np.concatenate([runs[number] for number in rng.permutation(len(runs))])


def _runs(indices: Int[np.ndarray, "n"], length: int) -> list[Int[np.ndarray, "_"]]:
    return [indices[start : start + length] for start in range(0, len(indices), length)]


def share(order: Int[np.ndarray, "m"], *, rank: int, world: int) -> Int[np.ndarray, "s"]:
    """This process's part: disjoint from the others' and as long, so that no process waits for another.

    The last m mod world pairs are left out of this epoch (the next one has another order).
    """
    if not 0 <= rank < world:
        raise InputError(f"rank must lie in 0 … world − 1, got rank {rank} of {world}")
    return order[: len(order) - len(order) % world][rank::world]


class EpochSampler:
    """What a DataLoader takes as `sampler`: the keys of `epoch`'s pairs; set `epoch` before each pass."""

    def __init__(
        self,
        pairs: Joint,
        settings: SamplingSettings,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.settings, self.seed, self.rank, self.world = settings, seed, rank, world
        self.epoch = 0
        self._groups = pairs.groups()

    def __iter__(self) -> Iterator[Key]:
        order = draw(self._groups, self.settings, seed=self.seed, epoch=self.epoch)
        return ((self.epoch, int(index)) for index in share(order, rank=self.rank, world=self.world))

    def __len__(self) -> int:
        drawn = sum(
            min(len(indices), self.settings.most(dataset) or len(indices))
            for (dataset, _), indices in self._groups.items()
        )
        return drawn // self.world
