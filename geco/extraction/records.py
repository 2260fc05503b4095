"""What a folder of features knows about each image, and how it is written down as JSON."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from geco.errors import InputError
from geco.types import Size


@dataclass(frozen=True)
class Source:
    """Where an image is: a file, or `length` bytes of an archive from `offset` on."""

    name: str  # unique in a folder of features
    path: str
    offset: int | None = None
    length: int | None = None

    def plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        inside = {} if self.offset is None else {"offset": self.offset, "length": self.length}
        return {"name": self.name, "path": self.path, **inside}


@dataclass(frozen=True)
class Record:
    """One image of a folder of features."""

    source: Source
    size: Size  # of the image
    sha256: str  # of the image's file
    grid: Size  # rows and columns of its map
    crc32: int  # of what is stored of it

    def plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        facts = {"size": list(self.size), "sha256": self.sha256, "grid": list(self.grid), "crc32": self.crc32}
        return self.source.plain() | facts


@dataclass(frozen=True)
class Failure:
    """An image that could not be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """What is stored of an image: a map (c, rows, columns), or descriptors (n, c) of some of its patches."""

    record: Record
    values: np.ndarray  # float16
    cells: np.ndarray | None = None  # int32, row-major numbers of those patches


def checksum(values: np.ndarray, cells: np.ndarray | None = None) -> int:
    """CRC-32 of the numbers of an image as they are stored."""
    crc = zlib.crc32(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
    return crc if cells is None or not cells.size else zlib.crc32(np.ascontiguousarray(cells).data.cast("B"), crc)


def source_of(values: Any, name: str) -> Source:
    """The source in a line of JSON; `name` is what mistakes are reported of."""
    try:
        inside = (None, None) if "offset" not in values else (int(values["offset"]), int(values["length"]))
        return Source(_text(values, "name"), _text(values, "path"), *inside)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{name} is damaged: expected the name and path of an image; copy it again") from None


def record_of(values: Any, name: str) -> Record:
    """The record in a line of JSON; `name` is what mistakes are reported of."""
    source = source_of(values, name)
    try:
        (height, width), (rows, columns) = values["size"], values["grid"]
        sides = int(height), int(width), int(rows), int(columns)
        if min(sides) < 1 or not 0 <= int(values["crc32"]) < 2**32:
            raise ValueError
        return Record(source, sides[:2], _text(values, "sha256"), sides[2:], int(values["crc32"]))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{name} is damaged: expected the size, grid and checksums of an image") from None


def _text(values: Mapping[str, Any], key: str) -> str:
    if not isinstance(values[key], str):
        raise TypeError
    return values[key]
