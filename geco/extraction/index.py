"""The index of a folder of features: a line of JSON for each shard, with its checksum and its records.

While a folder is written, lines are appended as shards are finished; at the end they stand in order. A shard says
everything that its line says, but for its own checksum, so a line that a kill prevented is written again.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geco.errors import FileError, InputError
from geco.extraction import shards
from geco.extraction.manifest import Manifest
from geco.extraction.records import Failure
from geco.system import documents, files

NAME = "index.jsonl"
EXPECTED = "the index of a folder of features"


@dataclass(frozen=True)
class Line:
    """What the index says of a shard; its records stay unparsed until they are asked for."""

    shard: int
    size: int  # bytes of its file
    sha256: str
    records: tuple[dict[str, Any], ...]
    failed: tuple[Failure, ...]

    def text(self) -> str:
        """The line as it is written."""
        failed = [[failure.name, failure.reason] for failure in self.failed]
        values = {"shard": self.shard, "bytes": self.size, "sha256": self.sha256, "failed": failed}
        return json.dumps(values | {"records": list(self.records)}) + "\n"


def line_of(folder: Path, number: int, manifest: Manifest) -> Line:
    """The line of a shard that has been written, from the shard itself."""
    path = folder / shards.file_name(number, manifest.format)
    about = shards.open_shard(path, manifest.format).about()
    return _line({"shard": number, "bytes": path.stat().st_size, "sha256": files.sha256(path)} | about, str(path))


def append(folder: Path, lines: Iterable[Line]) -> None:
    """Note shards that have been written."""
    try:
        with (folder / NAME).open("a", encoding="utf-8") as file:
            file.writelines(line.text() for line in lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(f"{folder / NAME} cannot be written: {error.strerror or error}") from None


def repair(folder: Path) -> None:
    """Cut off a last line that a kill left unfinished."""
    path = folder / NAME
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        whole = end
        while whole:
            start = max(0, whole - files.BLOCK)
            file.seek(start)
            last = file.read(whole - start).rfind(b"\n")
            whole = start + last + 1 if last >= 0 else start
            if last >= 0:
                break
        if whole < end:
            file.truncate(whole)


def offsets(folder: Path) -> Iterator[tuple[int, Line]]:
    """Place in the file, and content, of every line."""
    path = folder / NAME
    if not path.exists():
        return
    documents.check_file(path, expected=EXPECTED)
    place = 0
    with path.open("rb") as file:
        for number, content in enumerate(file, 1):
            if not content.endswith(b"\n"):
                return  # of a run that is not finished, or was killed
            yield place, parse(content, f"{path}, line {number}")
            place += len(content)


def line_at(folder: Path, offset: int) -> Line:
    """The line at a place of the file."""
    with (folder / NAME).open("rb") as file:
        file.seek(offset)
        return parse(file.readline(), f"{folder / NAME}, byte {offset}")


def parse(content: bytes, name: str) -> Line:
    """A line of the index; `name` is what mistakes are reported of."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{name} is damaged: it is not text in UTF-8; copy it again") from None
    return _line(documents.parse(text, name=name), name)


def sort(folder: Path, manifest: Manifest) -> None:
    """Write the lines in the order of the shards, each once."""
    lines = [(line.shard, place) for place, line in offsets(folder)]
    if [number for number, _ in lines] == list(range(manifest.shards)):
        return
    places = dict(lines)  # the last line of each: a shard that was deleted has been written again

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8") as file:
            file.writelines(line_at(folder, places[number]).text() for number in sorted(places))

    files.replace(folder / NAME, write)


def _line(values: Any, name: str) -> Line:
    try:
        failed = tuple(Failure(str(image), str(reason)) for image, reason in values["failed"])
        records = tuple(values["records"])
        if not all(isinstance(record, dict) and isinstance(record["name"], str) for record in records):
            raise TypeError
        return Line(int(values["shard"]), int(values["bytes"]), str(values["sha256"]), records, failed)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{name} is damaged: expected what a shard holds; copy it again") from None
