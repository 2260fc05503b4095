"""Rays: the first face of a mesh along each of them, by Embree, in single precision."""

import numpy as np
from jaxtyping import Float, Int

from geco.errors import MissingPackageError
from geco.pose.meshes import Mesh


class Rays:
    """A mesh that rays can be shot at, scaled so that its units do not matter to single precision."""

    def __init__(self, mesh: Mesh) -> None:
        try:
            from embreex.mesh_construction import TriangleMesh
            from embreex.rtcore_scene import EmbreeScene
        except ImportError:
            raise MissingPackageError.of_extra("pose", "embreex", what="rendering a mesh") from None
        self._corner, self._scale = mesh.vertices.min(0), 100 / mesh.diagonal
        self._scene = EmbreeScene()
        TriangleMesh(self._scene, self._scaled(mesh.vertices), mesh.faces.astype(np.int32))

    def _scaled(self, points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
        return ((points - self._corner) * self._scale).astype(np.float32)

    def first(self, origin: Float[np.ndarray, "3"], directions: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, "n"]:
        """The first face along each ray from one place, −1: none; directions of about unit length."""
        if not len(directions):
            return np.zeros(0, np.int64)
        origins = np.tile(self._scaled(origin[None]), (len(directions), 1))
        return np.asarray(self._scene.run(origins, directions.astype(np.float32)), np.int64)
