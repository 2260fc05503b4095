"""Parsing for every reader of annotations: files that say what is wrong with them, points, boxes, masks, splits."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geco import checks, geometry
from geco.data import matfiles
from geco.errors import FileError, InputError, MissingFileError
from geco.types import Keypoints, MaskFile, Size, View

PIXEL_CENTRE = 0.5  # from the index of a pixel, counted from 0, to the corner-origin position of its centre
MATLAB_CENTRE = -0.5  # the same where pixels are counted from 1
FARTHEST = 1e9  # pixels: what is farther away is no coordinate, and would be infinite in 32 bits
LONGEST_SIDE = 100_000  # pixels of an image that an annotation describes

# The 20 categories of PASCAL VOC, in their official order.
VOC_CLASSES = (
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
)


# --- files ----------------------------------------------------------------------------------------


def locate(root: str | Path, *places: str, what: str) -> Path:
    """The first of these places under the root that exists."""
    root = Path(root)
    for place in places:
        if (root / place).exists():
            return root / place
    raise MissingFileError(f"{root / places[0]}: no such file or folder; expected {what}")


def read_text(path: Path, *, what: str) -> str:
    """A text file, or one line that says what it should have been."""
    try:
        checks.regular(path, what=what)
        return path.read_bytes().decode("utf-8-sig")  # with or without a byte order mark, as Windows writes it
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; expected {what}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start}); expected {what}") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}; expected {what}") from None


def read_json(path: Path, *, what: str) -> Any:
    """A JSON file, or one line that names the file, the line and what was expected."""
    text = read_text(path, what=what)
    about = checks.foreign(text[:512].encode())
    if about:
        raise InputError(f"{path}: not JSON but {about}; expected {what}")
    return parse_json(text, str(path), what=what, lines=True)


def parse_json(text: str, where: str, *, what: str, lines: bool = False) -> Any:
    """What a JSON text says, or one line that names its place and what was expected; `lines`: also its line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f":{error.lineno}" if lines else ""
        raise InputError(f"{where}{line}: not JSON ({error.msg}); expected {what}") from None
    except (RecursionError, ValueError):  # lists in lists in lists …, a number of thousands of digits
        raise InputError(f"{where}: JSON nested too deeply or with too long a number; expected {what}") from None


def read_xml(path: Path, *, what: str) -> ElementTree.Element:
    """The root of an XML file, or one line that names the file, the line and what was expected.

    Annotations define no document type. A file that does is refused unparsed: entities can expand without end.
    """
    text = read_text(path, what=what)
    if re.search("<!(DOCTYPE|ENTITY)", text):
        raise InputError(f"{path}: defines a document type or entities, which are not read; expected {what}")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        reason = str(error).partition(":")[0]
        raise InputError(f"{path}:{error.position[0]}: not XML ({reason}); expected {what}") from None


