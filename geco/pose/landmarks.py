"""Landmarks on rigged animals: Animal-Pose's keypoints on their surface, and one animal's surface on another's.

Made for four-legged animals whose joints are named as in Quaternius' collection (`FrontUpperLeg.L`, `Ear1.R`, …), in
bind pose, y up; which side is left, the names say.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from geco.errors import InputError
from geco.pose.meshes import Mesh
from geco.pose.rig import Rig

SIDES = {"left": "L", "right": "R"}
# Keypoint of Animal-Pose without its side → joint at whose beginning it lies.
LIMBS = {
    "front_elbow": "FrontUpperLeg",
    "back_elbow": "BackUpperLeg",
    "back_knee": "BackLowerLeg",
    "front_paw": "FF",
    "back_paw": "FFB",
    "ear": "Ear1",
}
FOLLOWS = 0.3  # share of a joint that a vertex must follow to belong to it
MIDDLE = 0.03  # of the diagonal: nearer than this to the plane of symmetry is on the middle line


@dataclass(frozen=True)
class Body:
    """Directions and places of an animal in bind pose, from its joints."""

    mesh: Mesh
    rig: Rig
    up: Float[np.ndarray, "3"]
    left: Float[np.ndarray, "3"]
    forward: Float[np.ndarray, "3"]

    @property
    def middle(self) -> Bool[np.ndarray, "v"]:
        """Vertices on the middle line."""
        off = (self.mesh.vertices - self.rig.head("Head")) @ self.left
        return np.abs(off) < MIDDLE * self.mesh.diagonal

    def side(self, sign: float) -> Bool[np.ndarray, "v"]:
        """Vertices on the left (1) or the right (−1)."""
        return ((self.mesh.vertices - self.rig.head("Head")) @ self.left) * sign > 0

    def following(self, *joints: str) -> Bool[np.ndarray, "v"]:
        """Vertices that follow the joints whose names begin with one of these."""
        columns = [i for i, name in enumerate(self.rig.joints) if name.startswith(joints)]
        return self.rig.weights[:, columns].sum(1) > FOLLOWS

    def nearest(self, place: Float[np.ndarray, "3"], among: Bool[np.ndarray, "v"]) -> int:
        """The vertex nearest to a place."""
        distance = np.linalg.norm(self.mesh.vertices - place, axis=1)
        return int(np.where(among, distance, np.inf).argmin())

    def furthest(self, direction: Float[np.ndarray, "3"], among: Bool[np.ndarray, "v"]) -> int:
        """The vertex that lies furthest in a direction."""
        return int(np.where(among, self.mesh.vertices @ direction, -np.inf).argmax())


def body_of(mesh: Mesh) -> Body:
    """The animal's directions; refused for a mesh without such joints."""
    needed = {"Head", "Tail1", "Torso3", "FrontUpperLeg.L", "FrontUpperLeg.R", "FF.L", "FF.R"}
    if mesh.rig is None or not needed <= set(mesh.rig.joints):
        raise InputError(f"{mesh.name} has no joints {', '.join(sorted(needed))}; landmarks need a rigged animal")
    up = np.array([0.0, 1.0, 0.0])
    left = mesh.rig.head("FrontUpperLeg.L") - mesh.rig.head("FrontUpperLeg.R")
    left = left / np.linalg.norm(left)
    return Body(mesh, mesh.rig, up, left, np.cross(left, up))


