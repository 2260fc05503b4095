"""Settings to and from plain values: frozen dataclasses ↔ JSON ↔ `key=value` of a command line.

A dataclass that has been renamed in parts since an earlier release says so in `RENAMED`, from dotted keys of then to
those of now; a key that ends in a dot stands for all that begin so.
"""

import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from geco.errors import InputError

T = TypeVar("T")


def to_json(settings: Any) -> str:
    """The settings as text; infinity is the word "inf"."""
    return json.dumps(as_dict(settings), indent=2)


def from_json(kind: type[T], text: str, *, name: str = "the configuration") -> T:
    """The settings in a text; unknown keys are errors."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name} is not JSON: {error}") from None
    return build(kind, values, name)


def as_dict(settings: Any) -> dict[str, Any]:
    """Plain values that JSON can hold."""
    return {entry.name: _plain(getattr(settings, entry.name)) for entry in fields(settings)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return as_dict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def changed(settings: T, key: str, text: str) -> T:
    """The settings with one value changed, `loss.transport.alpha` → inf, say; text as on a command line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    values = as_dict(settings)
    *path, last = _renamed(key, type(settings)).split(".")
    place = values
    for part in path:
        if not isinstance(place.get(part), dict):
            raise InputError(f"{key}: {part!r} has no settings; groups: {', '.join(_groups(place)) or 'none'}")
        place = place[part]
    place[last] = value
    return build(type(settings), values)


def _groups(values: Mapping[str, Any]) -> list[str]:
    return [name for name, value in values.items() if isinstance(value, dict)]


def build(kind: type[T], values: Any, name: str = "") -> T:
    """A dataclass from plain values, its fields converted to what they are declared as; `name` is for mistakes."""
    if not isinstance(values, dict):
        raise InputError(f"{name}: expected settings of {kind.__name__}, got {values!r}")
    values = _upgraded(values, kind)
    hints = typing.get_type_hints(kind)
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        owner = name or "the configuration"
        raise InputError(f"{owner} has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    inside = f"{name}, " if name else ""
    return kind(**{key: _field(hints[key], value, inside + key) for key, value in values.items()})


def _field(hint: Any, value: Any, name: str) -> Any:
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if value is None and type(None) in choices:
        return None
    hint = choices[0]
    if is_dataclass(hint):
        return build(hint, value, name)  # type: ignore[arg-type]
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(value)
    if typing.get_origin(hint) is Literal:
        return _literal(hint, value, name)
    if hint is float and isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            raise InputError(f"{name}: expected a number, got {value!r}") from None
    hint = typing.get_origin(hint) or hint
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise InputError(f"{name}: expected {hint.__name__}, got {value!r}")
    return value


def _literal(hint: Any, value: Any, name: str) -> Any:
    allowed = typing.get_args(hint)
    if value not in allowed:
        raise InputError(f"{name}: expected one of {', '.join(map(str, allowed))}, got {value!r}")
    return value


def choose(what: str, name: str, choices: Mapping[str, T]) -> T:
    """The choice of this name; a typo lists them."""
    if name not in choices:
        near = get_close_matches(name, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"there is no {what} {name!r}{hint} Choices: {', '.join(choices)}")
    return choices[name]


# --- keys of earlier releases -----------------------------------------------------------------------------------------


def _upgraded(values: dict[str, Any], kind: type) -> dict[str, Any]:
    if not any(_renamed(key, kind) != key for key, _ in _leaves(values)):
        return values
    upgraded: dict[str, Any] = {}
    for key, value in _leaves(values):
        *path, last = _renamed(key, kind).split(".")
        place = upgraded
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return upgraded


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _renamed(key: str, kind: type) -> str:
    table: Mapping[str, str] = getattr(kind, "RENAMED", {})
    if key in table:
        return table[key]
    start = max((old for old in table if old.endswith(".") and key.startswith(old)), key=len, default="")
    return table[start] + key.removeprefix(start) if start else key
