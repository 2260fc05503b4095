"""Batches: keys of the sampler → pairs read, augmented and stacked; what a training loop iterates over."""

import gc
import math
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from geco import images
from geco.batching import collate
from geco.errors import FileError, GecoError, InputError
from geco.images import ImageLimits
from geco.training import augment
from geco.training.sampling import EpochSampler, Joint, Key
from geco.training.settings import AugmentSettings, SamplingSettings, TrainConfig
from geco.types import Pair, View

LIMITS, SAMPLING = ImageLimits(), SamplingSettings()


class TrainingPairs(Dataset[Pair]):
    """Pairs by key (epoch, index), ready to be stacked; seed and key alone decide what comes back.

    `masks=False` (for losses that need none) leaves mask files unread; else a missing mask is an error. `resize` is
    the encoder's.
    """

    def __init__(
        self,
        pairs: Joint,
        settings: AugmentSettings,
        *,
        seed: int,
        masks: bool = True,
        sampling: SamplingSettings = SAMPLING,
        resize: str = "bilinear",
        limits: ImageLimits = LIMITS,
    ) -> None:
        self.pairs, self.settings, self.seed, self.masks, self.limits = pairs, settings, seed, masks, limits
        self.sampling, self.resize = sampling, resize

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Key) -> Pair:
        epoch, index = key
        dataset, _ = self.pairs.locate(index)
        pair = self.pairs[index]
        draws: dict[str, Any] = {"seed": self.seed, "epoch": epoch, "index": index, "resize": self.resize}
        with_itself = augment.generator(self.seed, epoch, index, 3).random() < self.sampling.self_pairs
        if with_itself and dataset not in self.settings.plain:
            view = self._read(pair.source, dataset)
            return augment.self_pair(view, self.settings, points=self.sampling.self_points, **draws)
        pair = replace(pair, source=self._read(pair.source, dataset), target=self._read(pair.target, dataset))
        if dataset in self.settings.plain:
            return augment.plain(pair, self.settings, resize=self.resize)
        return augment.augment(pair, self.settings, **draws)

    def _read(self, view: View, dataset: str) -> View:
        if not self.masks:
            view = replace(view, mask=None)
        elif view.mask is None:
            raise InputError(f"{dataset}: {view.label} has no foreground mask; {ways_to_masks(dataset)}")
        return images.load_view(view, limits=self.limits)


def ways_to_masks(dataset: str) -> str:
    """What to do about missing masks. (The transport loss reads them whatever its marginals are.)"""
    return (
        f"make masks with `geco masks {dataset} ROOT`, name their folder with --masks {dataset}=FOLDER, take the boxes "
        f"with --masks {dataset}=box, or train with a loss that needs none (--loss contrastive)"
    )


@dataclass(frozen=True)
class Failure:
    """A mistake that a loading process met: raised there, torch would wrap it into a page of traceback."""

    error: GecoError


class _Reporting(Dataset[Pair | Failure]):
    """The pairs, or what is wrong with them."""

    def __init__(self, pairs: TrainingPairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Key) -> Pair | Failure:
        try:
            return self.pairs[key]
        except GecoError as error:
            return Failure(error)


class StepKeys:
    """What the loader takes as batch sampler: keys of this process's share of every step, from step `start` on."""

    def __init__(self, pairs: Joint, config: TrainConfig, *, rank: int = 0, world: int = 1) -> None:
        if config.batch_size % world:
            raise InputError(
                f"batch_size counts the pairs of all processes, expected a multiple of {world}, got {config.batch_size}"
            )
        self.sampler = EpochSampler(pairs, config.sampling, seed=config.seed, rank=rank, world=world)
        self.size = config.batch_size // world
        self.start = 0
        if not len(self.sampler):
            raise InputError(f"{world} processes need at least {world} pairs, got {len(pairs)}")

    @property
    def epoch(self) -> int:
        """The epoch that `start` lies in."""
        return self.start // len(self)

    def __len__(self) -> int:
        return math.ceil(len(self.sampler) / self.size)

    def __iter__(self) -> Iterator[list[Key]]:
        self.sampler.epoch = self.epoch
        keys = list(self.sampler)
        for step in range(self.start % len(self), len(self)):
            yield keys[step * self.size : (step + 1) * self.size]


def loader(pairs: Joint, keys: StepKeys, config: TrainConfig) -> Any:
    """What gives each step's pairs of this process, in the parts they are encoded in."""
    data = TrainingPairs(
        pairs,
        config.augment,
        seed=config.seed,
        masks=config.needs_masks,
        sampling=config.sampling,
        resize=config.encoder.resize,
    )
    return DataLoader(
        _Reporting(data),
        batch_sampler=keys,
        collate_fn=partial(_in_parts, size=math.ceil(keys.size / config.accumulate)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        worker_init_fn=begin_loading,
        generator=torch.Generator(),  # the loader draws seeds for its workers: not from the run's own numbers
    )


def parts_of(batches: Iterable[list[Pair] | Failure]) -> Iterator[list[Pair]]:
    """The parts of every step; a mistake met by a loading process is raised here as it was there."""
    try:
        for batch in batches:
            if isinstance(batch, Failure):
                raise batch.error
            yield batch
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise FileError(
            "a process that loads pairs was killed, most likely for lack of memory; use fewer workers or smaller "
            "batches, or workers=0 to see where"
        ) from None


def _in_parts(pairs: list[Pair | Failure], *, size: int) -> list[Pair] | Failure:
    whole: list[Pair] = []
    for pair in pairs:
        if isinstance(pair, Failure):
            return pair
        whole.append(pair)
    return [collate(whole[start : start + size]) for start in range(0, len(whole), size)]


def begin_loading(worker: int) -> None:
    """What a process that loads pairs does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself decides when to end
    # What the run left to the garbage collector is not this process's: a frame of a video would wait for ever for
    # threads that were not copied with it.
    gc.freeze()
