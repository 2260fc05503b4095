"""An extraction as data: what is to be done, in pieces that any process can do."""

from dataclasses import dataclass
from pathlib import Path

from geco.extraction.manifest import Manifest


@dataclass(frozen=True)
class Work:
    """What has to be known to encode a shard, wherever that is done."""

    folder: Path
    about: Manifest
    masks: Path | None = None


@dataclass(frozen=True)
class Task:
    """A shard that is to be encoded."""

    shard: int
    offset: int  # of its first image in the plan
    images: int


@dataclass(frozen=True)
class Job:
    """An extraction that has begun."""

    work: Work
    tasks: tuple[Task, ...]
    resumed: int  # images of shards that were there already
    bytes: int  # that are still to be written, about; of foreground at most
    free: int  # bytes on the disk
