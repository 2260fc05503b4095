"""Skinned glTF: vertices, joints, weights and animations, read from its JSON and its buffers.

trimesh reads the surface of a glTF but not its skin; this reads what the specification (glTF 2.0, §3.6 to §3.11) says
of skins, for triangles in plain accessors. A file without a skin is left to trimesh.
"""

import base64
import binascii
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from jaxtyping import Float, Int

from geco.errors import InputError
from geco.pose.rig import Nodes, Rig, Track

MAGIC, JSON_CHUNK = 0x46546C67, 0x4E4F534A
TYPES = {5120: np.int8, 5121: np.uint8, 5122: np.int16, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
TRIANGLES = 4
GREY = (0.6, 0.6, 0.6, 1.0)


@dataclass(frozen=True)
class Skinned:
    """The surface of a file in bind pose, and the bones inside it."""

    vertices: Float[np.ndarray, "v 3"]
    faces: Int[np.ndarray, "f 3"]
    colours: Float[np.ndarray, "f 3 3"] | None
    rig: Rig


def read(path: Path) -> Skinned | None:
    """The meshes of the first skin of a glTF file, as one; None if there is no skin."""
    try:
        document = _Document(*_content(path), path)
        holders = [i for i, node in enumerate(document.part("nodes")) if "skin" in node and "mesh" in node]
        return _skinned(document, holders) if holders else None
    except InputError:
        raise
    except Exception as error:  # JSON of any shape raises errors of any kind
        reason = f"{type(error).__name__} {' '.join(str(error).split())}"
        raise InputError(f"{path} is damaged or not a glTF 2.0 file: {reason}"[:280]) from None


def _content(path: Path) -> tuple[dict[str, Any], bytes]:
    """JSON and embedded buffer of a .glb or .gltf."""
    raw = path.read_bytes()
    if len(raw) < 20 or struct.unpack_from("<I", raw)[0] != MAGIC:
        return json.loads(raw.decode("utf-8")), b""
    length, kind = struct.unpack_from("<II", raw, 12)
    if kind != JSON_CHUNK:
        raise InputError(f"{path} is damaged: its first chunk is not JSON; get the file again")
    start = 20 + length
    document = json.loads(raw[20:start])
    if len(raw) < start + 8:
        return document, b""
    size = struct.unpack_from("<I", raw, start)[0]
    if len(raw) < start + 8 + size:
        raise InputError(f"{path} is cut short: {start + 8 + size} bytes expected, {len(raw)} there; get it again")
    return document, raw[start + 8 : start + 8 + size]


class _Document:
    """The JSON of a file with its buffers."""

    def __init__(self, content: dict[str, Any], embedded: bytes, path: Path) -> None:
        self.content, self.path = content, path
        self.buffers = [self._buffer(buffer, embedded) for buffer in self.part("buffers")]

    def part(self, name: str) -> list[dict[str, Any]]:
        return self.content.get(name, [])

    def _buffer(self, buffer: dict[str, Any], embedded: bytes) -> bytes:
        uri = buffer.get("uri")
        if uri is None:
            return embedded
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error:
                raise InputError(f"{self.path} is damaged: a buffer inside it is not base64") from None
        return (self.path.parent / unquote(uri)).read_bytes()

    def accessor(self, index: int) -> Float[np.ndarray, "n d"] | Int[np.ndarray, "n d"]:
        """The rows of an accessor; normalised integers as shares of their largest value."""
        entry = self.part("accessors")[index]
        view = self.part("bufferViews")[entry["bufferView"]]
        kind: np.dtype[Any] = np.dtype(TYPES[entry["componentType"]])
        width = WIDTHS[entry["type"]]
        start = view.get("byteOffset", 0) + entry.get("byteOffset", 0)
        stride = view.get("byteStride", kind.itemsize * width)
        rows: np.ndarray = np.ndarray(
            (entry["count"], width), kind, self.buffers[view["buffer"]], start, (stride, kind.itemsize)
        )
        if kind.kind == "f":
            return rows.astype(np.float64)
        largest = np.iinfo(str(kind)).max
        return rows / largest if entry.get("normalized") else rows.astype(np.int64)


def _skinned(document: _Document, holders: list[int]) -> Skinned:
    entries = [document.part("nodes")[holder] for holder in holders]
    skin = document.part("skins")[entries[0]["skin"]]
    nodes = _nodes(document)
    place = nodes.world()[holders[0]]  # where a skin is, its joints say: the places of further meshes do not count
    meshes = [document.part("meshes")[entry["mesh"]] for entry in entries if entry["skin"] == entries[0]["skin"]]
    pieces = [p for mesh in meshes for p in mesh["primitives"] if p.get("mode", TRIANGLES) == TRIANGLES]
    if not pieces:
        raise InputError(f"{document.path} holds no faces; expected a surface of triangles, not points or lines")
    surfaces = [_surface(document, piece, len(skin["joints"])) for piece in pieces]
    starts = np.cumsum([0, *(len(surface[0]) for surface in surfaces)])
    vertices = np.concatenate([surface[0] for surface in surfaces])
    numbers = [piece.get("material", -1) for piece in pieces]
    inverse = document.accessor(skin["inverseBindMatrices"]).reshape(-1, 4, 4).swapaxes(1, 2)  # stored by columns
    rig = Rig(
        joints=tuple(document.part("nodes")[j].get("name", f"joint {j}") for j in skin["joints"]),
        bind=place @ np.linalg.inv(inverse),
        weights=np.concatenate([surface[2] for surface in surfaces]),
        parent=_joint_parents(nodes, skin["joints"]),
        materials=np.repeat(numbers, [len(surface[0]) for surface in surfaces]),
        material_names=tuple(material.get("name", "") for material in document.part("materials")),
        nodes=nodes,
        joint_nodes=tuple(skin["joints"]),
        animations={entry.get("name", str(i)): _tracks(document, entry) for i, entry in _animations(document)},
    )
    return Skinned(
        vertices @ place[:3, :3].T + place[:3, 3],
        np.concatenate([surface[1] + start for surface, start in zip(surfaces, starts, strict=False)]),
        np.concatenate([surface[3] for surface in surfaces]),
        rig,
    )


def _animations(document: _Document) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(document.part("animations")))


