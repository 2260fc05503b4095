"""A training job: model, optimiser, batches, validation and run folder put together; it saves and restores itself."""

import copy
import itertools
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from geco import losses, validation, weights
from geco.batches import StepKeys, loader, total_steps
from geco.benchmarks._features import Processes
from geco.cards import model_card
from geco.config.training import TrainConfig
from geco.model import Geco, load_backbone
from geco.runs import VALIDATION, RunFolder
from geco.sampling import Joint
from geco.steps import Stepper, StepValues
from geco.types import Pair

Datasets = Mapping[str, Sequence[Pair]]


@dataclass
class State:
    """Where a run is."""

    step: int = 0
    validated: int = -1  # step of the last validation
    best: float = math.nan
    best_step: int = -1
    scores: dict[str, float] = field(default_factory=dict)  # of the best step
    bin: float | None = None  # found by the last validation


class Job:
    """Everything a run is made of, put together, and put back to where its folder says it was."""

    def __init__(self, config: TrainConfig, train: Datasets, valid: Datasets, folder: str | Path) -> None:
        self.config = config
        self.accelerator = _accelerator(config)
        joint = Joint(train)
        self.data = {f"{name}/{category}": len(rows) for (name, category), rows in joint.groups().items()}
        self.valid = {
            name: validation.subset(pairs, config.validation_pairs) for name, pairs in valid.items() if len(pairs)
        }
        if config.calibrate and not self.valid:
            raise ValueError(
                "calibrate finds the bin on validation pairs, there are none; add a dataset with a split val, "
                "or set calibrate=false"
            )
        self.keys = StepKeys(joint, config, rank=self.accelerator.process_index, world=self.accelerator.num_processes)
        self.total = total_steps(config, len(self.keys))
        self.model = build(config)
        self.run = RunFolder(folder, writes=self.accelerator.is_main_process, tensorboard=config.tensorboard)
        self.run.prepare(config, self.data, room=_room(self.model, config))
        self.loader = loader(joint, self.keys, config)
        optimizer = torch.optim.Adam(trainable(self.model).values(), lr=config.learning_rate)
        wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        loss = _choose_loss(config)(config.settings)
        self.stepper = Stepper(
            wrapped, self.optimizer, loss, self.accelerator, clip=config.clip, pairing=config.pairing
        )
        self.state = State()
        self._restore()

    def take(self, parts: list[Pair]) -> StepValues:
        """Take the next step with these parts; raises `DivergedError` before anything has changed."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.state.step, self.total)
        values = self.stepper(parts)
        self.state.step += 1
        return values

    def batches(self) -> Iterator[list[Pair]]:
        """This process's parts of every step that is left."""
        self.keys.start = self.state.step
        while self.keys.start < self.total:
            yield from itertools.islice(self.loader, self.total - self.keys.start)
            self.keys.start = (self.keys.epoch + 1) * len(self.keys)

    def due(self, step: int) -> bool:
        """Whether this is a step to validate after."""
        every = self.config.validate_every or len(self.keys)
        return bool(self.valid) and (step % every == 0 or step == self.total)

    def validate(self) -> dict[str, Any]:
        """Judge the model, keep it if it is the best so far, draw; what was found."""
        state, processes = self.state, self.accelerator
        shared = Processes(processes.process_index, processes.num_processes, processes.wait_for_everyone)
        started = time.perf_counter()
        found = validation.validate(
            self.model,
            self.valid,
            bin=self.model.config.bin,
            folder=self.run.path / VALIDATION,
            processes=shared,
        )
        record = {"kind": "validation", "step": state.step, **found, "seconds": time.perf_counter() - started}
        self.run.log(record)
        state.validated, state.bin = state.step, found.pop("bin")
        self._calibrate()
        if not state.best >= found["PCK"]:
            state.best, state.best_step, state.scores = found["PCK"], state.step, found
            self.run.save_model("best", self._exported(), self._card())
        if self.run.writes:
            pair = next(iter(self.valid.values()))[0]
            title = f"step {state.step}, mean PCK@0.1 {found['PCK']:.1f}"
            drawn = validation.picture(self.model, pair, bin=self.model.config.bin, title=title)
            self.run.save_picture(f"step-{state.step:06d}", drawn)
            self.run.draw_curves()
        return record

    def log(self, values: StepValues, *, seconds: float, waited: float) -> dict[str, Any]:
        """Log a step; what was logged."""
        record = {
            "kind": "step",
            "step": self.state.step,
            "epoch": (self.state.step - 1) // len(self.keys),
            "loss": values.loss,
            **{f"loss {name}": value for name, value in values.terms.items()},
            **{f"entries {name}": count for name, count in values.counts.items() if name in values.terms},
            "skipped": values.counts["skipped"] / values.pairs,  # share of the pairs
            "clamped": values.counts["clamped"],
            "gradient": values.gradient,
            "learning_rate": learning_rate(self.config, self.state.step - 1, self.total),
            "images_per_second": values.images / seconds,
            "waiting": waited / seconds,  # share of the time spent waiting for pairs
            "memory": peak_memory(self.accelerator.device),
        }
        self.run.log(record)
        return record

    def agreed(self, stop: bool) -> bool:
        """Whether any process was told to stop."""
        flag = torch.tensor(float(stop), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, reduction="sum"))

    # --- to and from the folder ---------------------------------------------------------------------------------

    def save(self) -> None:
        """The checkpoint, the last model, and the curves."""
        if not self.run.writes:
            return
        scaler = self.accelerator.scaler
        self.run.save_model("last", self._exported(), self._card())
        self.run.save_checkpoint(
            {
                "state": vars(self.state),
                "weights": {name: value.detach().cpu() for name, value in trainable(self.model).items()},
                "optimizer": self.optimizer.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "random": {"torch": torch.get_rng_state(), "python": random.getstate()},
            }
        )
        self.run.draw_curves()

    def _restore(self) -> None:
        found = [self.run.read_checkpoint() if self.run.writes else None]
        if self.accelerator.num_processes > 1:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(found)
        saved = found[0]
        if saved is None:
            self.run.rewind(-1)
            self.save()  # a run that is killed at once goes on too, and what cannot be written is known by now
            return
        self.state = State(**saved["state"])
        self.run.rewind(self.state.step)
        with torch.no_grad():
            for name, value in trainable(self.model).items():
                value.copy_(saved["weights"][name])
        self.optimizer.load_state_dict(saved["optimizer"])
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(saved["scaler"])
        self._calibrate()
        torch.set_rng_state(saved["random"]["torch"])
        random.setstate(saved["random"]["python"])

    def _calibrate(self) -> None:
        if self.config.calibrate and self.state.bin is not None:
            self.model.config = replace(self.model.config, bin=self.state.bin)

    def _exported(self) -> Geco:
        """The model as it is saved: an adapter, or the whole encoder if parts of it were trained."""
        return copy.deepcopy(self.model).merge() if self.config.unfreeze else self.model

    def _card(self) -> str:
        model, state = self.model, self.state
        plain = model_card(self.run.path.name, model.config, note=model.note, parameters=model.trainable())
        rows = "\n".join(f"| {name} | {count:,} |" for name, count in self.data.items())
        scores = ", ".join(f"{name} {value:.1f}" for name, value in state.scores.items())
        judged = f"Best at step {state.best_step}, validation PCK@0.1 in %: {scores}." if scores else ""
        return (
            f"{plain}\n## Training\n\nStep {state.step} of {self.total}: {self.config.loss} loss, batches of "
            f"{self.config.batch_size} pairs, learning rate {self.config.learning_rate:g}, seed {self.config.seed}. "
            f"{judged} All settings are in the run's `config.json`.\n\n| pairs at hand | |\n|---|---|\n{rows}\n"
        )


