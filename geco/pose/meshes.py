"""Meshes: a file → vertices and faces that can be rendered and measured on, or one line that says what is wrong."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from geco.errors import InputError, MissingFileError, MissingPackageError
from geco.pose import gltf
from geco.pose.rig import Rig

ENDINGS = (".glb", ".gltf", ".obj", ".ply", ".off", ".stl")
FACES = 1_000_000  # above it, rendering and geodesics take minutes and gigabytes
SAME = 1e-7  # of the diagonal: vertices closer than this are one
ANIMALS = (0.01, 100.0)  # metres: diagonals of objects seen in images


@dataclass(frozen=True)
class Mesh:
    """Triangles; `colours` are RGB in [0, 1] of each corner of each face, so that sharp borders between them stay."""

    vertices: Float[np.ndarray, "v 3"]
    faces: Int[np.ndarray, "f 3"]
    colours: Float[np.ndarray, "f 3 3"] | None = None
    rig: Rig | None = None
    name: str = "mesh"

    @property
    def diagonal(self) -> float:
        """Length of the bounding box's diagonal."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))

    @property
    def digest(self) -> str:
        """Equal for meshes with equal vertices and faces, to float32."""
        content = hashlib.sha256(np.ascontiguousarray(self.vertices, np.float32).tobytes())
        content.update(np.ascontiguousarray(self.faces, np.int64).tobytes())
        return content.hexdigest()

    def normals(self) -> Float[np.ndarray, "f 3"]:
        """Unit normal of each face; zero for one without area."""
        a, b, c = (self.vertices[self.faces[:, i]] for i in range(3))
        normal = np.cross(b - a, c - a)
        return normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)


def load_mesh(path: str | Path, *, vertices: int | None = None, faces: int = FACES) -> Mesh:
    """The mesh in a file, in bind pose, duplicate vertices merged; subdivided to `vertices` if it has fewer.

    `faces` is the largest number that is accepted.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; expected a mesh ({', '.join(ENDINGS)})")
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} is not a mesh that can be read; expected one of {', '.join(ENDINGS)}")
    skinned = gltf.read(path) if path.suffix.lower() in (".glb", ".gltf") else None
    mesh = Mesh(skinned.vertices, skinned.faces, skinned.colours, skinned.rig) if skinned else _through_trimesh(path)
    mesh = replace(mesh, name=path.stem)
    _check(mesh, str(path), faces)
    mesh = merge(mesh)
    if not len(mesh.faces):
        raise InputError(f"{path}: every face has zero area; expected a surface")
    return subdivide(mesh, vertices) if vertices else mesh


def _through_trimesh(path: Path) -> Mesh:
    try:
        import trimesh
    except ImportError:
        raise MissingPackageError.of_extra("pose", "trimesh", what="reading a mesh") from None
    try:
        scene = trimesh.load_scene(str(path), process=False)
        parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh)]
    except Exception as error:  # every reader of every format has its own kinds
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{path} is damaged or not a mesh of its ending: {reason}") from None
    if not parts:
        raise InputError(f"{path} holds no faces; expected a surface of triangles, not points or lines")
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    corners = [_corner_colours(part) for part in parts]
    known = all(colours is not None for colours in corners)
    return Mesh(
        np.concatenate([np.asarray(part.vertices, np.float64) for part in parts]),
        np.concatenate([np.asarray(part.faces, np.int64) + s for part, s in zip(parts, starts, strict=False)]),
        np.concatenate([c for c in corners if c is not None]) if known else None,
    )


def _corner_colours(part: object) -> Float[np.ndarray, "f 3 3"] | None:
    """Colours of trimesh's mesh at the corners of its faces, from its texture, material or vertices."""
    visual, faces = part.visual, part.faces  # type: ignore[attr-defined]
    if not visual.defined or not len(faces):
        return None
    if visual.kind == "face":
        return np.repeat(np.asarray(visual.face_colors)[:, None, :3] / 255.0, 3, axis=1)
    try:
        colours = np.asarray(visual.to_color().vertex_colors if visual.kind == "texture" else visual.vertex_colors)
    except (ValueError, AttributeError, IndexError, TypeError):  # a texture without its image or coordinates
        return None
    if colours.ndim != 2 or len(colours) != len(part.vertices):  # type: ignore[attr-defined]
        return None
    return colours[:, :3][faces] / 255.0


def _check(mesh: Mesh, name: str, limit: int) -> None:
    if not len(mesh.faces):
        raise InputError(f"{name} holds no faces; expected a surface of triangles, not points or lines")
    if len(mesh.faces) > limit:
        raise InputError(
            f"{name} has {len(mesh.faces):,} faces, above the limit of {limit:,}; simplify it first "
            "(Blender: Decimate), some thousand are enough"
        )
    if not np.isfinite(mesh.vertices).all():
        bad = int((~np.isfinite(mesh.vertices)).any(1).sum())
        raise InputError(f"{name}: {bad} vertices are NaN or infinite; export it again")
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.vertices):
        raise InputError(f"{name}: a face names vertex {mesh.faces.max()}, but there are {len(mesh.vertices)}")
    if not mesh.diagonal > 0:
        raise InputError(f"{name} has zero size: all its vertices are one point")


