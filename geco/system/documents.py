"""JSON documents: every file of JSON that geco reads is read here, and what is wrong with one is said in one line."""

import json
import math
import reprlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from geco.errors import FileError, InputError, MissingFileError

LARGEST = 256 * 2**20  # bytes; the samples of a run of 100,000 pairs have a tenth of it
DEEPEST = 32  # brackets within brackets
DIGITS = 20  # of an integer, with its sign: what 64 bits hold
KINDS = {dict: "an object {…}", list: "a list […]", str: "text", int: "a whole number", float: "a number"}
PATH = 150  # characters of a path in a message
LISTED = 110  # characters of a list of names in a message

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxdict = 2, 3, 3, 3


class _DocumentError(Exception):
    """What is wrong with a document, without its name."""


def read(path: str | Path, *, expected: str, kind: type = dict, finite: bool = True) -> Any:
    """What a JSON file holds: an object, or what else `kind` says; `expected` tells people what the file should be.

    Refused are also repeated keys, numbers beyond 64 bits, and NaN and infinity, unless `finite` is False: our own logs
    have them.
    """
    return parse(read_text(path, expected=expected), name=str(path), kind=kind, finite=finite)


def parse(text: str, *, name: str, kind: type = dict, finite: bool = True) -> Any:
    """What a JSON text holds, checked as by `read`; `name` is what mistakes are reported of."""
    try:
        value = json.loads(
            text,
            parse_int=_integer,
            parse_float=_number if finite else float,
            parse_constant=_refused if finite else float,
            object_pairs_hook=_distinct,
        )
        _check_depth(value)
    except json.JSONDecodeError as error:
        raise InputError(f"{name} is not JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply; expected at most {DEEPEST} levels") from None
    except _DocumentError as error:
        raise InputError(f"{name} {error}") from None
    if not isinstance(value, kind):
        raise InputError(f"{name}: expected {KINDS.get(kind, kind.__name__)}, got {shown(value)}")
    return value


def read_lines(path: str | Path, *, expected: str, finite: bool) -> Iterator[tuple[int, Any]]:
    """Number and object of every line of a JSON Lines file; a last line that a kill cut short is left out."""
    lines = read_text(path, expected=expected).rstrip().split("\n")
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not _is_whole(line):
            return
        if line.strip():
            yield number, parse(line, name=f"{path}, line {number},", finite=finite)


def _is_whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_text(path: str | Path, *, expected: str, largest: int = LARGEST) -> str:
    """The text of a file in UTF-8, a byte order mark left out."""
    content = read_bytes(path, expected=expected, largest=largest)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 (byte {error.start}); expected {expected}") from None


def read_bytes(path: str | Path, *, expected: str, largest: int = LARGEST) -> bytes:
    """The content of a file of at most `largest` bytes."""
    check_file(path, expected=expected)
    try:
        size = Path(path).stat().st_size
        if size > largest:
            raise InputError(f"{path} has {size / 1e6:,.0f} MB; expected {expected}, at most {largest / 1e6:,.0f} MB")
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}; expected {expected}") from None


def check_file(path: str | Path, *, expected: str) -> None:
    """Refuse a path where there is no regular file: a pipe or a device would be waited for without end."""
    try:
        path = Path(path)
        if path.is_file():
            return
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:  # a name that is too long or has a null in it
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{place(path)} cannot be read: {reason}; expected {expected}") from None
    if is_there:
        what = "a folder" if is_folder else "not a regular file"
        raise FileError(f"{path} is {what}; expected {expected}")
    broken = " (a link to nothing)" if path.is_symlink() else ""
    raise MissingFileError(f"{path}: no such file{broken}; expected {expected}")


# --- what is refused --------------------------------------------------------------------------------------------------


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise _DocumentError(f"has a number of {len(digits)} digits, {digits[:8]}…; expected at most {DIGITS}")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _DocumentError(f"has the number {digits[:20]}, which is beyond what a computer holds")
    return number


def _refused(word: str) -> float:
    raise _DocumentError(f"has the number {word}; expected finite numbers")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DocumentError(f"has the key {shown(next(key for key in keys if keys.count(key) > 1))} twice; delete one")
    return values


def _check_depth(value: Any) -> None:
    """Refuse what is nested too deeply to be walked recursively, and text that cannot be written again."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        for item in level:
            texts = (item,) if isinstance(item, str) else item if isinstance(item, dict) else ()
            if any(not text.isascii() and not _is_writable(text) for text in texts):
                raise _DocumentError("has half of a surrogate pair in a text, which no encoding can hold")
        level = [inner for item in level if isinstance(item, dict | list) for inner in _children(item)]
        if not level:
            return
    raise RecursionError


def _children(item: Any) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- words for messages -----------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value as it is shown in a message: short, however long or deep it is, and on one line."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except Exception:  # a foreign object's own repr may do anything
        return f"an object of {type(value).__name__}"


def place(path: str | Path) -> str:
    """A path as it is shown in a message: whole, unless it is too long for one."""
    text = " ".join(str(path).split()) or "''"
    return text if len(text) <= PATH else f"{text[:40]}…{text[-80:]}"


def listed(names: Iterable[str], *, most: int = LISTED) -> str:
    """Names with commas, shortened to fit into a message."""
    names, line = list(names), ""
    for position, name in enumerate(names):
        longer = f"{line}, {name}" if line else name
        if len(longer) > most and position:
            return f"{line}, …"
        line = longer
    return line if len(line) <= most else line[: most - 1] + "…"


def amount(size: float) -> str:
    """A number of bytes in MB or GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
