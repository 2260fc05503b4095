"""Settings to and from plain values: frozen dataclasses ↔ JSON ↔ `key=value` of a command line.

A dataclass that has been renamed in parts since an earlier release says so in `RENAMED`, from dotted keys of then to
those of now; a key that ends in a dot stands for all that begin so. What a field may hold is `geco.system.fields`'.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from geco.errors import InputError
from geco.system import documents, strict
from geco.system.documents import listed, shown

T = TypeVar("T")


def to_json(settings: Any) -> str:
    """The settings as text; infinity is the word "inf"."""
    return json.dumps(as_dict(settings), indent=2)


def from_json(kind: type[T], text: str, *, name: str = "the configuration") -> T:
    """The settings in a text; unknown keys are errors."""
    return build(kind, documents.parse(text, name=name), name)


def read(kind: type[T], path: str | Path) -> T:
    """The settings in a file."""
    values = documents.read(path, expected=f"the settings of a {kind.__name__} in JSON")
    return build(kind, values, str(path))


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
    return changed_together(settings, [(key, text)])


def changed_together(settings: T, changes: Iterable[tuple[str, str]]) -> T:
    """The settings with several values changed, (key, text) each; only the result is checked, so the order is free."""
    values = as_dict(settings)
    for key, text in changes:
        *path, last = _renamed(key, type(settings)).split(".")
        place = values
        for part in path:
            if not isinstance(place.get(part), dict):
                groups = listed(name for name, value in place.items() if isinstance(value, dict))
                raise InputError(f"{shown(key)[1:-1]}: {shown(part)} has no settings; groups: {groups or 'none'}")
            place = place[part]
        place[last] = _typed(key, text)
    return build(type(settings), values)


def _typed(key: str, text: str) -> Any:
    """A value typed on a command line: JSON, or else the text as it is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return documents.parse(text, name=f"{shown(key)[1:-1]}: the value", kind=object)


def build(kind: type[T], values: Any, name: str = "") -> T:
    """A dataclass from plain values, each field of exactly the declared type; `name` is what mistakes are reported of.

    A mistake is reported with its dotted key: `runs/x/geco.json: lora.rank: expected a whole number, got 'ten'`.
    """
    try:
        return _built(kind, values, "", name)
    except _PlacedError as error:
        raise InputError(f"{name}: {error}" if name else str(error)) from None


class _PlacedError(InputError):
    """A mistake that says which key it is in, and not yet of which file."""


def _built(kind: type[T], values: Any, path: str, name: str) -> T:
    if not isinstance(values, dict):
        raise _PlacedError(f"{path + ': ' if path else ''}expected settings of {kind.__name__}, got {shown(values)}")
    values = _upgraded(values, kind)
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(map(str, set(values) - known))
    if unknown:
        message = f"unknown keys {listed(unknown, most=60)}; known: {listed(sorted(known))}"
        if path:
            raise _PlacedError(f"{path} has {message}")
        raise InputError(f"{name or 'the configuration'} has {message}")
    missing = [entry.name for entry in fields(kind) if _is_required(entry) and entry.name not in values]  # type: ignore[arg-type]
    if missing:
        raise _PlacedError(f"{path + ': ' if path else ''}expected the key {missing[0]}, which is missing")
    types = strict.types_of(kind)  # type: ignore[arg-type]
    inside = f"{path}." if path else ""
    converted = {}
    for key, value in values.items():
        try:
            converted[key] = strict.converted(
                types[key], value, inside + key, group=lambda inner, item, place: _built(inner, item, place, name)
            )
        except strict.WrongTypeError as error:
            raise _PlacedError(str(error)) from None
    try:
        return kind(**converted)
    except _PlacedError:
        raise
    except InputError as error:
        first = str(error).split(" ")[0].split("[")[0].rstrip(":")
        raise _PlacedError(f"{inside}{error}" if first in known or not path else f"{path}: {error}") from None


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def choose(what: str, name: str, choices: Mapping[str, T]) -> T:
    """The choice of this name; a typo lists them."""
    if name not in choices:
        near = get_close_matches(name, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"there is no {what} {shown(name)}{hint} Choices: {listed(choices, most=200)}")
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
            if not isinstance(place, dict):
                raise _PlacedError(f"{key} cannot stand beside a value for {part}; keep one of the two")
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
