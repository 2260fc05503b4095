"""Shards in Parquet, for tables and databases: a row for each image, with its numbers as a list of half floats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geco.errors import FileError, InputError, MissingPackageError
from geco.extraction.records import Entry
from geco.extraction.shards import ABOUT, EXPECTED, Shard, Stored
from geco.system import documents

GROUP = 8  # rows that are read together: what the other seven cost is little beside opening a file


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingPackageError.of_extra("ray", "pyarrow", what="Parquet") from None
    return pyarrow


def save(path: Path, entries: Sequence[Entry], about: Mapping[str, str]) -> None:
    """Write the rows; the shape of `values` is (dim, rows, columns), or (cells, dim) where cells are given."""
    pa = _pyarrow()
    records = [entry.record for entry in entries]
    columns = {
        "name": pa.array([record.source.name for record in records], pa.string()),
        "path": pa.array([record.source.path for record in records], pa.string()),
        "sha256": pa.array([record.sha256 for record in records], pa.string()),
        "height": pa.array([record.size[0] for record in records], pa.int32()),
        "width": pa.array([record.size[1] for record in records], pa.int32()),
        "rows": pa.array([record.grid[0] for record in records], pa.int32()),
        "columns": pa.array([record.grid[1] for record in records], pa.int32()),
        "shape": pa.array([list(entry.values.shape) for entry in entries], pa.list_(pa.int32())),
        "values": _lists(pa, [entry.values for entry in entries], np.float16, pa.float16()),
        "cells": pa.array(
            [None if entry.cells is None else entry.cells.tolist() for entry in entries], pa.list_(pa.int32())
        ),
    }
    table = pa.table(columns).replace_schema_metadata(dict(about))
    # Half floats neither compress nor repeat; a dictionary of them would only cost time.
    pa.parquet.write_table(table, path, row_group_size=GROUP, compression="none", use_dictionary=False)


def _lists(pa: Any, arrays: Sequence[np.ndarray], dtype: Any, kind: Any) -> Any:
    ends = np.cumsum([0, *(array.size for array in arrays)])
    flat = np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.empty(0, dtype)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(flat, kind))


class ParquetShard(Shard):
    """A shard in Parquet, opened."""

    def __init__(self, path: Path) -> None:
        pa = _pyarrow()
        documents.check_file(path, expected=EXPECTED)
        self.path = path
        try:
            self._file = pa.parquet.ParquetFile(path, memory_map=True)
        except pa.ArrowException:
            raise InputError(f"{path} is not {EXPECTED}: it is damaged or of another kind") from None
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}; expected {EXPECTED}") from None

    def metadata(self) -> str | None:
        """What it says about itself."""
        content = (self._file.schema_arrow.metadata or {}).get(ABOUT.encode())
        return None if content is None else content.decode(errors="replace")

    def read(self, number: int) -> Stored:
        """What is stored of one of its images."""
        try:
            group = self._file.read_row_group(number // GROUP, columns=["shape", "values", "cells"])
            row = group.slice(number % GROUP, 1)
            shape, cells = row["shape"][0].as_py(), row["cells"][0].as_py()
            values = row["values"][0].values.to_numpy(zero_copy_only=False).reshape(shape)
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:  # Arrow's are of these
            raise InputError(f"{self.path} is damaged ({str(error)[:60]}); copy it again") from None
        return values, None if cells is None else np.array(cells, dtype=np.int32)
