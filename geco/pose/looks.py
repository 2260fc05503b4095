"""Looks: coat, light and background of a rendered mesh, drawn at random but from families that do not mix.

A coat is a solid texture: a colour for each point in space, so that no unwrapping is needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, UInt8

from geco.types import Size

Coat = Literal["own", "plain", "patches", "stripes", "spots", "marble"]
Backdrop = Literal["plain", "gradient", "noise", "meadow"]
# Coats and backdrops of the views that a mesh is decorated from.
DECORATING: tuple[tuple[Coat, ...], tuple[Backdrop, ...]] = (("own", "plain", "patches"), ("plain", "gradient"))
# Those of the evaluation, which are in no view that a mesh is decorated from.
TESTING: tuple[tuple[Coat, ...], tuple[Backdrop, ...]] = (("stripes", "spots", "marble"), ("noise", "meadow"))
# Of fur and feathers: sand, chestnut, dark brown, grey, near black, cream, rust.
FUR = np.array(
    [(194, 160, 112), (126, 78, 46), (78, 54, 38), (130, 126, 120), (44, 40, 38), (226, 212, 188), (158, 92, 52)]
)


@dataclass(frozen=True)
class Look:
    """How a mesh is painted; everything random about it follows from `seed`."""

    coat: Coat = "own"
    backdrop: Backdrop = "plain"
    light: tuple[float, float, float] = (-0.4, -0.7, -0.6)  # towards the light, in the camera's axes
    ambient: float = 0.45
    smooth: bool = True  # normals interpolated over the surface, or one per face
    seed: int = 0
    background: UInt8[np.ndarray, "h w 3"] | None = None  # given pixels instead of a drawn backdrop


def draw_look(seed: int, coats: Sequence[Coat], backdrops: Sequence[Backdrop]) -> Look:
    """A look at random of these families, light from above."""
    generator = np.random.default_rng(seed)
    azimuth, height = generator.uniform(0, 2 * math.pi), generator.uniform(0.3, 0.9)
    level = math.sqrt(1 - height**2)
    return Look(
        coat=coats[int(generator.integers(len(coats)))],
        backdrop=backdrops[int(generator.integers(len(backdrops)))],
        light=(level * math.cos(azimuth), -height, -abs(level * math.sin(azimuth))),
        ambient=float(generator.uniform(0.3, 0.6)),
        seed=int(generator.integers(2**31)),
    )


def coat_colours(
    look: Look, points: Float[np.ndarray, "n 3"], own: Float[np.ndarray, "n 3"] | None
) -> Float[np.ndarray, "n 3"]:
    """RGB in [0, 1] at points of a mesh scaled to a diagonal of one; `own` are the mesh's colours there.

    In the precision of the points: sines, which are most of the work, are several times as fast in single precision.
    """
    if look.coat == "own" and own is not None:
        return own
    generator = np.random.default_rng(look.seed)
    first, second = (FUR[generator.permutation(len(FUR))[:2]] / 255.0).astype(points.dtype)
    noise = _noise(points, generator, frequency=12.0)
    if look.coat in ("own", "plain"):
        return first * (1 + 0.08 * noise[:, None])
    direction = generator.normal(size=3)
    along = points @ (direction / np.linalg.norm(direction)).astype(points.dtype)
    share = {
        "patches": lambda: _step(_noise(points, generator, frequency=8.0)),
        "stripes": lambda: _step(np.sin(60 * along + 2.0 * noise)),
        "spots": lambda: _step(_noise(points, generator, frequency=40.0) - 0.7),
        "marble": lambda: 0.5 + 0.5 * np.sin(14 * along + 4.0 * noise),
    }[look.coat]()
    return first + share[:, None] * (second - first)


def backdrop_pixels(look: Look, size: Size) -> UInt8[np.ndarray, "3 h w"]:
    """RGB of what is behind the mesh."""
    if look.background is not None:
        rows, columns = (np.arange(s) * g // s for s, g in zip(size, look.background.shape[:2], strict=True))
        return np.ascontiguousarray(look.background[rows[:, None], columns].transpose(2, 0, 1))
    generator = np.random.default_rng(look.seed + 1)
    first, second, third = generator.uniform(0.2, 0.95, (3, 3))[..., None, None]
    x, y = ((np.arange(size[1]) + 0.5) / size[1])[None], ((np.arange(size[0]) + 0.5) / size[0])[:, None]
    if look.backdrop in ("plain", "gradient"):
        colours = first + y * (second - first) if look.backdrop == "gradient" else first
        return np.broadcast_to(to_bytes(colours), (3, *size)).copy()
    points = np.stack([*(c.reshape(-1) for c in np.broadcast_arrays(x, y)), np.zeros(size[0] * size[1])], 1)
    fine, coarse = (_noise(points.astype(np.float32), generator, frequency=f).reshape(size) for f in (60.0, 10.0))
    if look.backdrop == "noise":
        return to_bytes(first + 0.25 * coarse * (second - first) + 0.08 * fine + 0.1 * third)
    horizon = generator.uniform(0.3, 0.6)
    sky = np.array([0.62, 0.76, 0.92])[:, None, None] + 0.1 * coarse
    grass = np.array([0.30, 0.46, 0.20])[:, None, None] + 0.07 * fine + 0.05 * coarse
    return to_bytes(np.where(y < horizon, sky, grass))


def to_bytes(colours: Float[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    """Colours in [0, 1] as bytes, rounded; what is beyond is clipped."""
    return (np.clip(colours, 0, 1) * 255).round().astype(np.uint8)


def shade(
    look: Look, colours: Float[np.ndarray, "n 3"], normals: Float[np.ndarray, "n 3"], facing: Bool[np.ndarray, "n"]
) -> Float[np.ndarray, "n 3"]:
    """Colours under the light; `normals` in the camera's axes, turned towards it where they are not `facing` it."""
    light = (np.array(look.light) / np.linalg.norm(look.light)).astype(normals.dtype)
    towards = normals @ light
    lambert = np.clip(np.where(facing, towards, -towards), 0, 1)
    return np.clip(colours * (look.ambient + (1.15 - look.ambient) * lambert)[:, None], 0, 1)


def _noise(
    points: Float[np.ndarray, "n 3"], generator: np.random.Generator, *, frequency: float
) -> Float[np.ndarray, "n"]:
    """A smooth random function of about unit variance: a sum of waves in random directions."""
    waves = generator.normal(size=(12, 3))
    waves *= frequency * generator.uniform(0.5, 1.5, (12, 1)) / np.linalg.norm(waves, axis=1, keepdims=True)
    phases = generator.uniform(0, 2 * math.pi, 12)
    angles = waves.astype(points.dtype) @ points.T + phases.astype(points.dtype)[:, None]
    return np.sin(angles, out=angles).sum(0) / math.sqrt(6)


def _step(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return 1 / (1 + np.exp(np.clip(-12 * values, -50, 50)))
