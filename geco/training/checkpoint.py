"""Checkpoints: what is saved of a run and restored: where it is, weights, optimiser, scaler, random numbers."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from geco.training.build import trainable

THRESHOLD = "bin"  # what the threshold is called in the file


@dataclass
class State:
    """Where a run is."""

    step: int = 0
    validated: int = -1  # step of the last validation
    best: float = math.nan
    best_step: int = -1
    scores: dict[str, float] = field(default_factory=dict)  # of the best step
    threshold: float | None = None  # of the last validation

    def to_dict(self) -> dict[str, Any]:
        """As it is in the file."""
        return {THRESHOLD if name == "threshold" else name: value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "State":
        """The state in a file."""
        return cls(**{"threshold" if name == THRESHOLD else name: value for name, value in values.items()})


def capture(state: State, model: nn.Module, optimizer: Any, scaler: Any = None) -> dict[str, Any]:
    """Everything that decides the next steps, besides configuration and data; `scaler` is that of fp16, if any."""
    return {
        "state": state.to_dict(),
        "weights": {name: value.detach().cpu() for name, value in trainable(model).items()},
        "optimizer": optimizer.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "random": {"torch": torch.get_rng_state(), "python": random.getstate()},
    }


def restore(saved: Mapping[str, Any], model: nn.Module, optimizer: Any, scaler: Any = None) -> State:
    """The captured state; weights, optimiser, scaler and random numbers are put back in place."""
    with torch.no_grad():
        for name, value in trainable(model).items():
            value.copy_(saved["weights"][name])
    optimizer.load_state_dict(saved["optimizer"])
    if scaler is not None:
        scaler.load_state_dict(saved["scaler"])
    torch.set_rng_state(saved["random"]["torch"])
    random.setstate(saved["random"]["python"])
    return State.from_dict(saved["state"])
