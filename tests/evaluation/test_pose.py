"""2D–3D evaluation: errors against hand counts, and a run whose encoder knows the answer."""

import math

import numpy as np
import pytest
import torch
from modelled import animal, rigged_animal, sphere

from geco import evaluation, pose
from geco.data import Pairs, published_skeletons
from geco.errors import InputError
from geco.evaluation.metrics.pose import RotationErrors, SurfaceErrors, weighted_medians
from geco.evaluation.settings import PoseProtocol, SurfaceProtocol
from geco.evaluation.surface import Landmarks, add
from geco.pose import Scene
from geco.pose.settings import DecorateSettings
from geco.types import FeatureMap, Keypoints, View

QUICK = PoseProtocol(images=3, decorate=DecorateSettings(views=8, side=112, vertices=500, batch_size=4), resamples=50)


class Blind:
    """An encoder whose features are the picture's colours: it matches at random."""

    name, threshold, dim, stride, device = "blind", 0.0, 3, 7, torch.device("cpu")

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            small = torch.nn.functional.avg_pool2d(picture.float()[None], self.stride)[0]
            yield FeatureMap(small - small.mean((1, 2), keepdim=True), tuple(picture.shape[-2:]))

    def fingerprint(self):
        return "blind"


def test_surface_errors_are_ratios_of_sums():
    errors = SurfaceErrors()
    twins = torch.tensor([True, True, False])
    errors.update(torch.tensor([0.0, 0.2, 0.4]), radius=0.1, confused=torch.tensor([False, True, False]), sided=twins)
    errors.update(torch.tensor([0.1]), radius=0.1)
    assert errors.mean().value == pytest.approx(0.7 / 4)
    assert errors.within().value == pytest.approx(2 / 4)
    assert errors.confusion().value == pytest.approx(1 / 2)
    estimate = errors.mean(resamples=200)
    assert estimate.low <= estimate.value <= estimate.high
    assert (estimate.low, estimate.high) == pytest.approx((0.1, 0.2))  # only two images: each drawn alone, at the ends


def test_rotation_errors_count_a_lost_image_as_half_a_turn():
    errors = RotationErrors()
    for angle in (1.0, 4.0, None, 20.0):
        errors.update(angle)
    assert errors.angles == [1.0, 4.0, 180.0, 20.0]
    assert errors.median().value == 12.0
    assert errors.within(5.0).value == 0.5
    assert errors.within(30.0).value == 0.75


def test_drawn_medians_are_those_of_the_drawn_values():
    values = torch.tensor([3.0, 1.0, 7.0], dtype=torch.float64)
    times = np.random.default_rng(5).multinomial(3, np.full(3, 1 / 3), size=20)
    expected = [float(np.median(np.repeat(values.numpy(), row))) for row in times]
    assert weighted_medians(values, resamples=20, seed=5).tolist() == pytest.approx(expected)


def test_a_run_reports_each_mesh_with_intervals(tmp_path):
    seen = []
    report, trials = evaluation.pose.run(
        Blind(), [animal(), sphere(2)], QUICK, label="blind", progress=lambda *news: seen.append(news)
    )
    assert [row[0] for row in report.tables[0].rows] == ["animal", "sphere", "all"]
    assert len(trials) == 6
    by_hand = np.concatenate([trial.distance for trial in trials]).mean()
    assert report.measure("d_geo").value == pytest.approx(by_hand)
    angles = [math.inf if trial.angle is None else trial.angle for trial in trials]
    assert report.measure("within 30°").value == pytest.approx(np.mean(np.array(angles) <= 30))
    assert 0 < report.measure("d_geo").value < 1
    assert seen[-1][:3] == ("test images", 6, 6)
    assert {"total", "count", "angles"} == set(report.samples)
    for trial in trials:  # the true vertex projects to within a face of the patch it is the truth of
        mesh = pose.subdivide(animal() if trial.case == "animal" else sphere(2), 500)
        off = trial.camera.project(mesh.vertices[trial.true])[0] - trial.matches.xy.numpy()
        assert np.median(np.linalg.norm(off, axis=1)) < 12
    figures = evaluation.pose.draw(trials, [animal(), sphere(2)], QUICK)
    assert len(figures["matches"].axes) == 3 * 4
    table = evaluation.pose.compare(report, report, QUICK)
    assert all(row[1].value == row[1].low == row[1].high == 0 for row in table.rows)
    evaluation.save_report(report, tmp_path, figures)
    again = evaluation.load_report(tmp_path)
    assert again.measure("e_rot").unit == "degrees"


