"""DeepLabCut's tables, from CSV or HDF5: columns (scorer, individual, body part, coordinate) and a row per image.

pandas writes HDF5 through PyTables, which keeps what is not an array as a pickle. Nothing is unpickled here: h5py reads
the arrays, and names that stand in a pickle (the layout "table", of older releases) are read from its list of
operations, of which only those that make texts, numbers, lists and tuples are accepted.
"""

import math
import pickletools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geco import checks
from geco.errors import InputError
from geco.propagation.formats import hdf5, tables
from geco.system import documents

EXPECTED = "a table of DeepLabCut (CollectedData_….csv or .h5)"
LEVELS = {3: ("scorer", "bodyparts", "coords"), 4: ("scorer", "individuals", "bodyparts", "coords")}
FARTHEST = 1e9  # pixels
CELLS = 50_000_000  # of a table; a day of video with 20 keypoints has 40 million

Column = tuple[str, str, str, str]  # scorer, individual ("" of a single animal), body part, x, y or likelihood


@dataclass(frozen=True)
class Frame:
    """A table: its columns, and for each row the image (a path, or the number of a frame) and the values."""

    columns: tuple[Column, ...]
    index: tuple[str | int, ...]
    values: np.ndarray  # (rows, columns), NaN where there is nothing

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.index), len(self.columns))


def read_csv(path: Path) -> Frame:
    """The table in a CSV file."""
    rows = tables.read(path, expected=EXPECTED)
    count = next((number for number, row in enumerate(rows[:4], 1) if row[0] == "coords"), 0)
    if count not in LEVELS or tuple(row[0] for row in rows[:count]) != LEVELS[count]:
        found = documents.listed(str(row[0]) for row in rows[:4])
        raise InputError(f"{path}: the first lines should be scorer, bodyparts and coords, got {found}")
    width = len(rows[0])
    start = next((i for i, cell in enumerate(rows[count - 1]) if i and cell), width)  # after the columns of the index
    index: list[str | int] = []
    values = []
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise InputError(f"{path}, line {number}: {len(row)} cells, but the first line has {width}")
        if number > count:
            index.append("/".join(cell for cell in row[:start] if cell))
            where = f"{path}, line {number}"
            values.append([tables.cell(cell, where, what="a coordinate") for cell in row[start:]])
    columns = list(zip(*(row[start:] for row in rows[:count]), strict=True))
    return _frame(columns, index, np.array(values, dtype=np.float64).reshape(len(values), width - start), path)


def _frame(columns: Sequence[Sequence[str]], index: Sequence[str | int], values: np.ndarray, path: Path) -> Frame:
    if not columns or not index:
        raise InputError(f"{path} holds no labels; expected {EXPECTED}")
    complete = [(c[0], "" if len(c) == 3 else c[1], c[-2], c[-1]) for c in columns]
    for column in complete:
        if column[3] not in ("x", "y", "likelihood"):
            raise InputError(f"{path}: coords should be x, y or likelihood, got {checks.shown(column[3])}")
    if len(set(complete)) < len(complete):
        raise InputError(f"{path}: two columns have the same scorer, body part and coordinate; delete one")
    if np.isinf(values).any() or (np.abs(values) > FARTHEST).any():
        raise InputError(f"{path}: expected coordinates in pixels, got {values[~(np.abs(values) <= FARTHEST)][0]:g}")
    texts = [str(entry) for entry in index]
    numbered = all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts)
    return Frame(tuple(complete), tuple(int(text) for text in texts) if numbered else tuple(texts), values)


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def read_hdf5(path: Path) -> Frame:
    """The table in an HDF5 file that pandas wrote, in its layout "fixed" or "table"."""
    with hdf5.opened(path, expected=EXPECTED) as file:
        groups = [group for group in file.values() if "pandas_type" in group.attrs]
        if not groups:
            raise InputError(f"{path} holds no table of pandas; expected {EXPECTED}")
        kind = _text(groups[0].attrs["pandas_type"])
        if kind == "frame":
            columns, index, values = _fixed(groups[0], path)
        elif kind == "frame_table":
            columns, index, values = _table(groups[0], path)
        else:
            raise InputError(f"{path} holds a {checks.shown(kind)} of pandas; expected {EXPECTED}")
    if any(len(column) not in LEVELS for column in columns):
        raise InputError(f"{path}: the columns should have 3 or 4 levels, scorer to coords; expected {EXPECTED}")
    joined = ["/".join(entry) if isinstance(entry, tuple) else entry for entry in index]
    return _frame(columns, joined, values, path)


def _fixed(group: Any, path: Path) -> tuple[list[tuple[str, ...]], list[Any], np.ndarray]:
    columns: list[tuple[str, ...]] = []
    blocks = []
    index = _axis(group, "axis1", path)
    for number in range(int(group.attrs["nblocks"])):
        items = [
            entry if isinstance(entry, tuple) else (str(entry),) for entry in _axis(group, f"block{number}_items", path)
        ]
        data = _numbers(group[f"block{number}_values"], path)
        block = data if group[f"block{number}_values"].attrs.get("transposed", 0) else data.T
        if block.shape != (len(index), len(items)):
            raise InputError(f"{path}: a table of {block.shape}, but {len(index)} rows and {len(items)} columns")
        columns += items
        blocks.append(block)
    return columns, index, np.concatenate(blocks, axis=1)


