"""Pinhole cameras: where a point of the world lies in the image, and the ray behind a pixel.

Axes as in OpenCV and COLMAP: x to the right, y down, z forward; a point X of the mesh is R X + t in the camera, its
pixel (f x / z + c_x, f y / z + c_y), counted from the image's top-left corner. R is a rotation: a reflection is
refused, because it would exchange left and right without any other sign of it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from geco.errors import InputError
from geco.types import Size

GOLDEN = math.pi * (3 - math.sqrt(5))
AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Camera:
    """A pinhole camera without distortion; `rotation` and `translation` take the world to the camera."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]
    focal: tuple[float, float]  # pixels, horizontal and vertical
    centre: tuple[float, float]  # principal point (x, y), pixels from the image's corner
    size: Size

    def __post_init__(self) -> None:
        off = np.abs(self.rotation @ self.rotation.T - np.eye(3)).max()
        if not off < 1e-5:
            raise InputError(
                f"a camera's rotation must be orthonormal, but R Rᵀ differs from the identity by {off:.2g}"
            )
        if np.linalg.det(self.rotation) < 0:
            raise InputError(
                "a camera's rotation has determinant −1: it mirrors, so left and right are exchanged; "
                "check the axes (ours: x right, y down, z forward)"
            )
        if not all(0 < focal < math.inf for focal in self.focal):
            raise InputError(f"a focal length must be positive, got {self.focal}")
        if not np.isfinite([*self.translation, *self.centre]).all():
            raise InputError("a camera's place and principal point must be numbers, got NaN or infinity")
        if min(self.size) < 1:
            raise InputError(f"a camera's image must have pixels, got {self.size[1]}×{self.size[0]} (width×height)")

    @property
    def matrix(self) -> Float[np.ndarray, "3 3"]:
        """K: camera coordinates → pixels."""
        return np.array([[self.focal[0], 0, self.centre[0]], [0, self.focal[1], self.centre[1]], [0, 0, 1.0]])

    @property
    def position(self) -> Float[np.ndarray, "3"]:
        """Where the camera stands in the world."""
        return -self.rotation.T @ self.translation

    def project(self, points: Float[np.ndarray, "n 3"]) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, "n"]]:
        """Pixels (x, y) and depths along z; NaN for points at or behind the camera."""
        x, y, depth = (points @ self.rotation.T + self.translation).T
        with np.errstate(divide="ignore", invalid="ignore"):
            xy = [side / depth * self.focal[i] + self.centre[i] for i, side in enumerate((x, y))]
        return np.where(depth > 0, xy, np.nan).T, depth

    def rays(self, xy: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
        """Directions through pixels in camera axes, with z = 1: depth × ray is the point."""
        x, y = ((xy[:, i] - self.centre[i]) / self.focal[i] for i in range(2))
        return np.stack([x, y, np.ones(len(xy))], axis=1)

    def resized(self, to: Size) -> "Camera":
        """The same camera with its image resized."""
        sx, sy = to[1] / self.size[1], to[0] / self.size[0]
        focal, centre = (self.focal[0] * sx, self.focal[1] * sy), (self.centre[0] * sx, self.centre[1] * sy)
        return replace(self, focal=focal, centre=centre, size=to)


def pinhole(size: Size, focal: float) -> Camera:
    """A camera at the origin that looks along z, principal point in the middle of the image."""
    return Camera(np.eye(3), np.zeros(3), (focal, focal), (size[1] / 2, size[0] / 2), size)


def look_at(
    camera: Camera, target: Float[np.ndarray, "3"], position: Float[np.ndarray, "3"], up: Float[np.ndarray, "3"]
) -> Camera:
    """The camera moved to `position`, looking at `target` with `up` upwards in the image."""
    forward = target - position
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-9:
        raise InputError("the camera looks straight along the upward axis; give it another elevation or axis")
    right = right / np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    return replace(camera, rotation=rotation, translation=-rotation @ position)


def upward(axis: str) -> Float[np.ndarray, "3"]:
    """The unit vector of an axis named "y" or "-z"."""
    vector = np.zeros(3)
    vector[AXES[axis.strip("-")]] = -1.0 if axis.startswith("-") else 1.0
    return vector


def orbit(
    points: Float[np.ndarray, "v 3"],
    count: int,
    *,
    size: Size,
    up: str = "y",
    elevation: tuple[float, float] = (-15.0, 50.0),
    field_of_view: tuple[float, float] = (20.0, 40.0),
    seed: int = 0,
) -> list[Camera]:
    """Cameras spread around the points, each at the distance at which they fill 70 to 95 % of the image."""
    generator = np.random.default_rng(seed)
    sky = upward(up)
    side, front = np.roll(sky, 1), np.roll(sky, 2)
    centre = (points.min(0) + points.max(0)) / 2
    low, high = (math.sin(math.radians(angle)) for angle in elevation)
    cameras = []
    turn = generator.uniform(0, 2 * math.pi)
    for i in range(count):
        height = low + (high - low) * ((i + generator.uniform()) / count)
        azimuth = turn + i * GOLDEN
        away = height * sky + math.sqrt(1 - height**2) * (math.cos(azimuth) * side + math.sin(azimuth) * front)
        angle = math.radians(generator.uniform(*field_of_view))
        lens = pinhole(size, max(size) / (2 * math.tan(angle / 2)))
        cameras.append(_framed(lens, points, centre, away, sky, fill=generator.uniform(0.7, 0.95)))
    return cameras


def _framed(
    lens: Camera,
    points: Float[np.ndarray, "v 3"],
    centre: Float[np.ndarray, "3"],
    away: Float[np.ndarray, "3"],
    sky: Float[np.ndarray, "3"],
    *,
    fill: float,
) -> Camera:
    """The lens moved back along `away` until the points fill this share of the image."""
    distance = float(np.linalg.norm(np.ptp(points, axis=0))) * max(lens.focal) / max(lens.size)
    rotation = look_at(lens, centre, centre + distance * away, sky).rotation
    x, y, z = ((points - centre) @ rotation.T).T  # z: beyond the centre
    half = np.maximum(np.abs(x) * lens.focal[0] / lens.size[1], np.abs(y) * lens.focal[1] / lens.size[0])
    exact = float(
        (2 * half / fill - z).max()
    )  # at distance d a point reaches 2 half / (z + d) of the way to the border
    with np.errstate(all="ignore"):
        for _ in range(8):  # perspective makes the extent depend on the distance, but only a little
            distance *= float((2 * half / (z + distance)).max()) / fill
    # Where these steps settle they stay, since results were measured with them; for a rod seen end-on they do not.
    settled = abs(distance - exact) < 0.01 * exact
    return look_at(lens, centre, centre + (distance if settled else exact) * away, sky)
