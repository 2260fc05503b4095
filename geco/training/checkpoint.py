"""Checkpoints: what is saved of a run and restored: where it is, weights, optimiser, scaler, random numbers."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from geco.errors import InputError
from geco.system import codec, documents, strict, tensors
from geco.training.build import trainable

THRESHOLD = "bin"  # what the threshold is called in the file
MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # that Adam keeps of each weight


@dataclass
class State:
    """The position of a run: its step, and its best validation so far."""

    RENAMED: ClassVar[Mapping[str, str]] = {THRESHOLD: "threshold"}  # in the file

    step: int = 0
    validated: int = -1  # step of the last validation
    best: float = math.nan
    best_step: int = -1
    scores: dict[str, float] = field(default_factory=dict)  # of the best step
    threshold: float | None = None  # of the last validation

    def to_dict(self) -> dict[str, Any]:
        """The state as plain values, as a file holds it."""
        return {THRESHOLD if name == "threshold" else name: value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "State":
        """The state in a file."""
        state = codec.build(cls, values, "state")
        strict.within(state, "step", least=0)
        strict.within(state, "validated", "best_step", least=-1)
        if state.threshold is not None and not math.isfinite(state.threshold):
            raise InputError(f"{THRESHOLD} must be finite, got {state.threshold}")
        return state


def capture(
    state: State, model: nn.Module, optimizer: Any, scaler: Any = None, average: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """Everything that decides the next steps, besides configuration and data.

    `scaler` is that of fp16, `average` the running mean of the weights, if there are such.
    """
    return {
        **({} if average is None else {"average": {name: value.cpu() for name, value in average.items()}}),
        "state": state.to_dict(),
        "weights": {name: value.detach().cpu() for name, value in trainable(model).items()},
        "optimizer": optimizer.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "random": {"torch": torch.get_rng_state(), "python": random.getstate()},
    }


def restore(
    saved: Any,
    model: nn.Module,
    optimizer: Any,
    scaler: Any = None,
    average: Mapping[str, Tensor] | None = None,
    *,
    name: str = "the checkpoint",
) -> State:
    """The captured state; weights, their mean, optimiser, scaler and random numbers are put back in place.

    What does not fit the run is refused in one line before anything has changed.
    """
    try:
        state = State.from_dict(saved["state"])
        weights = trainable(model)
        _check_weights(saved["weights"], weights)
        if average is not None:
            _check_weights(saved["average"], average)
        _check_optimizer(saved["optimizer"], optimizer)
        with torch.no_grad():
            for key, value in weights.items():
                value.copy_(saved["weights"][key])
            for key, value in (average or {}).items():
                value.copy_(saved["average"][key])
        optimizer.load_state_dict(saved["optimizer"])
        if scaler is not None:
            scaler.load_state_dict(saved["scaler"])
        torch.set_rng_state(saved["random"]["torch"])
        random.setstate(saved["random"]["python"])
        return state
    except KeyError as error:
        reason = f"it has no {documents.shown(error.args[0] if error.args else '')}"
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120]
    raise InputError(f"{name} does not fit this run: {reason}; delete it to start anew")


def _check_weights(saved: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    different = sorted(map(str, saved.keys() ^ weights.keys()))
    if different:
        raise InputError(f"other weights are trained, {different[0]} for one")
    for key, value in weights.items():
        if saved[key].shape != value.shape:
            raise InputError(f"{key} has shape {tuple(saved[key].shape)}, expected {tuple(value.shape)}")
    tensors.check_finite(saved, "weights")


def _check_optimizer(saved: Mapping[str, Any], optimizer: Any) -> None:
    """Refuse another optimiser's state: torch finds out only at the next step, or never."""
    current = optimizer.state_dict()
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for mine, other in zip(current["param_groups"], saved["param_groups"], strict=True):
        fixed = (mine.keys() & other.keys()) - {"lr"}  # set at every step
        different = sorted(key for key in fixed if mine[key] != other[key])
        if different or not fixed >= {"params", "betas", "eps"}:
            raise InputError(f"the optimiser has another {', '.join(different) or 'kind'}")
        if not isinstance(other["lr"], float | int) or not math.isfinite(other["lr"]):
            raise InputError(f"the learning rate must be finite, got {documents.shown(other['lr'])}")
    for number, moments in saved["state"].items():
        if set(moments) != MOMENTS or not isinstance(number, int):
            raise InputError(f"the optimiser's state is not Adam's, it has {documents.listed(map(str, moments))}")
        for key, value in moments.items():
            if value.shape not in (weights[number].shape, torch.Size(())):
                raise InputError(f"{key} of weight {number} has shape {tuple(value.shape)}")
        tensors.check_finite(moments, "the optimiser")
