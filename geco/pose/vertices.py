"""Decorating a mesh: the feature of a vertex is the median over the views that see it (GECO, 2D–3D matching).

Views are encoded once and their patch maps kept (some 2 MB each); samples of all views are only ever there for a chunk
of vertices, so memory never grows with views × vertices × channels.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from geco import geometry, images, matching
from geco.errors import FileError, InputError, MissingFileError
from geco.pose import cameras, looks
from geco.pose.cameras import Camera
from geco.pose.meshes import Mesh, subdivide
from geco.pose.photographs import PosedImage
from geco.pose.rendering import Scene, paint
from geco.pose.settings import DecorateSettings
from geco.system import Progress, files, silent
from geco.types import Encoder, FeatureMap

USUAL = DecorateSettings()
TENSORS = ("features", "seen", "vertices", "faces")


@dataclass(frozen=True)
class Decoration:
    """A mesh with a unit feature on each vertex."""

    vertices: Float[Tensor, "v 3"]
    faces: Int[Tensor, "f 3"]
    features: Float[Tensor, "v c"]  # length one; zero where no view sees the vertex
    seen: Int[Tensor, "v"]  # how many views see it
    mesh_digest: str  # of the mesh as it was given
    encoder: str  # fingerprint
    name: str = "mesh"

    @property
    def mesh(self) -> Mesh:
        """The surface that carries the features, without its colours."""
        return Mesh(self.vertices.double().numpy(), self.faces.numpy(), name=self.name)


def decorate(
    encoder: Encoder, mesh: Mesh, settings: DecorateSettings = USUAL, *, progress: Progress = silent
) -> Decoration:
    """The mesh, subdivided to the settings' number of vertices, with features from rendered views around it."""
    fine = subdivide(mesh, settings.vertices)
    scene = Scene(fine)
    around = cameras.orbit(
        fine.vertices,
        settings.views,
        size=(settings.side, settings.side),
        up=settings.up,
        elevation=settings.elevation,
        field_of_view=settings.field_of_view,
        seed=settings.seed,
    )
    coats, backdrops = looks.DECORATING
    coats = coats[:1] if settings.looks == "own" else coats
    looked = (looks.draw_look(settings.seed + 1000 + i, coats, backdrops) for i in range(len(around)))
    pictures = (paint(scene, camera, scene.look(camera), look) for camera, look in zip(around, looked, strict=True))
    return replace(_decorated(encoder, scene, around, pictures, settings, progress), mesh_digest=mesh.digest)


def decorate_images(
    encoder: Encoder,
    mesh: Mesh,
    photographs: Sequence[PosedImage],
    settings: DecorateSettings = USUAL,
    *,
    progress: Progress = silent,
) -> Decoration:
    """The mesh with features from photographs whose cameras are known in the mesh's coordinates."""
    if not photographs:
        raise InputError("there are no posed photographs to decorate the mesh from")
    scene = Scene(subdivide(mesh, settings.vertices))
    around = [photograph.camera for photograph in photographs]
    pictures = (images.read(photograph.path) for photograph in photographs)
    return replace(_decorated(encoder, scene, around, pictures, settings, progress), mesh_digest=mesh.digest)


def _decorated(
    encoder: Encoder,
    scene: Scene,
    around: Sequence[Camera],
    pictures: Iterable[Tensor],
    settings: DecorateSettings,
    progress: Progress,
) -> Decoration:
    matching.check_single(encoder)
    maps: list[FeatureMap] = []
    for features in encoder.extract_stream(pictures, batch_size=settings.batch_size):
        maps.append(FeatureMap(features.values.cpu(), features.size))
        progress("decorate", len(maps), len(around))
    around = [camera.resized(features.size) for camera, features in zip(around, maps, strict=True)]
    visible = torch.from_numpy(np.stack([scene.visible(camera) for camera in around]))
    if not visible.any():
        raise InputError("no view sees the mesh; check that cameras and mesh share their coordinates")
    xy = torch.from_numpy(np.stack([camera.project(scene.mesh.vertices)[0] for camera in around])).float()
    return Decoration(
        vertices=torch.from_numpy(scene.mesh.vertices).float(),
        faces=torch.from_numpy(scene.mesh.faces),
        features=medians(maps, xy, visible, chunk=settings.chunk),
        seen=visible.sum(0),
        mesh_digest=scene.mesh.digest,
        encoder=encoder.fingerprint(),
        name=scene.mesh.name,
    )