def read_rows(path: Path, *columns: str) -> Iterator[tuple[str, list[str]]]:
    """Lines of a blank-separated table as (place in the file, cells); the last column may hold blanks."""
    wanted = len(columns)
    for number, line in enumerate(read_text(path, what=f"lines of `{' '.join(columns)}`").splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split(maxsplit=wanted - 1)
        if len(cells) != wanted:
            raise InputError(f"{path}:{number}: expected `{' '.join(columns)}`, got {line.strip()!r}")
        yield f"{path}:{number}", cells


def matlab(path: Path, variable: str, *, structs: bool = False) -> Any:
    """A variable of a MATLAB file; with `structs`, dimensions of length 1 are left out, as suits its structures."""
    try:
        checks.regular(path, what=f"a MATLAB file with {variable!r}")
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; expected a MATLAB file with {variable!r}") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        value = matfiles.variable(content, variable, squeeze=structs)
    except InputError as error:
        reason = (checks.foreign(content[:512]) if content else None) or error
        raise InputError(f"{path}: not a MATLAB file that can be read ({reason}); get it again") from None
    if value is None:
        raise InputError(f"{path}: variable {variable!r} is missing")
    return value


def matrix(path: Path, variable: str) -> np.ndarray:
    """A variable of a MATLAB file that is a matrix of real numbers."""
    values = matlab(path, variable)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(f"{path}: {variable} should be a matrix of numbers, got {kind}")
    return values.astype(np.float64)


def field(record: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`record[key]`, which must be of this kind."""
    if not isinstance(record, Mapping) or key not in record:
        content = ", ".join(map(str, record))[:80] if isinstance(record, Mapping) else type(record).__name__
        raise InputError(f"{where}: key {key!r} is missing; found: {content or 'nothing'}")
    value = record[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(k.__name__ for k in kinds)
        raise InputError(f"{where}: key {key!r} should be {names}, got {checks.shown(value)}")
    return value


def numbers(value: Any, count: int, where: str, *, form: str) -> list[float]:
    """A list of this many finite numbers, in the form that the message names."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not is_list or not all(_is_coordinate(x) for x in value):
        raise InputError(f"{where}: expected {form}, got {checks.shown(value)}")
    return [float(x) for x in value]


def number(text: str, where: str, *, what: str) -> float:
    """The finite number that a cell of a text table holds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not _is_coordinate(value):
        raise InputError(f"{where}: expected a number for {what}, got {checks.shown(text)}")
    return value


def _is_coordinate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -FARTHEST <= value <= FARTHEST


@contextmanager
def tolerating(faults: list[str] | None) -> Iterator[None]:
    """Collect the message of a faulty entry, which is left out; without a list to collect in, raise it."""
    try:
        yield
    except (ValueError, OSError) as error:
        if faults is None:
            raise
        faults.append(str(error))


def choose(value: Any, choices: Sequence[str], *, what: str) -> str:
    """The value, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{what} must be one of {', '.join(choices)}, got {checks.shown(value)}")
    return value


# --- points, boxes and masks ----------------------------------------------------------------------


def keypoints(xy: Sequence[Sequence[float]], visible: Sequence[bool], *, shift: float) -> Keypoints:
    """Points moved to the corner-origin convention; hidden ones lie at (0, 0)."""
    flags = torch.tensor(visible, dtype=torch.bool)
    points = torch.tensor(xy, dtype=torch.float32).reshape(-1, 2) + shift
    return Keypoints(torch.where(flags[:, None], points, torch.zeros(())), flags)


def on_image(points: Keypoints, size: Size) -> Keypoints:
    """The same points; what lies beyond the image is not visible."""
    return Keypoints(points.xy, points.visible & geometry.inside(points.xy, size=size))


def image_size(height: Any, width: Any, where: str) -> Size:
    """(height, width) as an annotation gives them."""
    for side in (height, width):
        whole = isinstance(side, int) or (isinstance(side, float) and side.is_integer())
        if not whole or isinstance(side, bool) or not 1 <= side <= LONGEST_SIDE:
            given = f"{checks.shown(height)} and {checks.shown(width)}"
            raise InputError(f"{where}: height and width should be numbers of pixels, got {given}")
    return int(height), int(width)


def box_on(size: Size, corners: Sequence[float], where: str) -> Float[Tensor, "4"]:
    """The box (x0, y0, x1, y1), which must have an area and show some of an image of this size."""
    x0, y0, x1, y1 = corners
    height, width = size
    if not (x0 < x1 and y0 < y1):
        raise InputError(f"{where}: the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) has no area")
    shows = x0 < width and y0 < height and x1 > 0 and y1 > 0
    if not shows or min(x0 + width, y0 + height, 2 * width - x1, 2 * height - y1) < 0:
        raise InputError(
            f"{where}: the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) lies outside the image of {width}×{height} "
            "(width×height)"
        )
    return torch.tensor([x0, y0, x1, y1])


def square_window(box: Float[Tensor, "4"], *, margin: float) -> tuple[int, int, int, int]:
    """The whole-pixel square around a box and a margin, a share of its sides, at each end."""
    x0, y0, x1, y1 = (float(edge) for edge in box)
    side = max(1, round(max(x1 - x0, y1 - y0) * (1 + 2 * margin)))
    left, top = round((x0 + x1 - side) / 2), round((y0 + y1 - side) / 2)
    return left, top, left + side, top + side


def squared(view: View, *, margin: float) -> View:
    """The view cut to a square around its box when it is read; its name says which square."""
    if view.box is None:
        raise InputError(f"{view.label} has no box to cut a square around")
    window = square_window(view.box, margin=checks.number(margin, "margin", least=0, most=10))
    return replace(geometry.frame(view, window), name=f"{view.name}@{','.join(map(str, window))}")


def mask_file(folder: Path | None, *names: str, label: int | None = None) -> MaskFile | None:
    """The first of these files that the folder holds."""
    path = next((folder / name for name in names if checks.is_file(folder / name)), None) if folder else None
    return None if path is None else MaskFile(path, label)


def named_mask(folder: Path, name: Any, where: str) -> MaskFile | None:
    """The mask that an annotation names under the key "mask"; None if it names none."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise InputError(f"{where}: key 'mask' should name a file in {folder}, got {checks.shown(name)}")
    mask = mask_file(folder, name)
    if mask is None:
        raise MissingFileError(f"{folder / name}: no such file; {where}: key 'mask' names it")
    return mask


# --- splits ---------------------------------------------------------------------------------------


def hashed_split(name: str, shares: Mapping[str, float]) -> str:
    """The split of a file by its name alone: the same on every machine, whatever other files there are."""
    place = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64
    end = 0.0
    for split, share in shares.items():
        end += share
        if place < end:
            return split
    return split
