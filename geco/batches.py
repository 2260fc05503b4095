"""Batches: which pairs each step takes, on which process, in how many parts; a run can go on at any step."""

import math
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

from geco.config.training import TrainConfig
from geco.loading import TrainingPairs, collate
from geco.sampling import EpochSampler, Joint, Key
from geco.types import Pair


class StepKeys:
    """What the loader takes as batch sampler: keys of this process's share of every step, from step `start` on."""

    def __init__(self, pairs: Joint, config: TrainConfig, *, rank: int = 0, world: int = 1) -> None:
        if config.batch_size % world:
            raise ValueError(
                f"batch_size counts the pairs of all processes, expected a multiple of {world}, got {config.batch_size}"
            )
        self.sampler = EpochSampler(pairs, config.sampling, seed=config.seed, rank=rank, world=world)
        self.size = config.batch_size // world
        self.start = 0
        if not len(self.sampler):
            raise ValueError(f"{world} processes need at least as many pairs, got {len(pairs)}")

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


def total_steps(config: TrainConfig, per_epoch: int) -> int:
    """Steps of the whole run."""
    return min(config.epochs * per_epoch, config.steps or config.epochs * per_epoch)


def loader(pairs: Joint, keys: StepKeys, config: TrainConfig) -> Any:
    """What gives each step's pairs of this process, in the parts they are encoded in."""
    masks = config.loss == "transport" or config.sampling.self_pairs > 0
    data = TrainingPairs(pairs, config.augment, seed=config.seed, masks=masks, sampling=config.sampling)
    return DataLoader(
        data,
        batch_sampler=keys,
        collate_fn=partial(_in_parts, size=math.ceil(keys.size / config.accumulate)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        worker_init_fn=_ignore_interrupts,
        generator=torch.Generator(),  # the loader draws seeds for its workers: not from the run's own numbers
    )


def _in_parts(pairs: list[Pair], *, size: int) -> list[Pair]:
    return [collate(pairs[start : start + size]) for start in range(0, len(pairs), size)]


def _ignore_interrupts(worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself decides when to end
