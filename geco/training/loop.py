"""The training loop: pairs → model → loss → step, until the last one; at times a validation and a checkpoint."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geco.system import locks, processes
from geco.training.job import Job
from geco.training.sampling import Datasets
from geco.training.settings import TrainConfig
from geco.training.step import DivergedError
from geco.types import Pair

Watch = Callable[[int, int, Mapping[str, Any]], None]  # step, steps in all, what was logged


def unwatched(step: int, total: int, record: Mapping[str, Any]) -> None:
    """Take the progress of a run, and show nothing."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    step: int
    total: int
    best: float  # mean PCK@0.1 in % on the validation sets; nan without them
    best_step: int
    stopped: bool = False  # before its last step, because validations had become no better (`patience`)

    @property
    def finished(self) -> bool:
        """False if it was interrupted; the same call resumes it."""
        return self.stopped or self.step == self.total


def fit(
    config: TrainConfig,
    train: Datasets,
    valid: Datasets,
    folder: str | Path,
    *,
    watch: Watch = unwatched,
) -> Outcome:
    """Train, or resume the run that the folder holds; `geco.load(folder)` gives the best model, or the last.

    Under `accelerate launch` or torchrun every process calls this with the same arguments. SIGINT and SIGTERM save
    and end the run; `DivergedError` names the pair whose loss is not a number and leaves the weights before it. One
    run at a time has a folder.
    """
    first = processes.is_first()
    with locks.hold(folder, what="training") if first else nullcontext():
        return _fit(Job(config, train, valid, folder), watch)


def _fit(job: Job, watch: Watch) -> Outcome:
    """The steps that are left of a job."""
    if job.due(job.state.step) and job.state.validated != job.state.step:
        watch(job.state.step, job.total, job.validate())
    with StopSignals() as signals:
        for parts, waited in timed(iter(()) if job.exhausted() else job.batches()):
            started = time.perf_counter()
            try:
                values = job.take(parts)
            except DivergedError as error:
                job.save()
                job.run.draw_curves()
                raise DivergedError(
                    f"step {job.state.step + 1}: {error}; {job.run.path} keeps step {job.state.step}"
                ) from None
            record = job.log(values, seconds=time.perf_counter() - started + waited, waited=waited)
            watch(job.state.step, job.total, record)
            stop = job.agreed(signals.received)
            if job.due(job.state.step) and not stop:
                watch(job.state.step, job.total, job.validate())
                stop = job.agreed(signals.received)
            stop = stop or job.exhausted()
            if job.state.step % job.config.save_every == 0 or job.state.step == job.total or stop:
                job.save()
            if stop:
                break
    job.run.draw_curves()
    state = job.state
    return Outcome(job.run.path, state.step, job.total, state.best, state.best_step, stopped=job.exhausted())


def timed(batches: Iterator[list[Pair]]) -> Iterator[tuple[list[Pair], float]]:
    """Each batch with the seconds it was waited for."""
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch, time.perf_counter() - started


class StopSignals:
    """Within it the first SIGINT or SIGTERM is only noted; a second one has its usual effect."""

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        self.received = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