def medians(
    maps: Sequence[FeatureMap], xy: Float[Tensor, "n v 2"], visible: Bool[Tensor, "n v"], *, chunk: int
) -> Float[Tensor, "v c"]:
    """Unit median of each vertex's unit samples over the views that see it; zero if none does."""
    count = visible.sum(0)
    features = torch.zeros(visible.shape[1], maps[0].values.shape[0])
    # Vertices seen by equally many views come together, so that little of a chunk is padding.
    for rows in count.argsort(descending=True).split(chunk):
        most = int(count[rows].max())
        if most == 0:
            break
        samples = torch.full((most, len(rows), features.shape[1]), torch.inf)
        taken = torch.zeros(len(rows), dtype=torch.long)
        for features_of_view, places, seen in _views(maps, xy, visible, rows):
            sampled = geometry.sample(features_of_view.values.float(), places, size=features_of_view.size)
            place = taken[seen] * len(rows) + seen
            samples.view(-1, samples.shape[2]).index_copy_(0, place, torch.nn.functional.normalize(sampled, dim=-1))
            taken[seen] += 1
        ordered = _sort(samples)
        column = torch.arange(len(rows))
        low, high = (taken - 1).clamp_min(0) // 2, taken // 2
        middle = (ordered[low, column] + ordered[high.clamp(max=most - 1), column]) / 2
        features[rows] = torch.where(taken[:, None] > 0, torch.nn.functional.normalize(middle, dim=-1), 0.0)
    return features


def _sort(values: Float[Tensor, "n v c"]) -> Float[Tensor, "n v c"]:
    """The same tensor, its columns ordered in place by merge exchange (Knuth, vol. 3, algorithm 5.2.2M).

    Whole rows are compared at once, which is several times as fast as torch.sort along a short dimension.
    """
    count = len(values)
    largest = 1 << max(0, (count - 1).bit_length() - 1)
    step = largest
    while step and count > 1:
        far, offset, distance = largest, 0, step
        while True:
            for i in range(count - distance):
                if i & step == offset:
                    low = torch.minimum(values[i], values[i + distance])
                    torch.maximum(values[i], values[i + distance], out=values[i + distance])
                    values[i] = low
            if far == step:
                break
            distance, far, offset = far - step, far // 2, step
        step //= 2
    return values


def _views(
    maps: Sequence[FeatureMap], xy: Float[Tensor, "n v 2"], visible: Bool[Tensor, "n v"], rows: Int[Tensor, "k"]
) -> Iterator[tuple[FeatureMap, Float[Tensor, "s 2"], Int[Tensor, "s"]]]:
    """Each view that sees some of these vertices: its map, where they are in it, and which."""
    for view, features in enumerate(maps):
        seen = visible[view, rows].nonzero()[:, 0]
        if len(seen):
            yield features, xy[view, rows[seen]], seen


# --- on disk ----------------------------------------------------------------------------------------------------------


def decorated_once(
    encoder: Encoder, mesh: Mesh, folder: Path, settings: DecorateSettings = USUAL, *, progress: Progress = silent
) -> Decoration:
    """The decoration from this folder if it is there, else made and kept there."""
    facts = [mesh.digest, encoder.fingerprint(), asdict(settings)]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
    path = folder / f"{mesh.name}-{key}.safetensors"
    if path.is_file():
        try:
            return read_decoration(path)
        except InputError:
            path.unlink()  # damaged: it is only a cache
    decoration = decorate(encoder, mesh, settings, progress=progress)
    write_decoration(path, decoration)
    return decoration


def write_decoration(path: str | Path, decoration: Decoration) -> Path:
    """Write the decorated mesh as safetensors, whole or not at all; features in half precision."""
    path = Path(path)
    tensors = {name: getattr(decoration, name).contiguous() for name in TENSORS}
    tensors["features"] = tensors["features"].half()
    about = {"mesh": decoration.mesh_digest, "encoder": decoration.encoder, "name": decoration.name}
    try:
        return files.replace(path, lambda draft: save_file(tensors, draft, about))
    except SafetensorError as error:
        raise FileError(f"{path} could not be written: {error}") from None


def read_decoration(path: str | Path) -> Decoration:
    """The decorated mesh in a file that `write_decoration` made."""
    if not Path(path).is_file():
        raise MissingFileError(f"{path}: no such file; expected a mesh that `geco decorate` wrote")
    try:
        with safe_open(path, framework="pt") as opened:
            about = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in TENSORS}
        tensors["features"] = tensors["features"].float()
        return Decoration(**tensors, mesh_digest=about["mesh"], encoder=about["encoder"], name=about["name"])
    except (SafetensorError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a decorated mesh, or damaged ({error}); make it with `geco decorate`"
        ) from None