# --- the model ----------------------------------------------------------------------------------------------


def build(config: TrainConfig) -> Geco:
    """The model at step 0: its backbone, or the adapter it starts from.

    What is trained wants gradients, everything else does not.
    """
    place = weights.locate(config.encoder.backbone)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = Geco(
            load_backbone(place, layer=config.encoder.layer, norm=config.encoder.norm),
            config.encoder,
            name="geco",
            note=place.note,
        )
    if config.start is not None:
        _start(model, config.start)
    blocks = transformer_blocks(model)
    if config.unfreeze > len(blocks):
        raise ValueError(f"unfreeze must be at most {len(blocks)}, the blocks there are, got {config.unfreeze}")
    for block in list(blocks)[len(blocks) - config.unfreeze :]:
        block.requires_grad_(True)
    if config.checkpointing:
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


def _start(model: Geco, name: str) -> None:
    folder = weights.find_adapter(name)
    if folder is None:
        raise ValueError(f"{name} is no adapter to start from; expected a name, a folder or a hub id of one")
    made_for = weights.adapter_config(folder)
    other = [
        f"{key} {getattr(made_for, key)}, not {getattr(model.config, key)}"
        for key in ("backbone", "layer", "lora")
        if getattr(made_for, key) != getattr(model.config, key)
    ]
    if other:
        raise ValueError(f"{name} is an adapter for another encoder: {'; '.join(other)}")
    model.load_adapter(folder)


def transformer_blocks(model: nn.Module) -> nn.ModuleList:
    """The encoder's blocks: its longest list of modules."""
    return max((module for module in model.modules() if isinstance(module, nn.ModuleList)), key=len)


def learning_rate(config: TrainConfig, step: int, total: int) -> float:
    """Of the step after `step` steps: up in a line over the warm-up, then constant, or down along half a cosine."""
    warmup = min(config.warmup, total // 2)
    rise = min(1.0, (step + 1) / (warmup + 1))
    if config.schedule == "constant":
        return config.learning_rate * rise
    done = max(0, step - warmup) / max(1, total - warmup)
    return config.learning_rate * rise * (1 + math.cos(math.pi * done)) / 2


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The weights that are trained, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def _accelerator(config: TrainConfig) -> Any:
    from accelerate import Accelerator

    # Started by torchrun on a machine without a GPU, each process would otherwise take itself for the only one.
    without_gpu = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not torch.cuda.is_available()
    return Accelerator(cpu=config.cpu or without_gpu, mixed_precision=config.precision)


def _choose_loss(config: TrainConfig) -> Any:
    if config.loss not in losses.LOSSES:
        raise ValueError(f"there is no loss {config.loss!r}; choices: {', '.join(losses.LOSSES)}")
    return losses.LOSSES[config.loss]


def _room(model: Geco, config: TrainConfig) -> int:
    """Bytes a run writes at most at a time: a checkpoint (weights and two moments), two models, and their drafts."""
    trained = sum(value.nbytes for value in trainable(model).values())
    whole = sum(value.nbytes for value in model.parameters()) if config.unfreeze else trained
    return 2 * (3 * trained + 2 * whole) + 8_000_000  # and log and pictures


def peak_memory(device: torch.device) -> int:
    """Most bytes held so far: of the GPU's memory, or else of the process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if os.uname().sysname == "Darwin" else most * 1024
