"""Meshes made up for tests: spheres, planes, an asymmetric animal of boxes, and a rigged glTF written by hand."""

import base64
import json

import numpy as np
import trimesh

from geco.pose.meshes import Mesh, subdivide
from geco.pose.rig import Nodes, Rig


def mesh_of(shape, name="made"):
    return Mesh(np.array(shape.vertices, np.float64), np.array(shape.faces, np.int64), name=name)


def sphere(subdivisions=4, radius=1.0):
    return mesh_of(trimesh.creation.icosphere(subdivisions=subdivisions, radius=radius), "sphere")


def plane(side=1.0, cells=40):
    """A square in the plane z = 0, as a grid of triangles."""
    ticks = np.linspace(0, side, cells + 1)
    x, y = np.meshgrid(ticks, ticks, indexing="ij")
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).reshape(-1)
    a, b, c, d = corner, corner + cells + 1, corner + cells + 2, corner + 1
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return Mesh(np.stack([x, y, np.zeros_like(x)], -1).reshape(-1, 3), faces, name="plane")


def box(extents=(1, 1, 1), at=(0, 0, 0)):
    return trimesh.creation.box(extents=extents, transform=trimesh.transformations.translation_matrix(at))


def animal():
    """Boxes: body, head (to +z), four legs, a tail, and one horn on the left (+x), which no mirror image has."""
    parts = [box((1, 1, 2)), box((0.6, 0.6, 0.7), (0, 0.7, 1.2)), box((0.1, 0.1, 0.8), (0, 0.3, -1.3))]
    parts += [box((0.25, 1, 0.25), (x, -0.9, z)) for x in (-0.35, 0.35) for z in (-0.8, 0.8)]
    parts.append(box((0.12, 0.7, 0.12), (0.25, 1.3, 1.2)))
    return mesh_of(trimesh.util.concatenate(parts), "animal")


JOINTS = {
    "Head": (0, 0.7, 1.0),
    "Neck1": (0, 0.5, 0.8),
    "Torso3": (0, 0.2, 0.6),
    "Tail1": (0, 0.3, -0.95),
    **{
        f"{name}.{side}": (sign * x, y, z)
        for side, sign in (("L", 1), ("R", -1))
        for name, x, y, z in (
            ("Ear1", 0.25, 0.95, 1.1),
            ("FrontUpperLeg", 0.35, -0.4, 0.8),
            ("FF", 0.35, -1.3, 0.8),
            ("BackUpperLeg", 0.35, -0.4, -0.8),
            ("BackLowerLeg", 0.35, -0.9, -0.8),
            ("FFB", 0.35, -1.3, -0.8),
        )
    },
}


def rigged_animal(*, legs=1.0, vertices=800, name="rigged"):
    """The animal of boxes with bones in it, its legs longer by a factor; each vertex follows its nearest joint."""
    mesh = subdivide(animal(), vertices)
    places = np.array(list(JOINTS.values()), np.float64)
    nearest = np.linalg.norm(mesh.vertices[:, None] - places, axis=-1).argmin(1)
    weights = np.eye(len(places))[nearest]

    def stretched(points):
        longer = np.where(points[:, 1] < -0.5, -0.5 + (points[:, 1] + 0.5) * legs, points[:, 1])
        return np.stack([points[:, 0], longer, points[:, 2]], 1)

    bind = np.tile(np.eye(4), (len(places), 1, 1))
    bind[:, :3, 3] = stretched(places)
    count = len(places)
    still = Nodes(
        (-1,) * count, bind[:, :3, 3], np.tile([0, 0, 0, 1.0], (count, 1)), np.ones((count, 3)), tuple(range(count))
    )
    eyes = (np.abs(mesh.vertices[:, 0]) > 0.2) & (mesh.vertices[:, 2] > 1.5) & (mesh.vertices[:, 1] > 0.75)
    rig = Rig(
        joints=tuple(JOINTS),
        bind=bind,
        weights=weights,
        parent=(-1,) * count,
        materials=eyes.astype(np.int64),
        material_names=("Coat", "Eyes"),
        nodes=still,
        joint_nodes=tuple(range(count)),
    )
    return Mesh(stretched(mesh.vertices), mesh.faces, rig=rig, name=name)


def rigged_gltf(path):
    """A bar of two bones along y, the upper one turned by 90° about z in its animation after one second."""
    y = np.repeat([0.0, 1.0, 2.0], 4)
    square = np.array([(-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1)])
    vertices = np.stack([np.tile(square[:, 0], 3), y, np.tile(square[:, 1], 3)], 1).astype(np.float32)
    faces = [
        face
        for ring in (0, 4)
        for i in range(4)
        for face in (
            (ring + i, ring + (i + 1) % 4, ring + 4 + i),
            (ring + (i + 1) % 4, ring + 4 + (i + 1) % 4, ring + 4 + i),
        )
    ]
    upper = (y > 1).astype(np.float32)
    middle = (y == 1).astype(np.float32) * 0.5
    weights = np.stack([1 - upper - middle, upper + middle, 0 * upper, 0 * upper], 1).astype(np.float32)
    joints = np.tile(np.array([0, 1, 0, 0], np.uint8), (12, 1))
    inverse = np.stack([np.eye(4), np.eye(4)]).astype(np.float32)
    inverse[1, 3, 1] = -1  # by columns: the upper joint sits at y = 1
    turned = np.array([[0, 0, 0, 1], [0, 0, np.sin(np.pi / 4), np.cos(np.pi / 4)]], np.float32)
    arrays = [
        (vertices, 5126, "VEC3"),
        (np.array(faces, np.uint16).reshape(-1), 5123, "SCALAR"),
        (joints, 5121, "VEC4"),
        (weights, 5126, "VEC4"),
        (inverse, 5126, "MAT4"),
        (np.array([0, 1], np.float32), 5126, "SCALAR"),
        (turned, 5126, "VEC4"),
    ]
    buffer, views, accessors = b"", [], []
    for number, (values, kind, shape) in enumerate(arrays):
        raw = values.tobytes()
        views.append({"buffer": 0, "byteOffset": len(buffer), "byteLength": len(raw)})
        accessors.append({"bufferView": number, "componentType": kind, "type": shape, "count": len(values)})
        buffer += raw + bytes(-len(raw) % 4)
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0, 2]}],
        "nodes": [
            {"name": "Lower", "children": [1]},
            {"name": "Upper.L", "translation": [0, 1, 0]},
            {"name": "Bar", "mesh": 0, "skin": 0},
        ],
        "materials": [{"name": "Red", "pbrMetallicRoughness": {"baseColorFactor": [1, 0, 0, 1]}}],
        "meshes": [
            {
                "primitives": [
                    {"attributes": {"POSITION": 0, "JOINTS_0": 2, "WEIGHTS_0": 3}, "indices": 1, "material": 0}
                ]
            }
        ],
        "skins": [{"joints": [0, 1], "inverseBindMatrices": 4}],
        "animations": [
            {
                "name": "Bend",
                "channels": [{"sampler": 0, "target": {"node": 1, "path": "rotation"}}],
                "samplers": [{"input": 5, "output": 6, "interpolation": "LINEAR"}],
            }
        ],
        "buffers": [
            {
                "byteLength": len(buffer),
                "uri": "data:application/octet-stream;base64," + base64.b64encode(buffer).decode(),
            }
        ],
        "bufferViews": views,
        "accessors": accessors,
    }
    path.write_text(json.dumps(document))
    return path
