"""Checks of what a user gives: numbers, whole numbers, switches, choices, paths and files."""

import math
import numbers
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geco.errors import FileError, InputError
from geco.system import documents, signatures

shown = documents.shown  # one way to show a value in a message
foreign = signatures.foreign


def number(
    value: Any, what: str, *, least: float | None = None, above: float | None = None, most: float | None = None
) -> float:
    """The value, if it is a finite number within these bounds."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            if math.isfinite(value) and _within(float(value), least, above, most):
                return float(value)
        except OverflowError:  # a whole number beyond any float
            pass
    kind, above = ("positive number", None) if above == 0 else ("number", above)
    raise InputError(f"{what} must be a {kind}{_bounds(least, above, most)}, got {shown(value)}")


def whole(value: Any, what: str, *, least: int | None = None, most: int | None = None) -> int:
    """The value, if it is a whole number within these bounds."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and _within(value, least, None, most):
        return int(value)
    raise InputError(f"{what} must be a whole number{_bounds(least, None, most)}, got {shown(value)}")


def flag(value: Any, what: str) -> bool:
    """The value, if it is True or False."""
    if isinstance(value, bool):
        return value
    raise InputError(f"{what} must be True or False, got {shown(value)}")


def choice(value: Any, what: str, choices: Sequence[str]) -> str:
    """The value, if it is one of the choices."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    listed = f"{', '.join(others)} or {last}" if others else last
    raise InputError(f"{what} must be {listed}, got {shown(value)}")


def path(value: Any, what: str) -> Path:
    """The value as a path."""
    if isinstance(value, str | Path) and str(value) and "\0" not in str(value):
        return Path(value)
    raise InputError(f"{what} must be a path, got {shown(value)}")


def is_file(place: Path) -> bool:
    """Whether there is a file; False also for a name that no file system takes, an error only if access is denied."""
    try:
        return place.is_file()
    except PermissionError:
        raise FileError(f"{place} cannot be looked at: permission denied") from None
    except (OSError, ValueError):
        return False


def regular(place: str | Path, *, what: str) -> None:
    """Raise if this is a folder, or a pipe or device, reading which may never end."""
    try:
        mode = os.stat(place).st_mode
    except ValueError:
        raise InputError(f"{place} is no name of a file; expected {what}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{place} is a folder; expected {what}")
    if not stat.S_ISREG(mode):
        raise InputError(f"{place} is a pipe or a device, not a file; expected {what}")


def _within(value: Any, least: float | None, above: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (above is None or value > above) and (most is None or value <= most)


def _bounds(least: float | None, above: float | None, most: float | None) -> str:
    parts = [f"{word} {bound:g}" for word, bound in (("≥", least), (">", above), ("≤", most)) if bound is not None]
    return f" {' and '.join(parts)}" if parts else ""
