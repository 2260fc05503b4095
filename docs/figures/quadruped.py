"""Writes a mesh of a spotted cat, made by formula: `python docs/figures/quadruped.py cat.ply` (needs the [pose] extra).

Balls and the hulls between them melt into one surface, which surface nets (Gibson 1998) turn into triangles. y is up,
the cat faces +z, and its own left is +x. It lets you try `geco pose` without a mesh of your own.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from geco.pose import Mesh

Place = tuple[float, float, float]
SPACING = 0.022  # of the grid: about the length of an edge
MELT = 0.018  # over about this length parts run into one another

# Chains of balls (x, y, z, radius) whose hulls are filled; those with x > 0 are on the left and have a twin.
MIDDLE: tuple[tuple[tuple[float, float, float, float], ...], ...] = (
    ((0, 0.80, 0.42, 0.19), (0, 0.80, 0.05, 0.17), (0, 0.83, -0.40, 0.165)),  # trunk
    ((0, 0.69, 0.38, 0.13), (0, 0.73, -0.25, 0.10)),  # belly
    ((0, 0.88, 0.48, 0.15), (0, 1.03, 0.70, 0.11)),  # neck
    ((0, 1.10, 0.80, 0.118), (0, 1.065, 0.86, 0.095)),  # skull
    ((0, 1.06, 0.90, 0.070), (0, 1.030, 0.985, 0.050)),  # muzzle
    ((0, 1.00, 0.87, 0.060), (0, 0.990, 0.955, 0.040)),  # chin
    ((0, 0.88, -0.52, 0.06), (0, 0.80, -0.72, 0.042), (0, 0.58, -0.88, 0.036), (0, 0.40, -0.98, 0.036)),
    ((0, 0.40, -0.98, 0.036), (0, 0.34, -1.10, 0.036), (0, 0.36, -1.20, 0.034)),  # tail
)
LEFT: tuple[tuple[tuple[float, float, float, float], ...], ...] = (
    ((0.10, 0.80, 0.42, 0.11), (0.13, 0.56, 0.36, 0.070), (0.125, 0.33, 0.41, 0.050), (0.12, 0.10, 0.40, 0.042)),
    ((0.12, 0.045, 0.40, 0.045), (0.12, 0.040, 0.46, 0.042)),  # front paw
    ((0.09, 0.80, -0.38, 0.14), (0.13, 0.56, -0.30, 0.085), (0.13, 0.33, -0.52, 0.048), (0.12, 0.10, -0.46, 0.040)),
    ((0.12, 0.045, -0.45, 0.045), (0.12, 0.040, -0.39, 0.042)),  # back paw
    ((0.072, 1.175, 0.770, 0.045), (0.098, 1.235, 0.755, 0.022)),  # ear
    ((0.045, 1.035, 0.90, 0.050), (0.030, 1.020, 0.965, 0.035)),  # cheek
)
# Places on the left or in the middle; landmarks() adds the twins.
LANDMARKS: dict[str, Place] = {
    "nose": (0, 1.045, 1.035),
    "left_eye": (0.058, 1.110, 0.905),
    "left_ear": (0.098, 1.255, 0.755),
    "withers": (0, 0.99, 0.40),
    "tailbase": (0, 0.93, -0.55),
    "tailtip": (0, 0.36, -1.235),
    "left_front_elbow": (0.19, 0.56, 0.33),
    "left_front_knee": (0.17, 0.33, 0.42),
    "left_front_paw": (0.12, 0.04, 0.50),
    "left_back_knee": (0.19, 0.56, -0.24),
    "left_back_hock": (0.15, 0.33, -0.57),
    "left_back_paw": (0.12, 0.04, -0.35),
}


def quadruped() -> Mesh:
    """The animal, with the colours of a spotted cat."""
    low, high = np.array([-0.33, -0.06, -1.32]), np.array([0.33, 1.34, 1.14])
    ticks = [np.arange(a, b + SPACING, SPACING) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), -1)
    vertices, faces = surface_net(field(points.reshape(-1, 3)).reshape(points.shape[:3]))
    places = low + SPACING * vertices
    return Mesh(places, faces, colours(places)[faces], name="cat")


def landmarks(mesh: Mesh) -> dict[str, int]:
    """The vertex of each landmark, by its name; left and right are the animal's own."""
    mirrored = {name.replace("left", "right"): (-x, y, z) for name, (x, y, z) in LANDMARKS.items()}
    places = {**LANDMARKS, **mirrored}
    return {name: int(np.linalg.norm(mesh.vertices - place, axis=1).argmin()) for name, place in places.items()}