def merge(mesh: Mesh) -> Mesh:
    """The mesh with vertices at the same place made one, and without faces of zero area and vertices without faces."""
    grid = np.round((mesh.vertices - mesh.vertices.min(0)) / (SAME * mesh.diagonal)).astype(np.int64)
    _, first, place = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    faces = first[place.reshape(-1)][mesh.faces]
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    used, faces = np.unique(faces[whole], return_inverse=True)
    return replace(
        mesh,
        vertices=mesh.vertices[used],
        faces=faces.reshape(-1, 3).astype(np.int64),
        colours=None if mesh.colours is None else mesh.colours[whole],
        rig=mesh.rig and mesh.rig.at(used),
    )


def subdivide(mesh: Mesh, vertices: int) -> Mesh:
    """The same surface with at least `vertices` vertices: its longest edges are halved until there are that many."""
    while (missing := vertices - len(mesh.vertices)) > 0:
        mesh = _halve_longest(mesh, missing)
    return mesh


def _halve_longest(mesh: Mesh, limit: int) -> Mesh:
    """Up to `limit` edges halved: longest first among those that are the longest of every face they bound.

    A face has one longest edge, so no face is cut twice and the cuts fit together.
    """
    corners = np.sort(np.stack([mesh.faces, np.roll(mesh.faces, -1, axis=1)], axis=-1), axis=-1)  # (f, 3, 2)
    edges, edge_of, times = np.unique(corners.reshape(-1, 2), axis=0, return_inverse=True, return_counts=True)
    edge_of = edge_of.reshape(-1, 3)
    length = np.linalg.norm(mesh.vertices[edges[:, 0]] - mesh.vertices[edges[:, 1]], axis=1)
    rank = np.empty(len(edges), np.int64)
    rank[np.argsort(length, kind="stable")] = np.arange(len(edges))  # without ties
    side = rank[edge_of].argmax(1)
    longest = edge_of[np.arange(len(side)), side]
    chosen = np.flatnonzero(np.bincount(longest, minlength=len(edges)) == times)
    chosen = chosen[np.argsort(-rank[chosen])][:limit]
    new = np.full(len(edges), -1)
    new[chosen] = len(mesh.vertices) + np.arange(len(chosen))
    cut = new[longest] >= 0
    middle = new[longest][cut]
    rolled = (side[cut][:, None] + np.arange(3)) % 3  # the cut edge first, then the corner opposite it
    a, b, c = np.take_along_axis(mesh.faces[cut], rolled, axis=1).T
    faces = [mesh.faces[~cut], np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)]
    return replace(
        mesh,
        vertices=np.concatenate([mesh.vertices, mesh.vertices[edges[chosen]].mean(1)]),
        faces=np.concatenate(faces),
        colours=None if mesh.colours is None else _cut_colours(mesh.colours, cut, rolled),
        rig=mesh.rig and mesh.rig.with_middles(edges[chosen]),
    )


def _cut_colours(
    colours: Float[np.ndarray, "f 3 3"], cut: np.ndarray, rolled: Int[np.ndarray, "n 3"]
) -> Float[np.ndarray, "g 3 3"]:
    a, b, c = np.moveaxis(np.take_along_axis(colours[cut], rolled[..., None], axis=1), 1, 0)
    middle = (a + b) / 2
    return np.concatenate([colours[~cut], np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)])


def problems(mesh: Mesh) -> tuple[str, ...]:
    """What may surprise about a mesh that can be used all the same, one line each."""
    half = np.stack([mesh.faces, np.roll(mesh.faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    _, edge_of, times = np.unique(np.sort(half, axis=1), axis=0, return_inverse=True, return_counts=True)
    edge_of = edge_of.reshape(-1)
    forward = np.bincount(edge_of, weights=half[:, 0] < half[:, 1])
    found = []
    if not ANIMALS[0] <= mesh.diagonal <= ANIMALS[1]:
        found.append(
            f"no unit known: a diagonal of {mesh.diagonal:.3g} is hardly metres; distances are in the mesh's own unit"
        )
    if pieces := components(mesh).max():
        found.append(f"{pieces + 1} separate pieces: geodesic distances bridge the gaps between them")
    if (branching := times > 2).any():
        found.append(f"non-manifold: {int(branching.sum())} edges belong to more than two faces")
    if (open_edges := times == 1).any():
        found.append(f"not closed: {int(open_edges.sum())} edges belong to one face only; both sides are rendered")
    if (flipped := (times == 2) & (forward != 1)).any():
        found.append(f"flipped faces: {int(flipped.sum())} edges join faces of opposite orientation; both are rendered")
    elif not branching.any() and not open_edges.any() and _volume(mesh) < 0:
        found.append("inside out: the faces are oriented inwards; both sides are rendered, so nothing changes")
    return tuple(found)


def components(mesh: Mesh) -> Int[np.ndarray, "v"]:
    """Number of the connected piece that each vertex belongs to."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    start, end = mesh.faces.reshape(-1), np.roll(mesh.faces, -1, axis=1).reshape(-1)
    graph = coo_matrix((np.ones(len(start)), (start, end)), shape=(len(mesh.vertices),) * 2)
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _volume(mesh: Mesh) -> float:
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)
