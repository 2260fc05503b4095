"""MATLAB 5 files: numbers, text, cells and structures, every length checked before it is used.

SciPy's reader follows the lengths and types of a damaged file wherever they lead, which can end the process; and what
annotations need of the format is small (MAT-File Format, MathWorks; level 5).
"""

import struct
import zlib
from collections.abc import Iterator
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from geco.errors import InputError

_HEADER = 128
_LARGEST = 1 << 28  # bytes of a variable once it is unpacked
_DEEPEST = 32  # structures in structures
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR = 1, 2, 4
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def variable(content: bytes, name: str, *, squeeze: bool = False) -> Any:
    """The variable of this name in the content of a file, or None; raises InputError where that is damaged.

    Numbers are arrays, text is str, cells are arrays of objects, structures objects with attributes (arrays of them,
    unless there is one). With `squeeze`, dimensions of length 1 are left out, and single numbers are numbers.
    """
    if len(content) < _HEADER or content[126:128] not in (b"IM", b"MI"):
        raise InputError("no MATLAB 5 file")
    order = "<" if content[126:128] == b"IM" else ">"
    for kind, data in _Reader(content[_HEADER:], order, squeeze).elements():
        if kind == _COMPRESSED:
            ((kind, data),) = list(_Reader(_unpacked(data), order, squeeze).elements())[:1] or [(0, b"")]
        if kind != _MATRIX:
            raise InputError(f"element of type {kind}, expected a variable")
        reader = _Reader(data, order, squeeze)
        found, value = reader.named(wanted=name)
        if found == name:
            return value
    return None


def _unpacked(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, _LARGEST)
    except zlib.error as error:
        raise InputError(f"damaged: {error}") from None
    if not stream.eof:
        raise InputError("cut short, or too large")
    return content


class _Reader:
    """Reads elements of a stretch of bytes, one after the other."""

    def __init__(self, data: bytes, order: str, squeeze: bool, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise InputError("structures nested too deeply")
        self._data, self._order, self._squeeze, self._depth, self._place = data, order, squeeze, depth, 0

    def elements(self) -> Iterator[tuple[int, bytes]]:
        """(type, content) of all that follow."""
        while self._place < len(self._data):
            yield self.element()

    def element(self) -> tuple[int, bytes]:
        """(type, content) of the next one."""
        first = self._word(self._place)
        if first >> 16:  # a small element: length and type share a word, and the content is in the next
            kind, length, start, following = first & 0xFFFF, first >> 16, self._place + 4, self._place + 8
            if length > 4:
                raise InputError("damaged: a small element that is not small")
        else:
            kind, length, start = first, self._word(self._place + 4), self._place + 8
            padding = 0 if kind == _COMPRESSED else -length % 8
            following = start + length + padding
        if start + length > len(self._data):
            raise InputError("cut short")
        self._place = following
        return kind, self._data[start : start + length]

    def _word(self, place: int) -> int:
        if place + 4 > len(self._data):
            raise InputError("cut short")
        return int(struct.unpack_from(f"{self._order}I", self._data, place)[0])

    def named(self, *, wanted: str | None = None) -> tuple[str, Any]:
        """Name and value of the matrix that the bytes are; the value only if the name is the wanted one, or any is."""
        flags = self._numbers()
        if len(flags) != 2:
            raise InputError("damaged: a variable without flags")
        shape = [int(side) for side in self._numbers()]
        if not 2 <= len(shape) <= 8 or min(shape) < 0:
            raise InputError(f"damaged: a shape of {shape}")
        name = self.element()[1].decode("latin-1").rstrip("\0")
        if wanted not in (None, name):
            return name, None
        return name, self._value(int(flags[0]), shape)

    def _value(self, flags: int, shape: list[int]) -> Any:
        kind = flags & 0xFF
        if kind in _CLASSES:
            return self._array(kind, shape, is_complex=bool(flags & 0x800), is_logical=bool(flags & 0x200))
        if kind == _CHAR:
            return self._text()
        if kind == _CELL:
            return self._objects(self._values(prod(shape)), shape)
        if kind == _STRUCT:
            return self._structures(shape)
        raise InputError(f"a variable of class {kind}, expected numbers, text, cells or structures")

    def _numbers(self) -> np.ndarray:
        kind, data = self.element()
        if kind not in _NUMBERS or len(data) % int(_NUMBERS[kind][1]):
            raise InputError(f"damaged: numbers of type {kind}")
        return np.frombuffer(data, f"{self._order}{_NUMBERS[kind]}")

    def _array(self, kind: int, shape: list[int], *, is_complex: bool, is_logical: bool) -> Any:
        values: np.ndarray = self._numbers()
        if values.size != prod(shape):
            raise InputError(f"damaged: {values.size} numbers of a matrix of {shape}")
        values = values.astype(_CLASSES[kind])
        if is_complex:
            imaginary = self._numbers()
            if imaginary.size != values.size:
                raise InputError("damaged: a complex matrix")
            values = values + 1j * imaginary
        values = (values.astype(bool) if is_logical else values).reshape(shape, order="F")
        if not self._squeeze:
            return values
        return values.item() if values.size == 1 else np.squeeze(values)

    def _text(self) -> str:
        kind, data = self.element()
        if kind not in _TEXT:
            raise InputError(f"damaged: text of type {kind}")
        coding = _TEXT[kind] + {"<": "-le", ">": "-be"}[self._order] * (kind in (4, 17, 18))
        return data.decode(coding, "replace")

    def _values(self, count: int) -> list[Any]:
        if count * 8 > len(self._data):
            raise InputError(f"damaged: {count} cells")
        return [self._inner() for _ in range(count)]

    def _inner(self) -> Any:
        kind, data = self.element()
        if kind != _MATRIX:
            raise InputError(f"damaged: element of type {kind} in a cell or structure")
        if not data:
            return np.zeros((0,) if self._squeeze else (0, 0))
        return _Reader(data, self._order, self._squeeze, self._depth + 1).named()[1]

    def _structures(self, shape: list[int]) -> Any:
        length = self._numbers()
        names = self.element()[1]
        width = int(length[0]) if length.size == 1 else 0
        if not 0 < width <= 1024 or len(names) % width:
            raise InputError("damaged: the fields of a structure")
        fields = [names[i : i + width].split(b"\0")[0].decode("latin-1") for i in range(0, len(names), width)]
        count = prod(shape)
        if count * max(1, len(fields)) * 8 > len(self._data):
            raise InputError(f"damaged: {count} structures")
        rows = [SimpleNamespace(**dict(zip(fields, self._values(len(fields)), strict=True))) for _ in range(count)]
        return rows[0] if count == 1 else self._objects(rows, shape)

    def _objects(self, values: list[Any], shape: list[int]) -> np.ndarray:
        array = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            array[place] = value
        array = array.reshape(shape, order="F")
        return np.squeeze(array) if self._squeeze and array.size != 1 else array