def field(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n"]:
    """About the distance from the surface, negative inside; the same on both sides of the body."""
    mirrored = np.concatenate([np.abs(points[:, :1]), points[:, 1:]], 1)
    total = np.full(len(points), -np.inf)
    for chain in MIDDLE + LEFT:
        for start, end in itertools.pairwise(chain):
            total = np.logaddexp(total, -_cone(mirrored, np.array(start), np.array(end)) / MELT)
    return -MELT * total


def _cone(
    points: Float[np.ndarray, "n 3"], start: Float[np.ndarray, "4"], end: Float[np.ndarray, "4"]
) -> Float[np.ndarray, "n"]:
    axis = end[:3] - start[:3]
    share = np.clip((points - start[:3]) @ axis / (axis @ axis), 0, 1)
    near = start + share[:, None] * (end - start)
    return np.linalg.norm(points - near[:, :3], axis=1) - near[:, 3]


def surface_net(values: Float[np.ndarray, "x y z"]) -> tuple[Float[np.ndarray, "v 3"], Int[np.ndarray, "f 3"]]:
    """Triangles, oriented outwards, where values on a grid change their sign; places count its steps."""
    corners = np.stack(np.meshgrid(*[[0, 1]] * 3, indexing="ij"), -1).reshape(-1, 3)
    shape = np.array(values.shape) - 1
    around = [values[tuple(slice(c, c + s) for c, s in zip(corner, shape, strict=True))] for corner in corners]
    cell = np.stack(around, -1)  # (x, y, z, 8)
    crossed = (cell < 0).any(-1) & (cell >= 0).any(-1)
    number = np.full(tuple(shape), -1)
    number[crossed] = np.arange(crossed.sum())
    at = cell[crossed]
    total, count = np.zeros((len(at), 3)), np.zeros((len(at), 1))
    edges = [(i, j) for i in range(8) for j in range(i) if np.abs(corners[i] - corners[j]).sum() == 1]
    for i, j in edges:
        cut = ((at[:, i] < 0) != (at[:, j] < 0))[:, None]
        share = (at[:, i] / np.where(cut[:, 0], at[:, i] - at[:, j], 1))[:, None]
        total += np.where(cut, corners[i] + share * (corners[j] - corners[i]), 0)
        count += cut
    return np.argwhere(crossed) + total / count, np.concatenate([_quads(values, number, axis) for axis in range(3)])


def _quads(values: Float[np.ndarray, "x y z"], number: Int[np.ndarray, "a b c"], axis: int) -> Int[np.ndarray, "f 3"]:
    """Two triangles around each crossed edge along an axis, between the cells that share it."""
    values, number = (np.moveaxis(array, axis, 0) for array in (values, number))
    if axis == 1:  # the other two axes have changed their order
        values, number = values.swapaxes(1, 2), number.swapaxes(1, 2)
    below, above = values[:-1, 1:-1, 1:-1] < 0, values[1:, 1:-1, 1:-1] < 0
    faces = []
    for leaving, order in ((below & ~above, (0, 1, 2, 3)), (~below & above, (3, 2, 1, 0))):
        x, y, z = np.nonzero(leaving)
        ring = (number[x, y, z], number[x, y + 1, z], number[x, y + 1, z + 1], number[x, y, z + 1])
        a, b, c, d = (ring[i] for i in order)
        faces += [np.stack([a, b, c], 1), np.stack([a, c, d], 1)]
    return np.concatenate(faces)


def colours(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """Sand, pale below, with dark spots, eyes, nose, backs of the ears and tip of the tail."""
    x, y, z = np.abs(points[:, 0]), points[:, 1], points[:, 2]
    sand, pale, dark = np.array([0.80, 0.62, 0.38]), np.array([0.93, 0.88, 0.78]), np.array([0.12, 0.09, 0.07])
    below = np.clip((0.70 - y) / 0.08, 0, 1) * (np.abs(z) < 0.42) * (x < 0.12)
    muzzle = np.clip((1.045 - y) / 0.03, 0, 1) * (z > 0.84)
    painted = sand + np.maximum(below, muzzle)[:, None] * (pale - sand)
    spot = np.sin(55 * points[:, 0] + 3 * np.sin(23 * z)) * np.sin(52 * y + 2 * np.sin(31 * z)) * np.sin(49 * z)
    spotted = (spot > 0.35) & (y < 1.0) & (below < 0.5)
    ear = (y > 1.19) & (z < 0.755)
    tip = (z < -1.12) | ((z < -0.80) & (np.sin(60 * z) > 0.4))
    eye, nose = (np.linalg.norm(np.stack([x, y, z], 1) - LANDMARKS[name], axis=1) for name in ("left_eye", "nose"))
    tear = (np.abs(x - 0.045) < 0.012) & (y > 1.0) & (y < 1.10) & (z > 0.90)
    painted[spotted | ear | tip | tear] = dark
    painted[(eye < 0.026) | (nose < 0.032)] = dark * 0.4
    return painted


def write(mesh: Mesh, path: Path) -> Path:
    """The mesh as a file with a colour for each vertex."""
    import trimesh

    shades = np.round(255 * colours(mesh.vertices)).astype(np.uint8)
    trimesh.Trimesh(mesh.vertices, mesh.faces, vertex_colors=shades, process=False).export(path)
    return path


if __name__ == "__main__":
    made = quadruped()
    written = write(made, Path(sys.argv[1] if len(sys.argv) > 1 else "cat.ply"))
    print(f"{written}: {len(made.vertices)} vertices, {len(made.faces)} faces")
