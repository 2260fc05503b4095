"""Images whose cameras are known: COLMAP's text files, or a transforms.json as NeRF tools write it."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geco import images
from geco.errors import InputError, MissingFileError
from geco.pose.cameras import Camera

# COLMAP's models without distortion → how many focal lengths come first among their parameters.
PINHOLES = {"SIMPLE_PINHOLE": 1, "PINHOLE": 2}
# Of a transforms.json: a lens with these is bent, which our cameras cannot be.
DISTORTION = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of foreign text
OPENGL = np.diag([1.0, -1.0, -1.0])  # y up, z backwards → y down, z forwards


@dataclass(frozen=True)
class PosedImage:
    """An image file and the camera that took it."""

    path: Path
    camera: Camera


def read_posed(path: str | Path, *, image_folder: str | Path | None = None) -> list[PosedImage]:
    """Images and cameras of a COLMAP text model (a folder with cameras.txt and images.txt) or a transforms.json.

    `image_folder` holds the image files; without it they are looked for beside the file that names them.
    """
    path = Path(path)
    if (path / "images.txt").is_file():
        return _from_colmap(path, Path(image_folder) if image_folder else path)
    path = path / "transforms.json" if path.is_dir() else path
    if not path.is_file():
        raise MissingFileError(
            f"{path}: no such file; expected COLMAP's cameras.txt and images.txt, or transforms.json"
        )
    return _from_transforms(path, Path(image_folder) if image_folder else path.parent)


def _from_colmap(folder: Path, image_folder: Path) -> list[PosedImage]:
    try:
        lenses = dict(_lens(line) for line in _lines(folder / "cameras.txt"))
        # Every second line lists the points of an image; it may be empty.
        rows = (folder / "images.txt").read_text().splitlines()
        kept = [line for line in rows if not line.startswith("#")]
        return [_colmap_image(line, lenses, image_folder) for line in kept[::2] if line.strip()]
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{error.filename}: no such file; a COLMAP text model has cameras.txt and images.txt"
        ) from None
    except DAMAGE as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder} is not a COLMAP text model: {_reason(error)}; export it as TXT") from None


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def _lens(line: str) -> tuple[str, Camera]:
    number, model, width, height, *values = line.split()
    if model not in PINHOLES:
        raise InputError(
            f"camera {number} is of COLMAP's model {model}; undistort first: {', '.join(PINHOLES)} are read"
        )
    numbers = [float(value) for value in values]
    many = PINHOLES[model]
    focal, centre = (numbers[0], numbers[many - 1]), (numbers[many], numbers[many + 1])
    return number, Camera(np.eye(3), np.zeros(3), focal, centre, (int(height), int(width)))


def _colmap_image(line: str, lenses: dict[str, Camera], image_folder: Path) -> PosedImage:
    from scipy.spatial.transform import Rotation

    _, *numbers, lens, name = line.split(maxsplit=9)
    w, x, y, z, *translation = (float(number) for number in numbers)
    rotation = Rotation.from_quat([x, y, z, w]).as_matrix()
    known = lenses[lens]
    camera = Camera(rotation, np.array(translation), known.focal, known.centre, known.size)
    return _found(image_folder / name, camera)


def _from_transforms(path: Path, image_folder: Path) -> list[PosedImage]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [_frame({**content, **frame}, image_folder) for frame in content["frames"]]
    except DAMAGE as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a transforms.json: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {' '.join(str(error).split())[:120]}"


def _frame(entry: dict[str, Any], image_folder: Path) -> PosedImage:
    bent = {name: entry[name] for name in DISTORTION if entry.get(name)}
    if bent:
        shown = ", ".join(f"{name} {value}" for name, value in bent.items())[:80]
        raise InputError(f"{entry['file_path']} was taken through a lens that distorts ({shown}); undistort first")
    path = image_folder / entry["file_path"]
    path = path if path.suffix else path.with_suffix(".png")
    to_world = np.array(entry["transform_matrix"], np.float64)
    height, width = (int(entry["h"]), int(entry["w"])) if "h" in entry else images.size_of(path)
    horizontal = float(entry["fl_x"]) if "fl_x" in entry else width / (2 * math.tan(entry["camera_angle_x"] / 2))
    focal = (horizontal, float(entry.get("fl_y", horizontal)))
    centre = (float(entry.get("cx", width / 2)), float(entry.get("cy", height / 2)))
    rotation = OPENGL @ to_world[:3, :3].T
    return _found(path, Camera(rotation, -rotation @ to_world[:3, 3], focal, centre, (height, width)))


def _found(path: Path, camera: Camera) -> PosedImage:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; say where the images are")
    return PosedImage(path, camera)
