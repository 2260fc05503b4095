"""Checks of settings: every field holds what it is declared as, and numbers lie where they make sense.

`check` stands first in the `__post_init__` of a settings dataclass, so that settings made in Python, read from a file
and typed on a command line are refused alike.
"""

import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal

from geco.errors import InputError
from geco.system.documents import shown

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "settings {…}"}
LARGEST = 2**63  # of whole numbers
INFINITY = {"inf": math.inf, "-inf": -math.inf, "Infinity": math.inf, "-Infinity": -math.inf}

Group = Callable[[type, Any, str], Any]  # how a nested dataclass is made from plain values, under a name


class WrongTypeError(InputError):
    """A value is not of the type that its field is declared as."""


@cache
def types_of(kind: type) -> dict[str, Any]:
    """The declared type of every field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind)}


def check(settings: Any, *, infinite: Collection[str] = ()) -> None:
    """Refuse fields that are not what they are declared as, and numbers that are not finite.

    Fields that `infinite` names may be infinite; `within` then refuses NaN. Lists become tuples where tuples are
    declared, and another library's numbers Python's own: settings are frozen and can be written as JSON.
    """
    for name, hint in types_of(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        if typing.get_origin(hint) is Literal and not _is_one_of(allowed := typing.get_args(hint), value):
            raise InputError(f"{name} must be one of {', '.join(map(str, allowed))}, got {shown(value)}")
        result = converted(hint, value, name, group=_as_it_is)
        if name not in infinite:
            _check_finite(name, result)
        if type(result) is not type(value) and not isinstance(value, int):  # 1 may stand for 1.0, and stays 1
            object.__setattr__(settings, name, result)


def _as_it_is(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise WrongTypeError(f"{name}: expected settings of {kind.__name__}, got {shown(value)}")
    return value


def _check_finite(name: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{name} must be finite, got {number}")


def within(
    settings: Any,
    *names: str,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse numbers of these fields outside a range, of tuples every number; None is left alone."""
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is None:
                continue
            if above is not None and not number > above:
                raise InputError(f"{name} must be above {above:g}, got {shown(number)}")
            if least is not None and not number >= least:
                raise InputError(f"{name} must be {least:.10g} or more, got {shown(number)}")
            if below is not None and not number < below:
                raise InputError(f"{name} must be below {below:g}, got {shown(number)}")
            if most is not None and not number <= most:
                raise InputError(f"{name} must be at most {most:.10g}, got {shown(number)}")


# --- one value --------------------------------------------------------------------------------------------------------


def converted(hint: Any, value: Any, name: str, *, group: Group) -> Any:
    """The value as its declared type: lists as tuples, whole numbers as they are, "inf" where a number is declared."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _one_of(arguments, value, name, group)
    if origin is Literal:
        if not _is_one_of(arguments, value):
            raise WrongTypeError(f"{name}: expected one of {', '.join(map(str, arguments))}, got {shown(value)}")
        return value
    if origin is tuple:
        return _tuple(arguments, value, name, group)
    if origin in (dict, Mapping) or hint is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _mapping(arguments, value, name, group)
    if is_dataclass(hint):
        return group(hint, value, name)  # type: ignore[arg-type]
    if hint is float:
        return _number(value, name)
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise WrongTypeError(f"{name}: expected {WORDS[int]}, got {shown(value)}")
        if abs(int(value)) > LARGEST:
            raise WrongTypeError(f"{name}: expected a whole number of at most 64 bits, got {shown(value)}")
        return int(value)
    if isinstance(hint, type) and not isinstance(value, hint):
        raise WrongTypeError(f"{name}: expected {WORDS.get(hint, hint.__name__)}, got {shown(value)}")
    return value


def _is_one_of(choices: tuple[Any, ...], value: Any) -> bool:
    return any(type(value) is type(choice) and value == choice for choice in choices)  # 1 == True


def _one_of(choices: tuple[Any, ...], value: Any, name: str, group: Group) -> Any:
    """The value as the first of the choices that it fits; the mistake is that of the first."""
    if value is None and type(None) in choices:
        return None
    mistakes = []
    for choice in choices:
        if choice is not type(None):
            try:
                return converted(choice, value, name, group=group)
            except InputError as error:
                mistakes.append(error)
    raise mistakes[0]


def _number(value: Any, name: str) -> Any:
    if isinstance(value, str) and value in INFINITY:
        return INFINITY[value]
    if isinstance(value, bool) or not isinstance(value, Real):
        raise WrongTypeError(f"{name}: expected a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise WrongTypeError(f"{name}: expected a number that a computer holds, got {shown(value)}") from None


def _tuple(arguments: tuple[Any, ...], value: Any, name: str, group: Group) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise WrongTypeError(f"{name}: expected a list, got {shown(value)}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise WrongTypeError(f"{name}: expected a list of {len(arguments)}, got {shown(value)}")
    pairs = enumerate(zip(arguments, value, strict=True))
    return tuple(converted(hint, item, f"{name}[{place}]", group=group) for place, (hint, item) in pairs)


def _mapping(arguments: tuple[Any, ...], value: Any, name: str, group: Group) -> Any:
    if not isinstance(value, Mapping):
        raise WrongTypeError(f"{name}: expected {WORDS[dict]}, got {shown(value)}")
    for key, item in value.items():
        if not isinstance(key, str):
            raise WrongTypeError(f"{name}: expected names as keys, got {shown(key)}")
        if arguments and arguments[1] is not Any:
            converted(arguments[1], item, f"{name}.{key}", group=group)
    return value
