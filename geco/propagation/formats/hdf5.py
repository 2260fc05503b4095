"""HDF5 files opened with care: whatever a damaged one raises is one line, and one that would hang is not opened."""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geco.errors import GecoError, InputError, MissingPackageError
from geco.system import documents

SIGNATURE = b"\x89HDF\r\n\x1a\n"
HEAP = b"GCOL\x01\x00\x00\x00"  # a collection of texts of any length: signature, version, padding
SMALLEST = 4096  # bytes of a collection


@contextmanager
def opened(path: Path, *, expected: str) -> Iterator[Any]:
    """The file; what goes wrong inside the block is one line about it."""
    check(path, expected=expected)
    try:
        import h5py
    except ImportError:
        raise MissingPackageError.of_extra("labels", "h5py", what=f"reading {path.name}") from None
    try:
        with h5py.File(path, "r") as file:
            yield file
    except GecoError:
        raise
    except MemoryError:
        raise InputError(f"{path} needs more memory than there is; is it damaged?") from None
    except Exception as error:  # a damaged file makes the library stumble over anything
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{documents.place(path)} is damaged or cut short: {reason}; get the file again") from None


def check(path: Path, *, expected: str) -> None:
    """Refuse what is not HDF5, and collections of texts whose sizes do not add up: the library would never return."""
    documents.check_file(path, expected=expected)
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise InputError(f"{path} is not HDF5; expected {expected}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.find(HEAP)
            while place >= 0:
                if not _adds_up(content, place):
                    raise InputError(f"{documents.place(path)} is damaged (at byte {place}); get the file again")
                place = content.find(HEAP, place + 1)


def check_texts(file: Any, path: Path) -> None:
    """Refuse an entry of variable length that is not text: reading one whose type is damaged can end the process."""
    import h5py

    for name, entry in file.items():
        if isinstance(entry, h5py.Dataset) and entry.dtype.kind == "O" and not h5py.check_string_dtype(entry.dtype):
            raise InputError(f"{documents.place(path)} is damaged: {name} should be text; get the file again")


def _adds_up(content: mmap.mmap, start: int) -> bool:
    """Whether the objects of a collection fill it: each has a number, and what is left has number 0."""
    if start + 16 > len(content):
        return False
    (size,) = struct.unpack_from("<Q", content, start + 8)
    end, place = start + size, start + 16
    if size < SMALLEST or end > len(content):
        return False
    while place + 16 <= end:
        number, length = struct.unpack_from("<H6xQ", content, place)
        if number == 0:
            return bool(place + length == end)
        place += 16 + (length + 7) // 8 * 8
    return bool(place <= end)
