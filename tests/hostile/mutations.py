"""Hostile inputs from valid ones: bytes, JSON and text tables → many mutants, each with a label; deterministic.

`json_mutants`, `byte_mutants` and `text_mutants` list cases for `pytest.mark.parametrize`; `json_values` and
`mutated_json` are hypothesis strategies of the same grammar.
"""

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>Not Found</body></html>\n"
LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
DEEP = 100_000  # levels of nesting: above any recursion limit
_RAW = "\x00raw:"  # marks text that is put into the JSON as it is

Path = tuple[str | int, ...]


def raw(text: str) -> str:
    """A value that `dumps` writes without quotes: 1e400, or what is no JSON at all."""
    return f"{_RAW}{text}"


REPLACEMENTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "fraction": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "1e400": raw("1e400"),
    "10**400": 10**400,
    "5000 digits": raw("9" * 5000),
    "huge": 10**12,
    "2**63": 2**63,
    "text": "twelve",
    "digits as text": "12",
    "empty text": "",
    "newline": "a\nb",
    "nul": "a\x00b",
    "markup": "[/b]$x$",
    "surrogate": "\ud800",
    "long text": "x" * 5000,
    "list": [],
    "list of list": [[]],
    "list of null": [None],
    "object": {},
    "object of null": {"": None},
}


def dumps(value: Any) -> bytes:
    """The value as JSON text, NaN and infinities as Python's reader takes them, raw pieces as they are."""
    text = json.dumps(value)
    start = json.dumps(_RAW)[:-1]
    while start in text:
        before, _, rest = text.partition(start)
        content, _, after = rest.partition('"')
        text = before + content + after
    return text.encode()


def paths(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value, the whole first."""
    yield prefix
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths(item, (*prefix, key))


def at(value: Any, path: Path) -> Any:
    """What stands at a place."""
    for key in path:
        value = value[key]
    return value


def changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy with what stands at a place changed."""
    if not path:
        return change(copy.deepcopy(value))
    value = copy.deepcopy(value)
    holder = at(value, path[:-1])
    holder[path[-1]] = change(holder[path[-1]])
    return value


def dropped(value: Any, path: Path) -> Any:
    """A copy without what stands at a place."""
    value = copy.deepcopy(value)
    del at(value, path[:-1])[path[-1]]
    return value


def _negated(value: Any) -> Any:
    return -value if isinstance(value, int | float) else [value, value]


def _as_text(value: Any) -> Any:
    return str(value)


def _doubled(value: Any) -> Any:
    return value + value if isinstance(value, list | str) else [value]


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "nested": lambda value: [value],
    "nested in an object": lambda value: {"value": value},
    "negated": _negated,
    "as text": _as_text,
    "doubled": _doubled,
}


def json_changes(value: Any) -> Iterator[tuple[str, Any]]:
    """(label, JSON value) of every single change at every place: dropped, replaced, nested, negated, doubled."""
    for path in paths(value):
        place = "/".join(map(str, path)) or "the whole"
        if path:
            yield f"{place} dropped", dropped(value, path)
        for name, replacement in REPLACEMENTS.items():
            yield f"{place} is {name}", changed(value, path, lambda _, new=replacement: new)
        for name, change in _CHANGES.items():
            yield f"{place} {name}", changed(value, path, change)


def json_mutants(value: Any, *, count: int | None = None, seed: int = 0) -> list[tuple[str, bytes]]:
    """(label, file content): single changes (`count` of them drawn with the seed, or all) and broken texts."""
    singles = list(json_changes(value))
    if count is not None and count < len(singles):
        singles = Random(seed).sample(singles, count)
    return [(label, dumps(mutant)) for label, mutant in singles] + broken_json(dumps(value))