def animal_landmarks(mesh: Mesh) -> dict[str, int]:
    """Vertex of each of Animal-Pose's keypoints that the rig tells, by its name there."""
    body = body_of(mesh)
    landmarks = {}
    for word, letter in SIDES.items():
        sign = 1.0 if word == "left" else -1.0
        for keypoint, joint in LIMBS.items():
            if f"{joint}.{letter}" in body.rig.joints:
                place = body.rig.head(f"{joint}.{letter}")
                landmarks[f"{word}_{keypoint}"] = body.nearest(place, body.side(sign))
        # Halfway down the leg: the joint FrontLowerLeg is at the knee of a horse but at the elbow of a dog.
        knee = (body.rig.head(f"FrontUpperLeg.{letter}") + body.rig.head(f"FF.{letter}")) / 2
        landmarks[f"{word}_front_knee"] = body.nearest(knee, body.side(sign))
        eye = _eyes(body) & body.side(sign)
        if eye.any():
            landmarks[f"{word}_eye"] = body.nearest(mesh.vertices[eye].mean(0), eye)
    head = body.following("Head")
    landmarks["nose"] = body.furthest(body.forward - 0.3 * body.up, head & body.middle)
    landmarks["tailbase"] = body.nearest(body.rig.head("Tail1") + 0.05 * mesh.diagonal * body.up, body.middle)
    along = np.abs((mesh.vertices - body.rig.head("Torso3")) @ body.forward) < MIDDLE * mesh.diagonal
    landmarks["withers"] = body.furthest(body.up, along & body.middle)
    below = body.rig.head("Head") + 0.1 * mesh.diagonal * (body.forward * 0.3 - body.up)
    landmarks["throat"] = body.nearest(below, body.middle & body.following("Head", "Neck"))
    return landmarks


def _eyes(body: Body) -> Bool[np.ndarray, "v"]:
    named = [i for i, name in enumerate(body.rig.material_names) if "eye" in name.lower()]
    return np.isin(body.rig.materials, named)


def transfer_vertices(source: Mesh, target: Mesh) -> Int[np.ndarray, "v"]:
    """For each vertex of the source animal the vertex of the target animal at the same place of its body.

    Both have the same joints: a vertex moves with the bones it follows, as if the source's bones were put where the
    target's are and stretched to their lengths, and goes to the nearest vertex that follows the same side.
    """
    if source.rig is None or target.rig is None:
        raise InputError("the places of one animal on another are found through their bones; both must be rigged")
    moved = _moved(source, source.rig, target.rig)
    from scipy.spatial import cKDTree

    answer = np.full(len(moved), -1)
    body, other = body_of(source), body_of(target)
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(body.side(sign) | body.middle)
        among = np.flatnonzero(other.side(sign) | other.middle)
        _, nearest = cKDTree(target.vertices[among]).query(moved[rows])
        unset = answer[rows] < 0
        answer[rows[unset]] = among[nearest[unset]]
    return answer


def _moved(source: Mesh, rig: Rig, other: Rig) -> Float[np.ndarray, "v 3"]:
    """Vertices of the source after its bones have taken the places and lengths of the other rig's."""
    place = np.zeros((len(source.vertices), 3))
    total = np.zeros((len(source.vertices), 1))
    for number, name in enumerate(rig.joints):
        weight = rig.weights[:, number : number + 1]
        if name not in other.joints or not weight.any():
            continue
        start, end = rig.head(name), other.head(name)
        place += weight * ((source.vertices - start) * _stretch(rig, other, name) + end)
        total += weight
    alone = total[:, 0] < 1e-6  # follows only joints that the other has not: stays where it is relative to the box
    scaled = (source.vertices - source.vertices.mean(0)) * np.ptp(other.bind[:, :3, 3]) / np.ptp(rig.bind[:, :3, 3])
    return np.where(alone[:, None], scaled + other.bind[:, :3, 3].mean(0), place / np.maximum(total, 1e-6))


def _stretch(rig: Rig, other: Rig, name: str) -> float:
    """How much longer the bone after a joint is in the other rig: its children's distance, else its parent's."""
    number = rig.joints.index(name)
    children = [j for j, parent in enumerate(rig.parent) if parent == number and rig.joints[j] in other.joints]
    near = children or [p for p in [rig.parent[number]] if p >= 0 and rig.joints[p] in other.joints]
    lengths = [
        (
            np.linalg.norm(rig.head(rig.joints[j]) - rig.head(name)),
            np.linalg.norm(other.head(rig.joints[j]) - other.head(name)),
        )
        for j in near
    ]
    mine, others = (sum(float(pair[i]) for pair in lengths) for i in range(2))
    return others / mine if mine > 1e-9 and others > 1e-9 else 1.0
