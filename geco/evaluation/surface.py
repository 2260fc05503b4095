"""Keypoints of images on a mesh: where each lands, how far that is along the mesh, and on which side."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from geco import pose
from geco.data import PairDataset
from geco.errors import InputError
from geco.evaluation.measures import Estimate, Measure
from geco.evaluation.metrics.pose import SurfaceErrors
from geco.evaluation.report import Report, Table
from geco.evaluation.settings import SurfaceProtocol
from geco.pose import Geodesics, Mesh
from geco.propagation import encode_views
from geco.system import Progress, provenance, silent
from geco.types import Encoder, Skeleton, View

USUAL = SurfaceProtocol()
COLUMNS = ("keypoints", "d_geo", "near in %", "left/right confused in %")


@dataclass(frozen=True)
class Landmarks:
    """The keypoints of a skeleton on a mesh, and the distance of every vertex from each of them."""

    known: Bool[np.ndarray, "k"]
    distance: Float[np.ndarray, "k v"]
    sided: Bool[np.ndarray, "k"]  # it and its twin are known
    twin: Int[np.ndarray, "k"]


def annotated_views(dataset: PairDataset, category: str) -> list[tuple[View, Skeleton]]:
    """The views of a category that occur in the pairs, each once, in their order."""
    views: dict[str, tuple[View, Skeleton]] = {}
    for index, name in enumerate(dataset.categories):
        if name == category:
            pair = dataset[index]
            for view in (pair.source, pair.target):
                views.setdefault(f"{view.identity} {view.points.xy.sum():.2f}", (view, pair.table))
    if not views:
        raise InputError(f"there are no images of {category!r}; it has: {', '.join(sorted(set(dataset.categories)))}")
    return list(views.values())


def run(
    encoder: Encoder,
    mesh: Mesh,
    views: Sequence[tuple[View, Skeleton]],
    protocol: SurfaceProtocol = USUAL,
    *,
    label: str = "model",
    data: str = "images",
    progress: Progress = silent,
) -> Report:
    """The report of an encoder: the mesh decorated from rendered views, each annotated keypoint matched with it."""
    decoration = pose.decorate(encoder, mesh, protocol.decorate, progress=progress)
    fine = pose.subdivide(mesh, protocol.decorate.vertices)
    skeleton = views[0][1]
    landmarks = landmarks_of(fine, skeleton)
    errors, groups = SurfaceErrors(), {name: SurfaceErrors() for name in skeleton.names}
    mirrored = SurfaceErrors()
    shown = encode_views(encoder, (view for view, _ in views), batch_size=protocol.decorate.batch_size)
    for done, (view, features) in enumerate(shown, start=1):
        points = view.points
        rows = np.flatnonzero(points.visible.numpy() & landmarks.known)
        if len(rows):
            vertex = pose.match_points(features, points.xy[rows].float(), decoration).vertex.numpy()
            distance, twin = landmarks.distance[rows, vertex], landmarks.distance[landmarks.twin[rows], vertex]
            sided = landmarks.sided[rows]
            add(errors, distance, sided & (twin < distance), sided, protocol.radius)
            add(mirrored, np.where(sided, np.minimum(distance, twin), distance), sided & False, sided, protocol.radius)
            for i, row in enumerate(rows):
                at = slice(i, i + 1)
                name = skeleton.names[row]
                add(groups[name], distance[at], (sided & (twin < distance))[at], sided[at], protocol.radius)
        progress("images", done, len(views))
    return _report(errors, mirrored, groups, landmarks, protocol, label=label, data=data, count=len(views))


def add(
    errors: SurfaceErrors,
    distance: Float[np.ndarray, "k"],
    confused: Bool[np.ndarray, "k"],
    sided: Bool[np.ndarray, "k"],
    radius: float,
) -> None:
    """Add keypoints of one image."""
    tensors = (torch.from_numpy(np.ascontiguousarray(column)) for column in (distance, confused, sided))
    far, wrong, with_twin = tensors
    errors.update(far, radius=radius, confused=wrong, sided=with_twin)


def landmarks_of(mesh: Mesh, skeleton: Skeleton) -> Landmarks:
    """Where the skeleton's keypoints are on the mesh, by its bones."""
    vertices = pose.animal_landmarks(mesh)
    geodesics = Geodesics(mesh)
    known = np.array([name in vertices for name in skeleton.names])
    nowhere = np.full(len(mesh.vertices), np.nan, np.float32)
    rows = [geodesics.from_vertex(vertices[name]) if name in vertices else nowhere for name in skeleton.names]
    twin = np.array(skeleton.twin)
    sided = known & known[twin] & (twin != np.arange(len(twin)))
    return Landmarks(known, np.stack(rows).astype(np.float64), sided, twin)


def _report(
    errors: SurfaceErrors,
    mirrored: SurfaceErrors,
    groups: dict[str, SurfaceErrors],
    landmarks: Landmarks,
    protocol: SurfaceProtocol,
    *,
    label: str,
    data: str,
    count: int,
) -> Report:
    how = {"resamples": protocol.resamples, "seed": protocol.seed}
    mean, near, confused = errors.mean(**how), errors.within(**how), errors.confusion(**how)
    either = mirrored.mean(**how)
    chance = float(np.nanmean(landmarks.distance))
    rows = [(name, *_cells(group, how)) for name, group in groups.items() if sum(group.count)]
    rows.append(("all", *_cells(errors, how)))
    return Report(
        benchmark="surface",
        label=label,
        data=data,
        measures=(
            Measure("d_geo", mean.value, low=mean.low, high=mean.high, unit="diagonal"),
            Measure("d_geo, either side", either.value, low=either.low, high=either.high, unit="diagonal"),
            Measure("d_geo of chance", chance, unit="diagonal"),
            Measure("near", near.value, radius=protocol.radius, low=near.low, high=near.high),
            Measure("left/right confused", confused.value, low=confused.low, high=confused.high),
        ),
        tables=(
            Table(
                "surface",
                f"Keypoints of {count} images on the mesh",
                ("keypoint", *COLUMNS),
                tuple(rows),
                note=f"d_geo: mean distance along the mesh in shares of its diagonal (a random vertex: {chance:.2f}); "
                f"near: within {protocol.radius:g}; confused: nearer to its twin's place.",
                digits=2,
            ),
        ),
        counts={"photographs": count},
        settings={"protocol": asdict(protocol)},
        provenance=provenance.collect(),
    )


def _cells(errors: SurfaceErrors, how: dict[str, int]) -> Iterable[int | Estimate]:
    near, confused = (_per_cent(estimate) for estimate in (errors.within(**how), errors.confusion(**how)))
    return sum(errors.count), errors.mean(**how), near, confused


def _per_cent(estimate: Estimate) -> Estimate:
    return Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
