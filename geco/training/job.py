"""A training job: the parts of a run put together: model, optimiser, batches, validation and folder."""

import copy
import itertools
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from geco import losses
from geco.errors import InputError
from geco.models import Geco, model_card
from geco.system import Processes, devices, processes
from geco.training import checkpoint, validation
from geco.training.averaging import Average
from geco.training.batches import loader, parts_of
from geco.training.build import parameter_groups, speed_up_attention, trainable
from geco.training.checkpoint import State
from geco.training.folder import VALIDATION, RunFolder
from geco.training.sampling import Datasets
from geco.training.schedule import learning_rate
from geco.training.settings import TrainConfig
from geco.training.setup import set_up
from geco.training.step import Stepper, StepValues
from geco.types import Pair

USELESS_STEPS = 20  # without a pair to compare, after which a run is given up


class Job:
    """Everything that a run is made of, resumed at the step that its folder notes."""

    def __init__(self, config: TrainConfig, train: Datasets, valid: Datasets, folder: str | Path) -> None:
        self.config = config
        self.accelerator = _accelerator(config)
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        setup = set_up(config, train, valid, folder, rank=rank, world=world)
        self.counts, self.valid, self.keys = setup.counts, setup.valid, setup.keys
        self.total, self.model = setup.total, setup.model
        self.run = RunFolder(folder, writes=self.accelerator.is_main_process, tensorboard=config.tensorboard)
        self.run.prepare(config, self.counts, room=_room(self.model, config))
        self.loader = loader(setup.pairs, self.keys, config)
        groups = parameter_groups(self.model, config.layer_decay)
        optimizer = torch.optim.Adam(groups, lr=config.learning_rate)
        self.average = Average(trainable(self.model), config.average) if config.average else None
        wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        speed_up_attention(self.model, config)
        self.stepper = Stepper(
            wrapped,
            self.optimizer,
            losses.choose(config.loss, setup.teacher and setup.teacher.to(self.accelerator.device)),
            self.accelerator,
            clip=config.clip,
            pairing=config.pairing,
            side=config.encoder.size,
        )
        self._useless = 0  # steps so far without a pair to compare; −1 once there was one
        self.state = State()
        self._resume()

    # --- steps --------------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[list[Pair]]:
        """This process's parts of every step that is left."""
        self.keys.start = self.state.step
        while self.keys.start < self.total:
            yield from itertools.islice(parts_of(self.loader), self.total - self.keys.start)
            self.keys.start = (self.keys.epoch + 1) * len(self.keys)

    def take(self, parts: list[Pair]) -> StepValues:
        """Take the next step with these parts; raises `DivergedError` before anything has changed."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.state.step, self.total) * group.get("scale", 1.0)
        values = self.stepper(parts)
        self.state.step += 1
        if self.average is not None:
            self.average.update(self.state.step)
        self._check_compared(values)
        return values

    def _check_compared(self, values: StepValues) -> None:
        """Refuse to continue if no pair of the first steps could be compared: such a run saves what it began with."""
        self._useless = -1 if self._useless < 0 or values.counts["skipped"] < values.pairs else self._useless + 1
        if self._useless == min(USELESS_STEPS, len(self.keys)):
            raise InputError(
                f"no pair of the first {self._useless} steps could be compared: their masks are empty at "
                f"{self.config.encoder.size} pixels, or no keypoint is visible in both images; see `geco data check`"
            )

    def log(self, values: StepValues, *, seconds: float, waited: float) -> dict[str, Any]:
        """Log the step just taken; what was logged."""
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
            "memory": devices.peak_memory(self.accelerator.device),
        }
        self.run.log(record)
        return record

    def agreed(self, stop: bool) -> bool:
        """Whether any process was told to stop."""
        flag = torch.tensor(float(stop), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, reduction="sum"))

    # --- validation ---------------------------------------------------------------------------------------------------

    def due(self, step: int) -> bool:
        """Whether this is a step to validate after."""
        every = self.config.validate_every or len(self.keys)
        return bool(self.valid) and (step % every == 0 or step == self.total)

    def exhausted(self) -> bool:
        """Whether none of the last `patience` validations was better than the best one before them."""
        patience, state = self.config.patience, self.state
        if patience is None or state.best_step < 0:
            return False
        every = self.config.validate_every or len(self.keys)
        return state.validated - state.best_step >= patience * every

    def validate(self) -> dict[str, Any]:
        """Evaluate the model, save it if it is the best so far, draw; what was logged."""
        with self._averaged():
            return self._validate()

    def _averaged(self) -> AbstractContextManager[None]:
        """Within it the model has the weights that are evaluated and saved."""
        return nullcontext() if self.average is None else self.average.in_place()

    def _validate(self) -> dict[str, Any]:
        state, accelerator = self.state, self.accelerator
        started = time.perf_counter()
        scores = validation.validate(
            self.model,
            self.valid,
            threshold=self.model.threshold,
            folder=self.run.path / VALIDATION,
            processes=Processes(accelerator.process_index, accelerator.num_processes, accelerator.wait_for_everyone),
        )
        record = {"kind": "validation", "step": state.step, **scores, "seconds": time.perf_counter() - started}
        self.run.log(record)
        state.validated, state.threshold = state.step, scores.pop(checkpoint.THRESHOLD)
        self._calibrate()
        if not state.best >= scores["PCK"]:
            state.best, state.best_step, state.scores = scores["PCK"], state.step, scores
            self._save_model("best")
        if self.run.writes:
            pair = next(iter(self.valid.values()))[0]
            title = f"step {state.step}, mean PCK@0.1 {scores['PCK']:.1f}"
            figure = validation.draw(self.model, pair, threshold=self.model.threshold, title=title)
            self.run.save_picture(f"step-{state.step:06d}", figure)
            self.run.refresh_curves()
        return record

    def _calibrate(self) -> None:
        if self.config.calibrate and self.state.threshold is not None:
            self.model.config = replace(self.model.config, threshold=self.state.threshold)

    # --- to and from the folder ---------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the last model, the checkpoint, and now and then the curves."""
        if self.run.writes:
            with self._averaged():
                self._save_model("last")
            scaler, average = self.accelerator.scaler, self._mean()
            self.run.save_checkpoint(checkpoint.capture(self.state, self.model, self.optimizer, scaler, average))
            self.run.refresh_curves()

    def _resume(self) -> None:
        """Go to where the folder says the run was, in every process."""
        shared = [self.run.read_checkpoint() if self.run.writes else None]
        if self.accelerator.num_processes > 1:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(shared)
        saved = shared[0]
        if saved is None:
            self.run.rewind(-1)
            self.save()  # a run that is killed at once can be resumed too, and what cannot be written is known by now
            return
        scaler, average = self.accelerator.scaler, self._mean()
        name = str(self.run.checkpoint_file)
        self.state = checkpoint.restore(saved, self.model, self.optimizer, scaler, average, name=name)
        self.run.rewind(self.state.step)
        self._calibrate()

    def _mean(self) -> dict[str, Tensor] | None:
        return None if self.average is None else self.average.values

    def _save_model(self, name: str) -> None:
        """An adapter, or the whole encoder if parts of it were trained."""
        if self.run.writes:
            model = copy.deepcopy(self.model).merge() if self.config.unfreeze else self.model
            self.run.save_model(name, model, self._card())

    def _card(self) -> str:
        model, state, config = self.model, self.state, self.config
        card = model_card(self.run.path.name, model.config, note=model.note, parameters=model.trainable())
        rows = "\n".join(f"| {name} | {count:,} |" for name, count in self.counts.items())
        scores = ", ".join(f"{name} {value:.1f}" for name, value in state.scores.items())
        best = f"Best at step {state.best_step}, validation PCK@0.1 in %: {scores}." if scores else ""
        return (
            f"{card}\n## Training\n\nStep {state.step} of {self.total}: {_named(config)}, batches of "
            f"{config.batch_size} pairs, learning rate {config.learning_rate:g}, seed {config.seed}. "
            f"{best} All settings are in the run's `config.json`.\n\n| pairs available | |\n|---|---|\n{rows}\n"
        )


def _named(config: TrainConfig) -> str:
    """The loss of a run in words."""
    taught = f" from {config.loss.distill.teacher} at {config.augment.size} px" if config.loss.name == "distill" else ""
    return f"{config.loss.name} loss{taught}"


def _accelerator(config: TrainConfig) -> Any:
    from accelerate import Accelerator

    # Started by torchrun on a machine without a GPU, each process would otherwise take itself for the only one.
    without_gpu = processes.launched_count() > 1 and not torch.cuda.is_available()
    return Accelerator(cpu=config.cpu or without_gpu, mixed_precision=config.precision)


def _room(model: Geco, config: TrainConfig) -> int:
    """Bytes a run writes at most at a time: a checkpoint (weights and two moments), two models, and their drafts."""
    trained = sum(value.nbytes for value in trainable(model).values())
    whole = sum(value.nbytes for value in model.parameters()) if config.unfreeze else trained
    return 2 * (3 * trained + 2 * whole) + 8_000_000  # and log and pictures
