"""The schedule of a run: how many steps it has, and the learning rate of each."""

import math

from geco.training.settings import TrainConfig


def total_steps(config: TrainConfig, per_epoch: int) -> int:
    """Steps of the whole run."""
    return min(config.epochs * per_epoch, config.steps or config.epochs * per_epoch)


def learning_rate(config: TrainConfig, step: int, total: int) -> float:
    """Learning rate after `step` steps: linear warm-up, then constant, or down along half a cosine."""
    warmup = min(config.warmup, total // 2)
    rise = min(1.0, (step + 1) / (warmup + 1))
    if config.schedule == "constant":
        return config.learning_rate * rise
    done = max(0, step - warmup) / max(1, total - warmup)
    return config.learning_rate * rise * (1 + math.cos(math.pi * done)) / 2