def broken_json(text: bytes) -> list[tuple[str, bytes]]:
    """(label, file content) of what is not the JSON it was."""
    return [
        ("deep lists", b"[" * DEEP + b"]" * DEEP),
        ("deep objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        ("two documents", text + text),
        ("byte order mark", b"\xef\xbb\xbf" + text[:-1]),
        ("UTF-16", text.decode().encode("utf-16")),
        ("Latin-1", b'"caf\xe9"'),
        ("single quotes", text.replace(b'"', b"'")),
        ("trailing comma", text[:-1] + b"," + text[-1:]),
        *byte_mutants(text, flips=0),
    ]


def byte_mutants(content: bytes, *, flips: int = 12, seed: int = 0) -> list[tuple[str, bytes]]:
    """(label, file content): empty, cut short, filled with zeros, something else altogether, with bits flipped."""
    random = Random(seed)
    length = len(content)
    mutants = [
        ("empty", b""),
        ("one byte", content[:1]),
        ("first half", content[: length // 2]),
        ("last byte missing", content[:-1]),
        ("second half", content[length // 2 :]),
        ("zeros", bytes(length)),
        ("second half zeros", content[: length // 2] + bytes(length - length // 2)),
        ("web page", HTML),
        ("Git LFS pointer", LFS),
        ("noise", random.randbytes(max(64, min(length, 4096)))),
    ]
    for number in range(flips):
        flipped = bytearray(content)
        # Most of a file is its body; headers are where decoders go wrong, so every second flip is near the start.
        reach = min(length, 64) if number % 2 else length
        for _ in range(1 + number % 3):
            flipped[random.randrange(reach)] ^= 1 << random.randrange(8)
        mutants.append((f"bits flipped {number}", bytes(flipped)))
    return mutants


CELLS = ("", "nan", "inf", "-1", "1e400", "9" * 400, "twelve", "0x10", "1,5", "١٢", "²", "-0", "1e-400", "\x00", "../x")


def text_mutants(text: str, *, separator: str | None = None) -> list[tuple[str, bytes]]:
    """(label, file content) of a table: lines and cells dropped, doubled or replaced, and broken bytes."""
    lines = text.splitlines()
    mutants: list[tuple[str, bytes]] = []
    for number, line in enumerate(lines):
        before, after = lines[:number], lines[number + 1 :]
        mutants.append((f"line {number} dropped", _joined(before + after)))
        mutants.append((f"line {number} twice", _joined([*before, line, line, *after])))
        cells = line.split(separator)
        for column in range(len(cells)):
            short = cells[:column] + cells[column + 1 :]
            mutants.append((f"cell {number},{column} dropped", _joined([*before, _row(short, separator), *after])))
            for cell in CELLS:
                new = _row([*cells[:column], cell, *cells[column + 1 :]], separator)
                mutants.append((f"cell {number},{column} is {cell[:8]!r}", _joined([*before, new, *after])))
    return mutants + byte_mutants(text.encode(), flips=6)


def _row(cells: list[str], separator: str | None) -> str:
    return (separator or " ").join(cells)


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def sampled(mutants: list[tuple[str, bytes]], count: int, seed: int = 0) -> list[tuple[str, bytes]]:
    """`count` of the mutants (all, if there are fewer), in their order."""
    if count >= len(mutants):
        return mutants
    return [mutants[i] for i in sorted(Random(seed).sample(range(len(mutants)), count))]


# --- strategies -------------------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([value for value in REPLACEMENTS.values() if not isinstance(value, list | dict)])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mutated_json(draw: st.DrawFn, value: Any, *, most: int = 3) -> bytes:
    """The content of a JSON file with one to `most` changes at places drawn by hypothesis."""
    for _ in range(draw(st.integers(1, most))):
        places = list(paths(value))
        path = draw(st.sampled_from(places))
        if path and draw(st.booleans()) and draw(st.booleans()):
            value = dropped(value, path)
        elif draw(st.booleans()):
            change = _CHANGES[draw(st.sampled_from(sorted(_CHANGES)))]
            value = changed(value, path, change)
        else:
            new = draw(json_values)
            value = changed(value, path, lambda _, new=new: new)
    return dumps(value)
