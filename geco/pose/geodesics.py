"""Geodesics: distances along the surface of a mesh, in shares of its diagonal (heat method; Crane et al. 2013)."""

import numpy as np
from jaxtyping import Float, Int

from geco.errors import InputError, MissingPackageError
from geco.pose.meshes import Mesh, components


class Geodesics:
    """Distances between vertices of one mesh scaled to a bounding box of diagonal one; each source is solved once.

    A mesh of one piece is solved on its triangles. Of several pieces the vertices are taken as a point cloud, which
    leads over the gaps between them (Sharp and Crane 2020).
    """

    def __init__(self, mesh: Mesh) -> None:
        try:
            import potpourri3d
        except ImportError:
            raise MissingPackageError.of_extra("pose", "potpourri3d", what="measuring along a mesh") from None
        points = np.ascontiguousarray(mesh.vertices / mesh.diagonal, np.float64)
        if components(mesh).max():
            self._solver = potpourri3d.PointCloudHeatSolver(points)
        else:
            self._solver = potpourri3d.MeshHeatMethodDistanceSolver(points, np.ascontiguousarray(mesh.faces, np.int64))
        self._rows: dict[int, Float[np.ndarray, v]] = {}
        self._vertices = len(points)

    def from_vertex(self, vertex: int) -> Float[np.ndarray, "v"]:
        """Distance of every vertex from this one."""
        if not 0 <= vertex < self._vertices:
            raise InputError(f"a vertex must be in 0 … {self._vertices - 1}, got {vertex}")
        if vertex not in self._rows:
            row = np.asarray(self._solver.compute_distance(int(vertex)))
            # The method leaves the source a little above zero and may dip below it nearby.
            self._rows[vertex] = np.clip(row - row[vertex], 0, None).astype(np.float32)
        return self._rows[vertex]

    def between(self, start: Int[np.ndarray, "n"], end: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Distances from `start` to `end`, pair by pair; solved from `end`, so let those be the ones that recur."""
        distance = np.zeros(len(start))
        for vertex in np.unique(end):
            rows = end == vertex
            distance[rows] = self.from_vertex(int(vertex))[start[rows]]
        return distance
