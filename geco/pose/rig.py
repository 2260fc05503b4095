"""Rigs: the bones inside a mesh, how far each vertex follows each of them, and the movements they come with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from geco.errors import InputError

if TYPE_CHECKING:
    from geco.pose.meshes import Mesh


@dataclass(frozen=True)
class Track:
    """Values of one property of one node over time, interpolated in between (rotations on the sphere)."""

    node: int
    path: str  # translation, rotation or scale
    times: Float[np.ndarray, "k"]
    values: Float[np.ndarray, "k d"]
    stepped: bool = False

    def at(self, time: float) -> Float[np.ndarray, "d"]:
        """The value at a time; before the first and after the last, those."""
        after = int(np.searchsorted(self.times, time, side="right"))
        if after == 0 or after == len(self.times) or self.stepped:
            return self.values[max(0, after - 1)]
        start, end = self.values[after - 1], self.values[after]
        share = (time - self.times[after - 1]) / (self.times[after] - self.times[after - 1])
        return _slerp(start, end, share) if self.path == "rotation" else start + share * (end - start)


@dataclass(frozen=True)
class Nodes:
    """The tree of nodes that joints belong to, at rest."""

    parent: tuple[int, ...]  # −1: a root
    translation: Float[np.ndarray, "n 3"]
    rotation: Float[np.ndarray, "n 4"]  # quaternion x, y, z, w
    scale: Float[np.ndarray, "n 3"]
    order: tuple[int, ...]  # parents before children

    def world(self) -> Float[np.ndarray, "n 4 4"]:
        """The transform of each node to the world."""
        local = np.tile(np.eye(4), (len(self.parent), 1, 1))
        local[:, :3, :3] = _matrices(self.rotation) * self.scale[:, None, :]
        local[:, :3, 3] = self.translation
        for node in self.order:
            if self.parent[node] >= 0:
                local[node] = local[self.parent[node]] @ local[node]
        return local

    def moved(self, tracks: tuple[Track, ...], time: float) -> "Nodes":
        """The nodes at a time of an animation."""
        changed = {key: getattr(self, key).copy() for key in ("translation", "rotation", "scale")}
        for track in tracks:
            changed[track.path][track.node] = track.at(time)
        return replace(self, **changed)


@dataclass(frozen=True)
class Rig:
    """Joints of a skinned mesh: their frames in the bind pose, and how far each vertex follows each joint."""

    joints: tuple[str, ...]
    bind: Float[np.ndarray, "j 4 4"]  # frame of each joint in the bind pose, in the mesh's coordinates
    weights: Float[np.ndarray, "v j"]  # rows sum to 1
    parent: tuple[int, ...]  # joint above each joint; −1: none
    materials: Int[np.ndarray, "v"]  # number of each vertex's material
    material_names: tuple[str, ...]
    nodes: Nodes
    joint_nodes: tuple[int, ...]
    animations: Mapping[str, tuple[Track, ...]] = field(default_factory=dict)

    def at(self, vertices: Int[np.ndarray, "k"]) -> "Rig":
        """The rig of some of the vertices."""
        return replace(self, weights=self.weights[vertices], materials=self.materials[vertices])

    def with_middles(self, edges: Int[np.ndarray, "k 2"]) -> "Rig":
        """The rig with one more vertex in the middle of each of these edges."""
        weights = np.concatenate([self.weights, self.weights[edges].mean(1)])
        return replace(self, weights=weights, materials=np.concatenate([self.materials, self.materials[edges[:, 0]]]))

    def head(self, joint: str) -> Float[np.ndarray, "3"]:
        """Where a joint begins in the bind pose."""
        if joint not in self.joints:
            raise InputError(f"the rig has no joint {joint!r}; it has: {', '.join(self.joints)[:200]}")
        return self.bind[self.joints.index(joint)][:3, 3]


def pose_mesh(mesh: "Mesh", animation: str, time: float) -> "Mesh":
    """The mesh in the pose of one of its animations (a part of its name is enough) at a time in seconds."""
    if mesh.rig is None:
        raise InputError(f"{mesh.name} has no skin, so it cannot be posed; a rigged glTF can")
    names = [name for name in mesh.rig.animations if animation.lower() in name.lower()]
    if not names:
        known = ", ".join(mesh.rig.animations) or "none"
        raise InputError(f"{mesh.name} has no animation {animation!r}; it has: {known[:200]}")
    nodes = mesh.rig.nodes.moved(mesh.rig.animations[min(names, key=len)], time)
    return replace(mesh, vertices=skin(mesh.vertices, mesh.rig, nodes.world()[list(mesh.rig.joint_nodes)]))


def skin(vertices: Float[np.ndarray, "v 3"], rig: Rig, joints: Float[np.ndarray, "j 4 4"]) -> Float[np.ndarray, "v 3"]:
    """Vertices of the bind pose after each joint has moved to a new frame (linear blend skinning)."""
    moves = joints @ np.linalg.inv(rig.bind)
    blended = np.einsum("vj,jab->vab", rig.weights, moves[:, :3])
    return np.einsum("vab,vb->va", blended[:, :, :3], vertices) + blended[:, :, 3]


def _matrices(quaternion: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 3 3"]:
    x, y, z, w = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _slerp(start: Float[np.ndarray, "4"], end: Float[np.ndarray, "4"], share: float) -> Float[np.ndarray, "4"]:
    cosine = float(start @ end)
    end, cosine = (-end, -cosine) if cosine < 0 else (end, cosine)
    if cosine > 0.9995:
        return start + share * (end - start)
    angle = np.arccos(cosine)
    return (np.sin((1 - share) * angle) * start + np.sin(share * angle) * end) / np.sin(angle)
