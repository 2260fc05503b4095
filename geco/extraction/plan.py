"""The plan of an extraction: the list of its images on disk, so that it need not be held in memory."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from geco.errors import InputError
from geco.extraction.records import Source, source_of
from geco.system import documents, files

NAME = "plan.jsonl"


@dataclass(frozen=True)
class Plan:
    """How many images there are, and a hash of all that the list says."""

    images: int
    digest: str


def of(sources: Iterable[Source]) -> Plan:
    """The plan of these images, nothing written."""
    return _listed(sources, lambda line: None)


def write(folder: Path, sources: Iterable[Source]) -> Plan:
    """The plan of these images, written to the folder."""
    listed: list[Plan] = []

    def save(draft: Path) -> None:
        with draft.open("wb") as file:
            listed.append(_listed(sources, file.write))

    files.replace(folder / NAME, save)
    return listed[0]


def _listed(sources: Iterable[Source], write: Callable[[bytes], object]) -> Plan:
    digest, count = hashlib.sha256(), 0
    for source in sources:
        line = json.dumps(source.plain()).encode() + b"\n"
        digest.update(line)
        write(line)
        count += 1
    return Plan(count, digest.hexdigest())


def offsets(folder: Path, per_shard: int) -> list[int]:
    """Where in the file the images of each shard begin."""
    places, place = [], 0
    with (folder / NAME).open("rb") as file:
        for number, line in enumerate(file):
            if number % per_shard == 0:
                places.append(place)
            place += len(line)
    return places


def read(folder: Path, offset: int, count: int) -> list[Source]:
    """This many images of the list, from this place on."""
    path = folder / NAME
    with path.open("rb") as file:
        file.seek(offset)
        lines = [file.readline() for _ in range(count)]
    if not all(line.endswith(b"\n") for line in lines):
        raise InputError(f"{path} ends too early: half a copy; delete {folder} and run again")
    return [source_of(documents.parse(line.decode(), name=str(path)), str(path)) for line in lines]
