"""Rendering: which face lies behind each pixel, how deep and where on it; and the painted picture.

Rays find the face (Embree, in single precision); depth and barycentric coordinates are then those of the pixel's ray
with the plane of that face, in double precision.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from geco import viz
from geco.errors import MissingPackageError
from geco.pose import looks
from geco.pose.cameras import Camera
from geco.pose.looks import Look
from geco.pose.meshes import Mesh

CLOSE = 1e-4  # of the distance: a vertex is visible if nothing is nearer by more than this


@dataclass(frozen=True)
class Hits:
    """What the pixels of a camera see of a mesh."""

    face: Int[np.ndarray, "h w"]  # −1: nothing
    barycentric: Float[np.ndarray, "h w 3"]  # of the face's corners; 0 where there is nothing
    depth: Float[np.ndarray, "h w"]  # along the camera's z; infinite where there is nothing

    @property
    def mask(self) -> Bool[np.ndarray, "h w"]:
        """Pixels of the mesh."""
        return self.face >= 0


class Scene:
    """A mesh that rays can be shot at."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._rays = _intersector(mesh)

    @cached_property
    def face_normals(self) -> Float[np.ndarray, "f 3"]:
        """Unit normals of the faces."""
        return self.mesh.normals()

    @cached_property
    def vertex_normals(self) -> Float[np.ndarray, "v 3"]:
        """Unit normals of the vertices: of the faces around them, weighted by their angle there."""
        normals = np.zeros_like(self.mesh.vertices)
        a, b, c = (self.mesh.vertices[self.mesh.faces[:, i]] for i in range(3))
        face = self.face_normals
        for i, (at, left, right) in enumerate(((a, b, c), (b, c, a), (c, a, b))):
            sides = [
                side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-300)
                for side in (left - at, right - at)
            ]
            angle = np.arccos(np.clip((sides[0] * sides[1]).sum(1), -1, 1))
            np.add.at(normals, self.mesh.faces[:, i], face * angle[:, None])
        return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)

    def look(self, camera: Camera) -> Hits:
        """The faces behind the centres of a camera's pixels."""
        height, width = camera.size
        face, depth = np.full(height * width, -1), np.full(height * width, np.inf)
        barycentric = np.zeros((height * width, 3))
        pixels = self._framed(camera)
        row, column = np.divmod(pixels, width)
        rays = camera.rays(np.stack([column + 0.5, row + 0.5], 1))
        first = self._first(camera, rays @ camera.rotation)
        hit = first >= 0
        shares, along = self._on_plane(camera, rays[hit], first[hit])
        good = along > 0  # a face seen exactly edge-on has no depth
        pixels = pixels[hit][good]
        face[pixels], barycentric[pixels], depth[pixels] = first[hit][good], shares[good], along[good]
        return Hits(face.reshape(camera.size), barycentric.reshape(*camera.size, 3), depth.reshape(camera.size))

    def _framed(self, camera: Camera) -> Int[np.ndarray, "n"]:
        """Numbers of the pixels in the rectangle around the mesh; all, if some of it is behind the camera."""
        height, width = camera.size
        xy, depth = camera.project(self.mesh.vertices)
        low, high = np.zeros(2, np.int64), np.array([width, height])
        if (depth > 0).all():
            low = np.floor(xy.min(0)).clip(0, high).astype(np.int64)
            high = np.ceil(xy.max(0)).clip(0, high).astype(np.int64)
        rows, columns = np.arange(low[1], high[1]), np.arange(low[0], high[0])
        return (rows[:, None] * width + columns).reshape(-1)

    def visible(self, camera: Camera) -> Bool[np.ndarray, "v"]:
        """Vertices that lie on the image with nothing before them."""
        xy, depth = camera.project(self.mesh.vertices)
        with np.errstate(invalid="ignore"):
            inside = (depth > 0) & (xy >= 0).all(1) & (xy[:, 0] <= camera.size[1]) & (xy[:, 1] <= camera.size[0])
        seen = np.flatnonzero(inside)
        face = self._first(camera, self.mesh.vertices[seen] - camera.position)
        # A ray to a vertex on the outline may pass it by, or end on a face around it: neither hides it.
        hit = np.flatnonzero(face >= 0)
        own = (self.mesh.faces[face[hit]] == seen[hit][:, None]).any(1)
        rays = camera.rays(xy[seen[hit]])
        _, first = self._on_plane(camera, rays, face[hit])
        hidden = ~own & (first > 0) & (first < depth[seen[hit]] * (1 - CLOSE))
        answer = np.zeros(len(xy), dtype=bool)
        answer[seen] = True
        answer[seen[hit[hidden]]] = False
        return answer

    def _first(self, camera: Camera, directions: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, "n"]:
        """The first face along each ray from the camera; −1: none."""
        if not len(directions):
            return np.zeros(0, np.int64)
        origins = np.broadcast_to(camera.position, directions.shape)
        return np.asarray(self._rays.intersects_first(origins, directions), np.int64)

    def _on_plane(
        self, camera: Camera, rays: Float[np.ndarray, "n 3"], face: Int[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n"]]:
        """Barycentric coordinates and depth of where rays meet the planes of these faces, in the camera's axes."""
        inside = self.mesh.vertices @ camera.rotation.T + camera.translation
        a, b, c = (inside[self.mesh.faces[face, i]] for i in range(3))
        normal = np.cross(b - a, c - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = _dot(normal, a) / _dot(normal, rays)
            points = rays * depth[:, None]
            square = _dot(normal, normal)
            at_a = _dot(np.cross(b - points, c - points), normal) / square
            at_b = _dot(np.cross(c - points, a - points), normal) / square
        shares = np.nan_to_num(np.clip(np.stack([at_a, at_b, 1 - at_a - at_b], 1), 0, 1))
        return shares / np.maximum(shares.sum(1, keepdims=True), 1e-12), depth


def paint(scene: Scene, camera: Camera, hits: Hits, look: Look) -> UInt8[Tensor, "3 h w"]:
    """The picture of what the camera sees, under a look."""
    mesh, mask = scene.mesh, hits.mask
    pixels = looks.backdrop_pixels(look, camera.size)
    face, shares = hits.face[mask], hits.barycentric[mask]
    if len(face):
        corners = mesh.faces[face]
        points = np.einsum("nk,nkd->nd", shares, mesh.vertices[corners])
        scaled = (points - mesh.vertices.min(0)) / mesh.diagonal
        own = None if mesh.colours is None else np.einsum("nk,nkd->nd", shares, mesh.colours[face])
        colours = np.clip(looks.coat_colours(look, scaled, own), 0, 1)
        flat = scene.face_normals[face]
        normals = np.einsum("nk,nkd->nd", shares, scene.vertex_normals[corners]) if look.smooth else flat
        normals = normals / np.maximum(np.sqrt(_dot(normals, normals)), 1e-12)[:, None]
        facing = _dot(flat, camera.position - points) > 0  # by the face: an interpolated normal may lean away
        pixels[mask] = looks.shade(look, colours, normals @ camera.rotation.T, facing)
    return torch.from_numpy((pixels * 255).round().astype(np.uint8)).permute(2, 0, 1).contiguous()


def place_colours(scene: Scene, camera: Camera) -> Float[np.ndarray, "h w 4"]:
    """RGBA of a mesh coloured by place: red, green and blue along its box, shaded; transparent beside it."""
    hits = scene.look(camera)
    mask, mesh = hits.mask, scene.mesh
    pixels = np.zeros((*camera.size, 4))
    if mask.any():
        corners = mesh.faces[hits.face[mask]]
        points = np.einsum("nk,nkd->nd", hits.barycentric[mask], mesh.vertices[corners])
        colours = viz.surface_colours(points, low=mesh.vertices.min(0), high=mesh.vertices.max(0))
        normals = np.einsum("nk,nkd->nd", hits.barycentric[mask], scene.vertex_normals[corners])
        towards = camera.position - points
        slant = np.abs((normals * towards).sum(1)) / np.maximum(np.linalg.norm(towards, axis=1), 1e-12)
        pixels[mask] = np.concatenate(
            [colours * (0.35 + 0.65 * slant.clip(0, 1))[:, None], np.ones((len(points), 1))], 1
        )
    return pixels


def _dot(a: Float[np.ndarray, "n 3"], b: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n"]:
    """Dot products row by row; twice as fast as a sum along so short an axis."""
    return np.einsum("ij,ij->i", a, b)


def _intersector(mesh: Mesh) -> Any:
    try:
        import trimesh
        from trimesh.ray import has_embree
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError:
        raise MissingPackageError.of_extra("pose", "trimesh and embreex", what="rendering a mesh") from None
    if not has_embree:
        raise MissingPackageError.of_extra("pose", "embreex", what="rendering a mesh")
    return RayMeshIntersector(trimesh.Trimesh(mesh.vertices, mesh.faces, process=False))
