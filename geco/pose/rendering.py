"""Rendering: which face lies behind each pixel, how deep and where on it; and the painted picture.

Rays find the face (Embree, in single precision); depth and barycentric coordinates are then those of the pixel's ray
with the plane of that face, in double precision. Colours are mixed in single precision.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from geco import viz
from geco.pose import looks
from geco.pose.cameras import Camera
from geco.pose.looks import Look
from geco.pose.meshes import Mesh
from geco.pose.rays import Rays
from geco.types import Size

CELL = 4  # pixels: rays are cast in squares of this side that a face's rectangle touches
CLOSE = 1e-4  # of the distance: a vertex is visible if nothing is nearer by more than this


@dataclass(frozen=True)
class Hits:
    """What the pixels of a camera see of a mesh: a row for each pixel that sees any, and maps of the whole image."""

    size: Size
    pixel: Int[np.ndarray, "n"]  # row by row
    pixel_face: Int[np.ndarray, "n"]
    pixel_shares: Float[np.ndarray, "n 3"]
    pixel_depth: Float[np.ndarray, "n"]

    @cached_property
    def face(self) -> Int[np.ndarray, "h w"]:
        """Number of the face that each pixel shows; −1: none."""
        return self._map(self.pixel_face, -1)

    @cached_property
    def barycentric(self) -> Float[np.ndarray, "h w 3"]:
        """Shares of the face's three corners at each pixel; 0 where there is nothing."""
        return self._map(self.pixel_shares, 0.0)

    @cached_property
    def depth(self) -> Float[np.ndarray, "h w"]:
        """Depth along the camera's z; infinite where there is nothing."""
        return self._map(self.pixel_depth, np.inf)

    @property
    def mask(self) -> Bool[np.ndarray, "h w"]:
        """Pixels of the mesh."""
        return self.face >= 0

    def _map(self, values: np.ndarray, elsewhere: float) -> np.ndarray:
        whole = np.full((self.size[0] * self.size[1], *values.shape[1:]), elsewhere, values.dtype)
        whole[self.pixel] = values
        return whole.reshape(*self.size, *values.shape[1:])


