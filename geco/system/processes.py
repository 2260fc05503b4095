"""Processes that share a piece of work, and how the work tells how far it is."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from geco.errors import InputError

Progress = Callable[[str, int, int], None]  # what, done, total


def silent(what: str, done: int, total: int) -> None:
    """Progress that is not shown."""


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, and how they wait for each other (accelerate knows)."""

    index: int = 0
    count: int = 1
    wait: Callable[[], None] = lambda: None

    @classmethod
    def launched(cls) -> "Processes":
        """This process among those that `accelerate launch` or torchrun started; alone otherwise."""
        if launched_count() == 1:
            return cls()
        import torch
        from accelerate import PartialState

        # Without a GPU, torchrun's processes would otherwise each take itself for the only one.
        state = PartialState(cpu=not torch.cuda.is_available())
        return cls(state.process_index, state.num_processes, state.wait_for_everyone)


def launched_count() -> int:
    """How many processes `accelerate launch` or torchrun started."""
    return _variable("WORLD_SIZE", 1, least=1)


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    return _variable("RANK", 0, least=0) == 0


def _variable(name: str, default: int, *, least: int) -> int:
    """A number that a launcher left in the environment."""
    text = os.environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdigit() and int(text[:9]) >= least):
        raise InputError(f"the environment variable {name} must be a whole number from {least} on, got {text[:40]!r}")
    return int(text)
