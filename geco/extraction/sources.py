"""Which images a collection has: files, folders, patterns, lists of paths, columns of tables, tar archives.

Images are named by the path they were given by; what lies in an archive by the archive's path and its own. They come
one by one in a fixed order, so that a collection of any size is walked through in little memory.
"""

import csv
import glob
import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from geco import checks
from geco.errors import FileError, InputError, MissingFileError, MissingPackageError
from geco.extraction.records import Source
from geco.system import documents, listing

ARCHIVES = (".tar",)
LISTS = (".txt",)
TABLES = (".csv", ".parquet")
COLUMN = "path"  # of a table, unless another is named or there is only one
LARGEST = 512 * 2**20  # bytes of an image file


def find(places: Iterable[str | Path], *, column: str | None = None, root: Path | None = None) -> Iterator[Source]:
    """The images of these places, each name once.

    Paths in lists and tables count from `root`, or else from the folder of that file.
    """
    seen: set[int] = set()
    count = 0
    for place in places:
        for source in _of(checks.path(place, "an image, folder, list or archive"), column, root):
            key = int.from_bytes(hashlib.blake2b(source.name.encode(), digest_size=8).digest(), "little")
            if key not in seen:
                seen.add(key)
                count += 1
                yield source
    if not count:
        raise InputError("no image was given; name files, folders, patterns, lists of paths (.txt, .csv) or .tar files")


def read(source: Source) -> bytes:
    """The content of an image's file."""
    if source.offset is None or source.length is None:
        return documents.read_bytes(source.path, expected="an image", largest=LARGEST)
    if source.length > LARGEST:
        raise InputError(f"{source.name} has {source.length:,} bytes; expected an image, at most {LARGEST:,}")
    try:
        with open(source.path, "rb") as file:
            file.seek(source.offset)
            content = file.read(source.length)
    except OSError as error:
        raise FileError(f"{source.path} cannot be read: {error.strerror or error}; expected an archive") from None
    if len(content) < source.length:
        raise InputError(f"{source.path} is cut short within {source.name}; get it again")
    return content


def _of(place: Path, column: str | None, root: Path | None) -> Iterator[Source]:
    if place.is_dir():
        yield from _in_folder(place)
    elif place.exists():
        yield from _in_file(place, column, root)
    else:
        matches = sorted(glob.glob(str(place), recursive=True)) if glob.has_magic(str(place)) else []
        if not matches:
            raise MissingFileError(
                f"{documents.place(place)} does not exist; expected an image, a folder, a list or an archive"
            )
        for match in matches:
            yield from _of(Path(match), column, root)


def _in_folder(folder: Path) -> Iterator[Source]:
    """The images and archives in a folder and its folders, in order of their names."""
    count = 0
    for place, inner, names in os.walk(folder):
        inner.sort()
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix.lower() in (*listing.ENDINGS, *ARCHIVES) and path.is_file():
                count += 1
                yield from _in_file(path, None, None)
    if not count:
        raise InputError(f"{folder} holds no image; expected files ending in {', '.join(listing.ENDINGS)} or .tar")


def _in_file(path: Path, column: str | None, root: Path | None) -> Iterator[Source]:
    ending = path.suffix.lower()
    if ending in ARCHIVES:
        yield from _in_archive(path)
    elif ending in (*LISTS, *TABLES):
        named = _lines(path) if ending in LISTS else _cells(path, column)
        for text in named:
            yield _file(text, os.path.join(root if root is not None else path.parent, text))
    else:
        yield _file(path.as_posix(), path)


def _file(name: str, path: str | Path) -> Source:
    """An image file; a name that is not UTF-8 is spelled out, and such a file is among those that cannot be read."""
    name, place = (text.encode("utf-8", "backslashreplace").decode() for text in (name, os.path.abspath(path)))
    return Source(name, place)


def _lines(path: Path) -> Iterator[str]:
    documents.check_file(path, expected="a list of paths")
    with _decoded(path) as lines:
        for number, line in enumerate(_guarded(lines, path), 1):
            text = line.strip()
            if not text.isprintable():
                raise InputError(f"{path}, line {number}: expected a path, got {documents.shown(text)}")
            if text:
                yield text


def _decoded(path: Path) -> Any:
    return open(path, encoding="utf-8-sig", newline="")


def _guarded(lines: Iterable[Any], path: Path) -> Iterator[Any]:
    """The lines, as long as they are text."""
    try:
        yield from lines
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a list of paths in UTF-8: {str(error)[:80]}") from None


# --- tables -----------------------------------------------------------------------------------------------------------


def _cells(path: Path, column: str | None) -> Iterator[str]:
    """The paths in a column of a table; cells that are empty are left out."""
    documents.check_file(path, expected="a table with a column of paths")
    rows = _csv_column(path, column) if path.suffix.lower() == ".csv" else _parquet_column(path, column)
    for cell in rows:
        if not isinstance(cell, str | None) or (cell and "\0" in cell):
            raise InputError(
                f"{path}: expected paths in the column, got {documents.shown(cell)}; name it with --column"
            )
        if cell and cell.strip():
            yield cell.strip()


def _csv_column(path: Path, column: str | None) -> Iterator[Any]:
    with _decoded(path) as lines:
        rows = _guarded(csv.reader(lines), path)
        place = _chosen(next(rows, []), column, path)
        for row in rows:
            yield row[place] if place < len(row) else None


def _parquet_column(path: Path, column: str | None) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingPackageError.of_extra("ray", "pyarrow", what="Parquet") from None
    try:
        with parquet.ParquetFile(path) as table:
            names = table.schema_arrow.names
            name = names[_chosen(names, column, path)]
            for batch in table.iter_batches(columns=[name], batch_size=4096):
                yield from batch.column(0).to_pylist()
    except pyarrow.ArrowException as error:
        raise InputError(f"{path} is not a Parquet table that can be read: {str(error)[:80]}") from None


def _chosen(names: list[str], column: str | None, path: Path) -> int:
    wanted = column if column is not None else names[0] if len(names) == 1 else COLUMN
    if wanted not in names:
        raise InputError(
            f"{path} has no column {documents.shown(wanted)}; name one with --column: {documents.listed(names)}"
        )
    return names.index(wanted)


# --- archives ---------------------------------------------------------------------------------------------------------


def _in_archive(path: Path) -> Iterator[Source]:
    """The images of a tar archive, by the bytes that they are; nothing is unpacked."""
    count, place = 0, os.path.abspath(path)
    try:
        with tarfile.open(path, "r:") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined] # it keeps a list of all that it has seen
                if member.isreg() and not member.issparse() and Path(member.name).suffix.lower() in listing.ENDINGS:
                    count += 1
                    name = f"{path.as_posix()}/{member.name}".encode("utf-8", "backslashreplace").decode()
                    yield Source(name, place, member.offset_data, member.size)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} is not a tar archive without compression that can be read ({str(error)[:60]}); unpack it"
        ) from None
    if not count:
        raise InputError(f"{path} holds no image; expected an archive of files like 000001.jpg")