class Scene:
    """A mesh that rays can be shot at."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._corner = mesh.vertices.min(0)
        self._rays = Rays(mesh)

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

    @cached_property
    def interpolated(self) -> Float[Tensor, "v 6"]:
        """What is interpolated over faces: places in a box of diagonal one, and normals."""
        places = (self.mesh.vertices - self._corner) / self.mesh.diagonal
        return torch.from_numpy(np.concatenate([places, self.vertex_normals], 1)).float()

    @cached_property
    def colours(self) -> Float[Tensor, "g 3"]:
        """The mesh's own colours, of the three corners of each face one after the other."""
        assert self.mesh.colours is not None
        return torch.from_numpy(self.mesh.colours).float().reshape(-1, 3)

    def facing(self, camera: Camera) -> Bool[np.ndarray, "f"]:
        """Faces that show the camera the side their normals point to."""
        normal, level = self._planes[0]
        return normal @ (camera.position - self._corner) + level > 0

    def look(self, camera: Camera) -> Hits:
        """The faces behind the centres of a camera's pixels."""
        pixels = self._framed(camera)
        row, column = np.divmod(pixels, camera.size[1])
        rays = camera.rays(np.stack([column + 0.5, row + 0.5], 1))
        face = self._rays.first(camera.position, rays @ camera.rotation)
        hit = np.flatnonzero(face >= 0)
        face, pixels = face[hit], pixels[hit]
        shares, depth = self._on_plane(camera, rays.take(hit, axis=0), face)
        good = depth > 0  # a face seen exactly edge-on has no depth
        return Hits(camera.size, pixels[good], face[good], shares[good], depth[good])

    def _framed(self, camera: Camera) -> Int[np.ndarray, "n"]:
        """Numbers of the pixels in the rectangles around the faces; all, if some of the mesh is behind the camera."""
        height, width = camera.size
        xy, depth = camera.project(self.mesh.vertices)
        if not (depth > 0).all():
            return np.arange(height * width)
        rows, columns = -(-height // CELL), -(-width // CELL)
        x, y = xy.T / CELL
        left, right = (edge(x).clip(0, columns).astype(np.int64)[self._corners] for edge in (np.floor, np.ceil))
        top, bottom = (edge(y).clip(0, rows).astype(np.int64)[self._corners] for edge in (np.floor, np.ceil))
        # Each rectangle adds one from its corner on and takes it away beyond it; running sums then count them.
        at = [
            row * (columns + 1) + column
            for row in (top.min(0), bottom.max(0))
            for column in (left.min(0), right.max(0))
        ]
        signs = np.repeat([1.0, -1.0, -1.0, 1.0], len(at[0]))
        steps = np.bincount(np.concatenate(at), signs, minlength=(rows + 1) * (columns + 1))
        covered = steps.reshape(rows + 1, columns + 1).cumsum(0).cumsum(1)[:-1, :-1] > 0
        return np.flatnonzero(covered.repeat(CELL, axis=0).repeat(CELL, axis=1)[:height, :width])

    def visible(self, camera: Camera) -> Bool[np.ndarray, "v"]:
        """Vertices that lie on the image with nothing before them."""
        xy, depth = camera.project(self.mesh.vertices)
        with np.errstate(invalid="ignore"):
            inside = (depth > 0) & (xy >= 0).all(1) & (xy[:, 0] <= camera.size[1]) & (xy[:, 1] <= camera.size[0])
        seen = np.flatnonzero(inside)
        rays = camera.rays(xy[seen])
        face = self._rays.first(camera.position, rays @ camera.rotation)
        # A ray to a vertex on the outline may pass it by, or end on a face around it: neither hides it.
        hit = np.flatnonzero(face >= 0)
        seen, rays, face = seen[hit], rays[hit], face[hit]
        own = (self.mesh.faces[face] == seen[:, None]).any(1)
        _, first = self._on_plane(camera, rays, face)
        hidden = ~own & (first > 0) & (first < depth[seen] * (1 - CLOSE))
        inside[seen[hidden]] = False
        return inside

    @cached_property
    def _corners(self) -> Int[np.ndarray, "3 f"]:
        """First, second and third vertices of the faces."""
        return np.ascontiguousarray(self.mesh.faces.T)

    @cached_property
    def _planes(self) -> list[tuple[Float[np.ndarray, "f 3"], Float[np.ndarray, "f"]]]:
        """Three linear functions of the place for each face, as gradients and values at the mesh's corner.

        Zero on the face's plane; the first barycentric coordinate; the second.
        """
        a, b, c = (self.mesh.vertices[corner] - self._corner for corner in self._corners)
        normal = np.cross(b - a, c - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = _dot(normal, normal)[:, None]
            to_a, to_b = np.cross(normal, c - b) / square, np.cross(normal, a - c) / square
            return [(normal, -_dot(normal, a)), (to_a, 1 - _dot(to_a, a)), (to_b, 1 - _dot(to_b, b))]

    def _on_plane(
        self, camera: Camera, rays: Float[np.ndarray, "n 3"], face: Int[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n"]]:
        """Barycentric coordinates and depth of where rays, in the camera's axes, meet the planes of these faces."""
        directions = rays @ camera.rotation
        position = camera.position - self._corner
        with np.errstate(divide="ignore", invalid="ignore"):
            # Each function at the camera, and how it grows along the ray.
            at = [(level + gradient @ position).take(face) for gradient, level in self._planes]
            along = [_dot(gradient.take(face, axis=0), directions) for gradient, _ in self._planes]
            depth = -at[0] / along[0]
            at_a, at_b = (at[i] + depth * along[i] for i in (1, 2))
        shares = np.fmin(np.fmax([at_a, at_b, 1 - at_a - at_b], 0), 1)  # fmax: 0 where a face has no area
        return (shares / np.maximum(shares[0] + shares[1] + shares[2], 1e-12)).T, depth


def paint(scene: Scene, camera: Camera, hits: Hits, look: Look) -> UInt8[Tensor, "3 h w"]:
    """The picture of what the camera sees, under a look."""
    mesh = scene.mesh
    pixels = looks.backdrop_pixels(look, camera.size)
    face = hits.pixel_face
    if len(face):
        shares = hits.pixel_shares.astype(np.float32)
        corners = mesh.faces.take(face, axis=0)
        places, normals = np.split(_mixed(scene.interpolated, corners, shares), 2, axis=1)
        own = None
        if look.coat == "own" and mesh.colours is not None:
            own = _mixed(scene.colours, 3 * face[:, None] + np.arange(3), shares)
        colours = np.clip(looks.coat_colours(look, places, own), 0, 1)
        normals = normals if look.smooth else scene.face_normals[face].astype(np.float32)
        normals = normals / np.maximum(np.sqrt(_dot(normals, normals)), 1e-12)[:, None]
        facing = scene.facing(camera)[face]  # by the face: an interpolated normal may lean away
        painted = looks.shade(look, colours, normals @ camera.rotation.T.astype(np.float32), facing)
        pixels.reshape(3, -1)[:, hits.pixel] = looks.to_bytes(painted).T
    return torch.from_numpy(pixels)


def place_colours(scene: Scene, camera: Camera) -> Float[np.ndarray, "h w 4"]:
    """RGBA of a mesh coloured by place: red, green and blue along its box, shaded; transparent beside it."""
    hits, mesh = scene.look(camera), scene.mesh
    pixels = np.zeros((*camera.size, 4))
    if len(hits.pixel):
        corners = mesh.faces[hits.pixel_face]
        points = np.einsum("nk,nkd->nd", hits.pixel_shares, mesh.vertices[corners])
        colours = viz.surface_colours(points, low=mesh.vertices.min(0), high=mesh.vertices.max(0))
        normals = np.einsum("nk,nkd->nd", hits.pixel_shares, scene.vertex_normals[corners])
        towards = camera.position - points
        slant = np.abs((normals * towards).sum(1)) / np.maximum(np.linalg.norm(towards, axis=1), 1e-12)
        pixels.reshape(-1, 4)[hits.pixel] = np.concatenate(
            [colours * (0.35 + 0.65 * slant.clip(0, 1))[:, None], np.ones((len(points), 1))], 1
        )
    return pixels


def _dot(a: Float[np.ndarray, "n 3"], b: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n"]:
    """Dot products row by row; twice as fast as a sum along so short an axis."""
    return np.einsum("ij,ij->i", a, b)


def _mixed(
    values: Float[Tensor, "m d"], rows: Int[np.ndarray, "n 3"], shares: Float[np.ndarray, "n 3"]
) -> Float[np.ndarray, "n d"]:
    """Rows of a table mixed by barycentric coordinates; in one pass, five times as fast as an einsum of them."""
    return functional.embedding_bag(
        torch.from_numpy(rows), values, per_sample_weights=torch.from_numpy(shares), mode="sum"
    ).numpy()
