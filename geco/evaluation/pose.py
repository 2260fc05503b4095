"""2D–3D: a mesh decorated from some views, tested on novel images of it or of other animals (GECO, supplement)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from geco import pose, viz
from geco.errors import InputError
from geco.evaluation.intervals import bootstrap, interval
from geco.evaluation.measures import Estimate, Measure
from geco.evaluation.metrics.pose import RotationErrors, SurfaceErrors, weighted_medians
from geco.evaluation.report import Report, Table
from geco.evaluation.settings import PoseProtocol
from geco.pose import Camera, Decoration, Geodesics, Mesh, Scene, SurfaceMatches
from geco.system import Progress, provenance, silent
from geco.types import Encoder

AS_IN_THE_PAPER = PoseProtocol()
COLUMNS = ("images", "d_geo", "e_rot in °", "≤ 5° in %", "≤ 10° in %", "≤ 30° in %")
NOTE = (
    "d_geo: mean distance along the mesh, in shares of its bounding box's diagonal, between matched and true vertex; "
    "e_rot: median over images, 180° where no pose was found."
)


@dataclass(frozen=True)
class Trial:
    """One test image: what was matched with what, and the pose."""

    case: str
    image: Tensor
    matches: SurfaceMatches
    true: Int[np.ndarray, "k"]  # vertices of the decorated mesh
    distance: Float[np.ndarray, "k"]
    camera: Camera
    estimate: Camera | None
    angle: float | None


def run(
    encoder: Encoder,
    meshes: Sequence[Mesh],
    protocol: PoseProtocol = AS_IN_THE_PAPER,
    *,
    others: Sequence[Mesh] = (),
    label: str = "model",
    progress: Progress = silent,
) -> tuple[Report, list[Trial]]:
    """The report of an encoder, and its trials for pictures.

    Each mesh is decorated and tested on images of itself; with `others`, the one mesh is decorated and tested on images
    of those, whose places on it are known through the bones.
    """
    if not meshes or (others and len(meshes) != 1):
        raise InputError(f"give meshes, or one mesh and others to test it on, got {len(meshes)} and {len(others)}")
    trials: list[Trial] = []
    for mesh in meshes:
        decoration = pose.decorate(encoder, mesh, protocol.decorate, progress=progress)
        fine = pose.subdivide(mesh, protocol.decorate.vertices)
        geodesics = Geodesics(fine)
        for tested in others or (mesh,):
            for trial in _trials(encoder, decoration, fine, tested, geodesics, protocol):
                trials.append(trial)
                progress("test images", len(trials), protocol.images * len(others or meshes))
    return _report(trials, protocol, label=label, data=_data(meshes, others)), trials


def _data(meshes: Sequence[Mesh], others: Sequence[Mesh]) -> str:
    names = ", ".join(mesh.name for mesh in meshes)
    return f"{names}, tested on {', '.join(mesh.name for mesh in others)}" if others else names


def _trials(
    encoder: Encoder, decoration: Decoration, fine: Mesh, tested: Mesh, geodesics: Geodesics, protocol: PoseProtocol
) -> Iterator[Trial]:
    same = tested.name == fine.name
    shown = fine if same else pose.subdivide(tested, protocol.decorate.vertices)
    place = np.arange(len(fine.vertices)) if same else pose.transfer_vertices(shown, fine)
    scene = Scene(shown)
    cameras = _cameras(shown, protocol)
    hits = [scene.look(camera) for camera in cameras]
    looks = [pose.draw_look(protocol.seed + 7919 + i, *pose.TESTING) for i in range(len(cameras))]
    pictures = [pose.paint(scene, *view) for view in zip(cameras, hits, looks, strict=True)]
    maps = encoder.extract_stream(pictures, batch_size=protocol.decorate.batch_size)
    for camera, seen, picture, features in zip(cameras, hits, pictures, maps, strict=True):
        mask = torch.from_numpy(seen.mask)
        matches = pose.match_patches(features, decoration, mask=mask)
        x, y = matches.xy.long().numpy().T
        corner = seen.barycentric[y, x].argmax(-1)
        true = place[shown.faces[seen.face[y, x], corner]]
        answer = pose.from_features(features, decoration, mask=mask, focal=camera.focal[0], settings=protocol.solve)
        angle = pose.rotation_error(answer.camera.rotation, camera.rotation) if answer.found else None
        distance = geodesics.between(matches.vertex.numpy(), true)
        yield Trial(
            tested.name, picture, matches, true, distance, camera, answer.camera if answer.found else None, angle
        )


def _cameras(mesh: Mesh, protocol: PoseProtocol) -> list[Camera]:
    how = protocol.decorate
    return pose.orbit(
        mesh.vertices,
        protocol.images,
        size=(how.side, how.side),
        up=how.up,
        elevation=how.elevation,
        field_of_view=how.field_of_view,
        seed=protocol.seed + 104729,
    )


def _report(trials: list[Trial], protocol: PoseProtocol, *, label: str, data: str) -> Report:
    cases = list(dict.fromkeys(trial.case for trial in trials))
    rows = [(case, *_row([trial for trial in trials if trial.case == case], protocol)) for case in cases]
    surface, rotation = _errors(trials, protocol)
    how = {"resamples": protocol.resamples, "seed": protocol.seed}
    geodesic, angle = surface.mean(**how), rotation.median(**how)
    measures = [
        Measure("d_geo", geodesic.value, low=geodesic.low, high=geodesic.high, unit="diagonal"),
        Measure("e_rot", angle.value, low=angle.low, high=angle.high, unit="degrees"),
    ]
    for degrees in protocol.angles:
        share = rotation.within(degrees, **how)
        measures.append(Measure(f"within {degrees:g}°", share.value, low=share.low, high=share.high))
    if len(cases) > 1:
        rows.append(("all", *_row(trials, protocol)))
    return Report(
        benchmark="pose",
        label=label,
        data=data,
        measures=tuple(measures),
        tables=(Table("pose", "2D–3D matching and pose", ("mesh", *COLUMNS), tuple(rows), note=NOTE, digits=2),),
        settings={"protocol": asdict(protocol)},
        provenance=provenance.collect(),
        samples={"total": surface.total, "count": surface.count, "angles": rotation.angles},
    )


def _errors(trials: Sequence[Trial], protocol: PoseProtocol) -> tuple[SurfaceErrors, RotationErrors]:
    surface, rotation = SurfaceErrors(), RotationErrors()
    for trial in trials:
        surface.update(torch.from_numpy(trial.distance), radius=protocol.wrong)
        rotation.update(trial.angle)
    return surface, rotation


def _row(trials: Sequence[Trial], protocol: PoseProtocol) -> tuple[int | Estimate, ...]:
    surface, rotation = _errors(trials, protocol)
    how = {"resamples": protocol.resamples, "seed": protocol.seed}
    shares = [rotation.within(degrees, **how) for degrees in protocol.angles]
    per_cent = [Estimate(100 * s.value, 100 * s.low, 100 * s.high) for s in shares]
    return len(trials), surface.mean(**how), rotation.median(**how), *per_cent


def compare(first: Report, second: Report, protocol: PoseProtocol = AS_IN_THE_PAPER) -> Table:
    """Differences of two encoders on the same images, second minus first, with intervals over the same draws."""
    a, b = first.samples, second.samples
    sums = torch.tensor([a["total"], b["total"]], dtype=torch.float64)[..., None]
    counts = torch.tensor([a["count"], b["count"]], dtype=torch.float64)[..., None]
    drawn = bootstrap(sums, counts, resamples=protocol.resamples, seed=protocol.seed)[..., 0]
    low, high = interval(drawn[:, 1] - drawn[:, 0])
    mean = sums.sum(1) / counts.sum(1)
    rows = [("d_geo", Estimate(float(mean[1] - mean[0]), float(low), float(high)))]
    angles = [torch.tensor(samples["angles"], dtype=torch.float64) for samples in (a, b)]
    before, after = (weighted_medians(x, resamples=protocol.resamples, seed=protocol.seed) for x in angles)
    low, high = interval(after - before)
    difference = float(angles[1].quantile(0.5) - angles[0].quantile(0.5))
    rows.append(("e_rot in °", Estimate(difference, float(low), float(high))))
    title = f"{second.label} minus {first.label}"
    return Table("differences", title, ("", "difference"), tuple(rows), note="95 % intervals over images.", digits=3)


def draw(
    trials: Sequence[Trial], meshes: Sequence[Mesh], protocol: PoseProtocol = AS_IN_THE_PAPER
) -> dict[str, Figure]:
    """Matches coloured by their place on the mesh, wrong ones outlined, and the posed mesh, for some test images."""
    if not trials:
        return {}
    chosen = [
        trials[i] for i in np.linspace(0, len(trials) - 1, min(protocol.examples, len(trials))).round().astype(int)
    ]
    fine = {mesh.name: pose.subdivide(mesh, protocol.decorate.vertices) for mesh in meshes}
    rows = [_panels(trial, fine.get(trial.case, next(iter(fine.values()))), protocol) for trial in chosen]
    columns = ("true places", f"matches (outlined: d_geo > {protocol.wrong:g})", "estimated pose")
    return {"matches": viz.draw_surface_matches(rows, columns=columns)}


def _panels(trial: Trial, mesh: Mesh, protocol: PoseProtocol) -> list[viz.SurfacePicture]:
    box = {"low": mesh.vertices.min(0), "high": mesh.vertices.max(0)}
    xy = trial.matches.xy.double().numpy()
    true = viz.surface_colours(mesh.vertices[trial.true], **box)
    matched = viz.surface_colours(mesh.vertices[trial.matches.vertex.numpy()], **box)
    wrong: Bool[np.ndarray, k] = trial.distance > protocol.wrong
    overlay = None if trial.estimate is None else pose.place_colours(Scene(mesh), trial.estimate)
    note = "no pose found" if trial.angle is None else f"{trial.angle:.1f}° off"
    return [
        viz.SurfacePicture(trial.image, xy=xy, colours=true, note=trial.case),
        viz.SurfacePicture(trial.image, xy=xy, colours=matched, wrong=wrong, note=f"d_geo {trial.distance.mean():.3f}"),
        viz.SurfacePicture(trial.image, overlay=_see_through(overlay), note=note),
    ]


def _see_through(overlay: Float[np.ndarray, "h w 4"] | None) -> Float[np.ndarray, "h w 4"] | None:
    return None if overlay is None else overlay * np.array([1, 1, 1, 0.75])