def _axis(group: Any, name: str, path: Path) -> list[Any]:
    """Entries of an index: texts, numbers, or tuples of texts where it has several levels."""
    if _text(group.attrs.get(f"{name}_variety", b"regular")) != "multi":
        return _entries(group[name], path)
    levels = []
    for number in range(int(group.attrs[f"{name}_nlevels"])):
        entries, codes = _entries(group[f"{name}_level{number}"], path), group[f"{name}_label{number}"][:]
        if codes.dtype.kind not in "iu" or (len(codes) and not -1 <= codes.min() <= codes.max() < len(entries)):
            raise InputError(f"{path}: the names of {name} are damaged; get the file again")
        levels.append([str(entries[code]) if code >= 0 else "" for code in codes.tolist()])
    return list(zip(*levels, strict=True))


def _entries(dataset: Any, path: Path) -> list[Any]:
    if dataset.size > CELLS or dataset.ndim != 1:
        raise InputError(f"{path}: an index of the shape {dataset.shape}; expected one dimension")
    if dataset.dtype.kind == "S":
        return [_text(entry) for entry in dataset[:]]
    if dataset.dtype.kind in "iu":
        return [int(entry) for entry in dataset[:]]
    raise InputError(f"{path}: names are stored as Python objects, which are not read; use the CSV file beside it")


def _table(group: Any, path: Path) -> tuple[list[tuple[str, ...]], list[Any], np.ndarray]:
    table = group["table"]
    blocks = sorted(name for name in table.dtype.names or () if name.startswith("values_block_"))
    columns: list[tuple[str, ...]] = []
    parts = []
    for name in blocks:
        names = _unpacked(table.attrs[f"{name}_kind"], path)
        columns += [
            tuple(str(level) for level in entry) if isinstance(entry, tuple) else (str(entry),) for entry in names
        ]
        parts.append(_numbers(table, path, field=name).reshape(len(table), -1))
    if "index" not in (table.dtype.names or ()) or not parts:
        raise InputError(f"{path}: the table has no index or no values; expected {EXPECTED}")
    values = np.concatenate(parts, axis=1)
    if values.shape[1] != len(columns):
        raise InputError(f"{path}: {values.shape[1]} columns of values, but {len(columns)} names")
    order = _unpacked(group.attrs["non_index_axes"], path)
    wanted = order[0][1] if order and isinstance(order[0], tuple) and len(order[0]) == 2 else columns
    places = {column: place for place, column in enumerate(columns)}
    rows = [places[column] for column in wanted if column in places]
    index = table["index"]
    entries = [_text(entry) for entry in index] if index.dtype.kind == "S" else [int(entry) for entry in index]
    return [columns[row] for row in rows], entries, values[:, rows]


def _numbers(dataset: Any, path: Path, *, field: str | None = None) -> np.ndarray:
    if math.prod(dataset.shape) > CELLS:
        raise InputError(f"{path}: a table of {dataset.shape}, above the limit of {CELLS:,} cells")
    data = np.asarray(dataset[:] if field is None else dataset[field])
    if data.dtype.kind not in "fiu":
        raise InputError(f"{path}: the values are not numbers; use the CSV file beside it")
    return data.astype(np.float64)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


TEXTS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "STRING", "SHORT_BINSTRING", "BINSTRING")
NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1")
STORED = ("PUT", "BINPUT", "LONG_BINPUT")
FETCHED = ("GET", "BINGET", "LONG_BINGET")
_MARK = object()


def _unpacked(pickled: Any, path: Path) -> list[Any]:
    """The list that a pickle would make, if it holds nothing but texts, whole numbers, lists and tuples."""
    refused = InputError(f"{path}: its names are Python objects that are not read; use the CSV file beside it")
    stack: list[Any] = []
    memory: dict[int, Any] = {}
    for operation, value, _ in pickletools.genops(bytes(pickled)):
        name = operation.name
        if name in TEXTS or name in NUMBERS:
            stack.append(value)
        elif name in STORED or name == "MEMOIZE":
            memory[len(memory) if value is None else int(value)] = stack[-1]
        elif name in FETCHED and value is not None:
            stack.append(memory[int(value)])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append([] if name == "EMPTY_LIST" else ())
        elif name in ("LIST", "TUPLE", "APPENDS"):
            start = len(stack) - 1 - stack[::-1].index(_MARK)
            items = stack[start + 1 :]
            del stack[start:]
            if name == "APPENDS":
                stack[-1].extend(items)
            else:
                stack.append(items if name == "LIST" else tuple(items))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            items = stack[-int(name[-1]) :]
            del stack[-int(name[-1]) :]
            stack.append(tuple(items))
        elif name == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise refused
    if len(stack) != 1 or not isinstance(stack[0], list):
        raise refused
    return stack[0]