def test_test_images_are_the_same_for_every_encoder():
    first, second = (evaluation.pose.run(Blind(), [animal()], QUICK)[1] for _ in range(2))
    assert all(torch.equal(a.image, b.image) for a, b in zip(first, second, strict=True))


def test_others_need_one_mesh():
    with pytest.raises(InputError, match="one mesh and others"):
        evaluation.pose.run(Blind(), [animal(), animal()], QUICK, others=[animal()])


def test_confusion_is_nearer_to_the_twin():
    """Two landmarks at the ends of a line of four vertices; the second point lands on the first one's side."""
    line = np.array([[0, 1, 2, 3.0], [3, 2, 1, 0.0]])
    marks = Landmarks(np.ones(2, bool), line, np.ones(2, bool), np.array([1, 0]))
    vertex = np.array([1, 0])
    distance, twin = marks.distance[[0, 1], vertex], marks.distance[marks.twin, vertex]
    errors = SurfaceErrors()
    add(errors, distance, marks.sided & (twin < distance), marks.sided, SurfaceProtocol().radius)
    assert errors.mean().value == 2.0
    assert errors.confusion().value == 0.5


def rendered(mesh, count):
    """Rendered pictures annotated with the mesh's own landmarks where they are visible, as pairs of a dataset."""
    skeleton = published_skeletons("animalpose")["animal"]
    landmarks, scene, views = pose.animal_landmarks(mesh), Scene(mesh), []
    vertices = [landmarks[name] for name in skeleton.names]
    for i, camera in enumerate(pose.orbit(mesh.vertices, count, size=(112, 112), seed=21)):
        picture = pose.paint(scene, camera, scene.look(camera), pose.draw_look(i, *pose.TESTING))
        xy = torch.from_numpy(camera.project(mesh.vertices[vertices])[0]).float()
        visible = torch.from_numpy(scene.visible(camera)[vertices])
        views.append(View(picture, (112, 112), Keypoints(xy, visible), name=f"view {i}"))
    rows = [(i, (i + 1) % count) for i in range(count)]
    return Pairs(tuple(views), rows, ["horse"] * count, [skeleton] * count), landmarks


class Placing(Blind):
    """An encoder that knows the places of one mesh: looks the camera up by the picture."""

    def __init__(self, mesh, cameras_of):
        self.scene, self.cameras_of = Scene(mesh), cameras_of
        self.waves = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            camera = self.cameras_of.pop(0).resized((28, 28))
            hits, mesh = self.scene.look(camera), self.scene.mesh
            places = np.einsum("hwk,hwkd->hwd", hits.barycentric, mesh.vertices[mesh.faces[hits.face]])
            values = torch.sin(torch.from_numpy(places).float() @ self.waves * 1.5 + torch.arange(32))
            values[~torch.from_numpy(hits.mask)] = 0.1
            yield FeatureMap(values.permute(2, 0, 1), tuple(picture.shape[-2:]))


def test_keypoints_of_pictures_land_on_their_own_places():
    mesh = rigged_animal()
    dataset, _ = rendered(mesh, 4)
    protocol = SurfaceProtocol(decorate=DecorateSettings(views=16, side=112, vertices=800), resamples=50)
    how = protocol.decorate
    around = pose.orbit(mesh.vertices, 16, size=(112, 112), seed=how.seed)
    views = evaluation.surface.annotated_views(dataset, "horse")
    assert len(views) == 4
    encoder = Placing(mesh, [*around, *pose.orbit(mesh.vertices, 4, size=(112, 112), seed=21)])
    report = evaluation.surface.run(encoder, mesh, views, protocol)
    assert report.measure("d_geo").value < 0.1
    assert report.measure("left/right confused").value < 0.15
    blind = evaluation.surface.run(Blind(), mesh, views, protocol)
    assert blind.measure("d_geo").value > 2 * report.measure("d_geo").value
    assert report.tables[0].rows[-1][0] == "all"
    with pytest.raises(InputError, match="no images of 'cow'; it has: horse"):
        evaluation.surface.annotated_views(dataset, "cow")


def test_another_animal_is_tested_through_its_bones():
    horse, longer = rigged_animal(vertices=500), rigged_animal(legs=1.3, vertices=500, name="longer")
    report, trials = evaluation.pose.run(Blind(), [horse], QUICK, others=[longer])
    assert [row[0] for row in report.tables[0].rows] == ["longer"]
    assert report.data == "rigged, tested on longer"
    for trial in trials:  # the truth is on the decorated mesh: same vertex numbers, by construction
        off = trial.camera.project(longer.vertices[trial.true])[0] - trial.matches.xy.numpy()
        assert np.median(np.linalg.norm(off, axis=1)) < 14
