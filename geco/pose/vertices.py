"""Decorating a mesh: the feature of a vertex is the median over the views that see it (GECO, 2D–3D matching).

Views are encoded once and their patch maps kept (some 2 MB each); samples of all views are only ever there for a chunk
of vertices, so memory never grows with views × vertices × channels.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from geco import geometry, images, matching
from geco.errors import FileError, InputError, MissingFileError
from geco.pose import cameras, looks
from geco.pose.cameras import Camera
from geco.pose.meshes import Mesh, subdivide
from geco.pose.posed_images import PosedImage
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
    posed: Sequence[PosedImage],
    settings: DecorateSettings = USUAL,
    *,
    progress: Progress = silent,
) -> Decoration:
    """The mesh with features from images whose cameras are known in the mesh's coordinates."""
    if not posed:
        raise InputError("there are no posed images to decorate the mesh from")
    scene = Scene(subdivide(mesh, settings.vertices))
    around = [image.camera for image in posed]
    pictures = (images.read(image.path) for image in posed)
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
        # Channels together, as `medians` reads them, so that it needs no second copy.
        values = features.values.cpu().permute(1, 2, 0).contiguous().permute(2, 0, 1)
        maps.append(FeatureMap(values, features.size))
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
    tables = [view.values.float().flatten(1).mT.contiguous() for view in maps]  # (cells, c)
    # Of all vertices, also of those behind a camera, whose places are NaN: no view that sees them asks.
    around = [geometry.neighbours(xy[i], size=view.size, grid=view.grid) for i, view in enumerate(maps)]
    # Vertices seen by equally many views come together, so that little of a chunk is padding.
    for rows in count.argsort(descending=True).split(chunk):
        taken = count[rows]
        most = int(taken.max())
        if most == 0:
            break
        samples = torch.full((most, len(rows), features.shape[1]), torch.inf)
        seen = visible[:, rows]
        number = seen.cumsum(0) - 1  # of each sample among those of its vertex
        for view in seen.any(1).nonzero()[:, 0].tolist():
            column = seen[view].nonzero()[:, 0]
            cells, shares = (part[rows[column]] for part in around[view])
            sampled = functional.embedding_bag(cells, tables[view], per_sample_weights=shares, mode="sum")
            target = number[view, column] * len(rows) + column
            samples.view(-1, samples.shape[2]).index_copy_(0, target, functional.normalize(sampled, dim=-1))
        low, high = (taken - 1).clamp_min(0) // 2, taken // 2
        ranks, place = torch.stack([low, high]).unique(return_inverse=True)
        middle = _ranked(samples, ranks.tolist())[place, torch.arange(len(rows))].mean(0)
        features[rows] = torch.where(taken[:, None] > 0, functional.normalize(middle, dim=-1), 0.0)
    return features


def _ranked(values: Float[Tensor, "n v c"], ranks: Sequence[int]) -> Float[Tensor, "r v c"]:
    """Of each column the values of these ranks, the least being 0; what was in `values` is lost.

    Whole rows are compared at once, which is several times as fast as torch.sort along a short dimension.
    """
    rows, spare = list(values.unbind(0)), torch.empty_like(values[0])
    for i, j, low, high in _comparisons(len(rows), ranks):
        first, second = rows[i], rows[j]
        if low and high:
            torch.minimum(first, second, out=spare)
            torch.maximum(first, second, out=second)
            rows[i], spare = spare, first
        elif low:
            torch.minimum(first, second, out=first)
        else:
            torch.maximum(first, second, out=second)
    return torch.stack([rows[rank] for rank in ranks])


def _comparisons(count: int, ranks: Sequence[int]) -> list[tuple[int, int, bool, bool]]:
    """Pairs of rows to order by merge exchange (Knuth, vol. 3, algorithm 5.2.2M), and which of both is used later.

    Those that no row of these ranks depends on are left out.
    """
    pairs = []
    largest = 1 << max(0, (count - 1).bit_length() - 1)
    step = largest if count > 1 else 0
    while step:
        far, offset, distance = largest, 0, step
        while True:
            pairs += [(i, i + distance) for i in range(count - distance) if i & step == offset]
            if far == step:
                break
            distance, far, offset = far - step, far // 2, step
        step //= 2
    used, kept = set(ranks), []
    for i, j in reversed(pairs):
        if i in used or j in used:
            kept.append((i, j, i in used, j in used))
            used |= {i, j}
    return kept[::-1]


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
        _check(tensors)
        tensors["features"] = tensors["features"].float()
        return Decoration(**tensors, mesh_digest=about["mesh"], encoder=about["encoder"], name=about["name"])
    except (SafetensorError, KeyError, TypeError, InputError) as error:
        raise InputError(
            f"{path} is not a decorated mesh, or damaged ({error}); make it with `geco decorate`"
        ) from None


def _check(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that do not describe one mesh."""
    features, seen, vertices, faces = (tensors[name] for name in TENSORS)
    count = len(vertices)
    shapes = [tuple(tensors[name].shape) for name in TENSORS]
    if shapes != [(count, features.shape[-1]), (count,), (count, 3), (len(faces), 3)] or not count or not len(faces):
        raise InputError(f"tensors of shapes {shapes}")
    if faces.is_floating_point() or seen.is_floating_point() or not 0 <= int(faces.min()) <= int(faces.max()) < count:
        raise InputError("faces that name no vertex")
    if not (features.isfinite().all() and vertices.isfinite().all()):
        raise InputError("NaN or infinity")
