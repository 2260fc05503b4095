"""Shards: files that hold what is stored of some hundred images, each of which is read without the others.

A shard says everything about itself: as the metadata `geco`, JSON with a record for each image and the images that
could not be read. Equal entries give equal bytes.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from geco.errors import FileError, InputError
from geco.extraction.records import Entry, Failure
from geco.extraction.settings import Format
from geco.system import documents, files, tensors

ABOUT = "geco"  # the key of the metadata
EXPECTED = "a shard of features as `geco extract` writes them"
FOLDER = "shards"
Stored = tuple[np.ndarray, np.ndarray | None]  # values, and the cells they are of if those are not all


class Shard(ABC):
    """A shard opened for reading."""

    path: Path

    @abstractmethod
    def metadata(self) -> str | None:
        """What it says about itself."""

    @abstractmethod
    def read(self, number: int) -> Stored:
        """What is stored of one of its images."""

    def about(self) -> dict[str, Any]:
        """Its records and failures, in plain values."""
        text = self.metadata()
        if text is None:
            raise InputError(f"{self.path} is not {EXPECTED}: it has no metadata {ABOUT!r}")
        return documents.parse(text, name=str(self.path))


def file_name(number: int, form: Format) -> str:
    """The file of a shard, from the folder of features."""
    return f"{FOLDER}/{number:06d}.{form}"


def write(path: Path, entries: Sequence[Entry], failures: Sequence[Failure], form: Format) -> Path:
    """The shard as a file, whole or not at all."""
    about = json.dumps(
        {
            "records": [entry.record.plain() for entry in entries],
            "failed": [[failure.name, failure.reason] for failure in failures],
        }
    )
    try:
        if form == "parquet":
            from geco.extraction import parquet

            return files.replace(path, lambda draft: parquet.save(draft, entries, {ABOUT: about}))
        # One key: safetensors writes several in an order that changes from run to run.
        return files.replace(path, lambda draft: save_file(_named(entries), draft, {ABOUT: about}))
    except (SafetensorError, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise FileError(f"{path} could not be written: {reason}; what was finished is kept") from None


def open_shard(path: Path, form: Format) -> Shard:
    """The shard in a file; none of its maps is read."""
    if form == "parquet":
        from geco.extraction import parquet

        return parquet.ParquetShard(path)
    return SafetensorsShard(path)


class SafetensorsShard(Shard):
    """A shard in safetensors: tensors 000000, 000001, …; of patches also 000000.cells, …"""

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, tensors.map_safetensors(path, expected=EXPECTED)

    def metadata(self) -> str | None:
        """What it says about itself."""
        return (self._file.metadata() or {}).get(ABOUT)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self._file.keys())

    def read(self, number: int) -> Stored:
        """What is stored of one of its images."""
        name = f"{number:06d}"
        if name not in self._keys:
            raise InputError(f"{self.path} has no tensor {name}; it is damaged: copy it again")
        cells = self._file.get_tensor(f"{name}.cells").numpy() if f"{name}.cells" in self._keys else None
        return self._file.get_tensor(name).numpy(), cells


def _named(entries: Sequence[Entry]) -> dict[str, torch.Tensor]:
    named = {}
    for number, entry in enumerate(entries):
        named[f"{number:06d}"] = torch.from_numpy(np.ascontiguousarray(entry.values))
        if entry.cells is not None:
            named[f"{number:06d}.cells"] = torch.from_numpy(np.ascontiguousarray(entry.cells))
    return named