def _surface(
    document: _Document, piece: dict[str, Any], joints: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Vertices, faces, weights and colours of the faces' corners."""
    attributes = piece["attributes"]
    vertices = document.accessor(attributes["POSITION"])
    index = document.accessor(piece["indices"])[:, 0] if "indices" in piece else np.arange(len(vertices))
    faces = index[: len(index) // 3 * 3].reshape(-1, 3)
    named, shares = document.accessor(attributes["JOINTS_0"]), document.accessor(attributes["WEIGHTS_0"])
    weights = np.zeros((len(vertices), joints))
    np.add.at(weights, (np.arange(len(vertices))[:, None], named), shares)
    weights /= np.maximum(weights.sum(1, keepdims=True), 1e-12)
    return vertices, faces, weights, _colours(document, piece, len(vertices))[faces]


def _colours(document: _Document, piece: dict[str, Any], count: int) -> Float[np.ndarray, "v 3"]:
    """sRGB of each vertex: the material's colour, times its texture there."""
    material = document.part("materials")[piece["material"]] if "material" in piece else {}
    surface = material.get("pbrMetallicRoughness", {})
    linear = np.array(surface.get("baseColorFactor", (1.0,) * 4 if "baseColorTexture" in surface else GREY)[:3])
    factor = np.tile(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055), (count, 1))
    if "baseColorTexture" not in surface or "TEXCOORD_0" not in piece["attributes"]:
        return factor
    texture = _texture(document, surface["baseColorTexture"]["index"])
    uv = document.accessor(piece["attributes"]["TEXCOORD_0"])
    rows, columns = texture.shape[:2]
    x = (np.floor(uv[:, 0] * columns).astype(int)) % columns  # textures repeat
    y = (np.floor(uv[:, 1] * rows).astype(int)) % rows
    return factor * texture[y, x]


def _texture(document: _Document, index: int) -> Float[np.ndarray, "h w 3"]:
    from geco import images

    entry = document.part("images")[document.part("textures")[index]["source"]]
    if "bufferView" in entry:
        view = document.part("bufferViews")[entry["bufferView"]]
        start = view.get("byteOffset", 0)
        raw = document.buffers[view["buffer"]][start : start + view["byteLength"]]
    else:
        raw = document._buffer(entry, b"")
    return images.read(raw).permute(1, 2, 0).numpy() / 255.0


def _nodes(document: _Document) -> Nodes:
    entries = document.part("nodes")
    parent = [-1] * len(entries)
    for i, entry in enumerate(entries):
        for child in entry.get("children", ()):
            parent[child] = i
    order = sorted(range(len(entries)), key=lambda node: _depth(parent, node))
    places = [_decomposed(entry) for entry in entries]
    columns = (np.array([place[part] for place in places], np.float64) for part in range(3))
    translation, rotation, scale = columns
    return Nodes(tuple(parent), translation, rotation, scale, tuple(order))


def _depth(parent: list[int], node: int) -> int:
    depth = 0
    while (node := parent[node]) >= 0:
        depth += 1
        if depth > len(parent):
            raise InputError("the nodes of the glTF file form a circle; export it again")
    return depth


def _decomposed(entry: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Translation, rotation (x, y, z, w) and scale of a node."""
    if "matrix" not in entry:
        return entry.get("translation", (0, 0, 0)), entry.get("rotation", (0, 0, 0, 1)), entry.get("scale", (1, 1, 1))
    from scipy.spatial.transform import Rotation

    matrix = np.array(entry["matrix"], np.float64).reshape(4, 4).T
    scale = np.linalg.norm(matrix[:3, :3], axis=0)
    scale[0] *= np.sign(np.linalg.det(matrix[:3, :3]))
    return matrix[:3, 3], Rotation.from_matrix(matrix[:3, :3] / scale).as_quat(), scale


def _joint_parents(nodes: Nodes, joints: list[int]) -> tuple[int, ...]:
    parents = []
    for joint in joints:
        above = nodes.parent[joint]
        while above >= 0 and above not in joints:
            above = nodes.parent[above]
        parents.append(joints.index(above) if above >= 0 else -1)
    return tuple(parents)


def _tracks(document: _Document, animation: dict[str, Any]) -> tuple[Track, ...]:
    tracks = []
    for channel in animation["channels"]:
        path, sampler = channel["target"]["path"], animation["samplers"][channel["sampler"]]
        if path not in ("translation", "rotation", "scale") or "node" not in channel["target"]:
            continue  # morph targets
        times, values = document.accessor(sampler["input"])[:, 0], document.accessor(sampler["output"])
        kind = sampler.get("interpolation", "LINEAR")
        if kind == "CUBICSPLINE":
            values = values.reshape(len(times), 3, -1)[:, 1]  # the values between their tangents, joined linearly
        node = range(len(document.part("nodes")))[channel["target"]["node"]]
        if values.shape != (len(times), 4 if path == "rotation" else 3) or not len(times):
            raise InputError(
                f"{document.path} is damaged: an animation of {len(times)} times has values {values.shape}"
            )
        tracks.append(Track(node, path, times, values, kind == "STEP"))
    return tuple(tracks)
