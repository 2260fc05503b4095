"""Parsing for every reader of annotations: files that say what is wrong with them, points, boxes, masks, splits."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch
from jaxtyping import Float
from torch import Tensor

from geco import geometry
from geco.errors import InputError, MissingFileError
from geco.types import Keypoints, MaskFile, Size, View

PIXEL_CENTRE = 0.5  # from the index of a pixel, counted from 0, to the corner-origin position of its centre
MATLAB_CENTRE = -0.5  # the same where pixels are counted from 1

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
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; expected {what}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start}); expected {what}") from None


def read_json(path: Path, *, what: str) -> Any:
    """A JSON file, or one line that names the file, the line and what was expected."""
    try:
        return json.loads(read_text(path, what=what))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON ({error.msg}); expected {what}") from None


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
    """A variable of a MATLAB file; with `structs`, its structures as objects with attributes."""
    from scipy.io import loadmat  # in the extras that read such datasets
    from scipy.io.matlab import MatReadError

    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; expected a MATLAB file with {variable!r}")
    try:
        content = loadmat(path, variable_names=[variable], struct_as_record=not structs, squeeze_me=structs)
    except (MatReadError, ValueError, TypeError, OSError, NotImplementedError, zlib.error) as error:
        raise InputError(f"{path}: not a MATLAB file that can be read ({error}); get it again") from None
    if variable not in content:
        raise InputError(f"{path}: variable {variable!r} is missing")
    return content[variable]


def field(record: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`record[key]`, which must be of this kind."""
    if not isinstance(record, Mapping) or key not in record:
        content = ", ".join(map(str, record)) if isinstance(record, Mapping) else type(record).__name__
        raise InputError(f"{where}: key {key!r} is missing; found: {content or 'nothing'}")
    value = record[key]
    if not isinstance(value, kind):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise InputError(f"{where}: key {key!r} should be {names}, got {shorten(value)}")
    return value


def numbers(value: Any, count: int, where: str, *, form: str) -> list[float]:
    """A list of this many numbers, in the form that the message names."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not is_list or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in value):
        raise InputError(f"{where}: expected {form}, got {shorten(value)}")
    return [float(x) for x in value]


def number(text: str, where: str, *, what: str) -> float:
    """The number that a cell of a text table holds."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: expected a number for {what}, got {text!r}") from None


def shorten(value: Any) -> str:
    """A value as an error message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@contextmanager
def tolerating(faults: list[str] | None) -> Iterator[None]:
    """Collect the message of a faulty entry, which is left out; without a list to collect in, raise it."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        if faults is None:
            raise
        faults.append(str(error))


def choose(value: str, choices: Sequence[str], *, what: str) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise InputError(f"{what} must be one of {', '.join(choices)}, got {value!r}")
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
    window = square_window(view.box, margin=margin)
    return replace(geometry.frame(view, window), name=f"{view.name}@{','.join(map(str, window))}")


def mask_file(folder: Path | None, *names: str, label: int | None = None) -> MaskFile | None:
    """The first of these files that the folder holds."""
    path = next((folder / name for name in names if (folder / name).is_file()), None) if folder else None
    return None if path is None else MaskFile(path, label)


# --- splits ---------------------------------------------------------------------------------------


def hashed_split(name: str, shares: Mapping[str, float]) -> str:
    """The split of a file by its name alone: the same on every machine, whatever other files there are."""
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    end = 0.0
    for split, share in shares.items():
        end += share
        if place < end:
            return split
    return split
