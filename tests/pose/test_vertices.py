"""Decorating a mesh and matching with it: against brute force, and with an encoder that knows the answer."""

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from modelled import animal, sphere

from geco import geometry, pose
from geco.errors import InputError, MissingFileError
from geco.pose import DecorateSettings, PoseSettings, Scene, orbit, rotation_error
from geco.pose.estimation import from_features
from geco.pose.vertices import _ranked, medians
from geco.types import Encoder, FeatureMap

SMALL = DecorateSettings(views=24, side=112, vertices=900, batch_size=5, chunk=100, seed=3)


class Seeing:
    """An encoder that is told where each patch of each picture lies on the mesh: waves of the place as features."""

    name, threshold, dim, stride, device = "seeing", 0.5, 32, 7, torch.device("cpu")

    def __init__(self, mesh):
        generator = torch.Generator().manual_seed(0)
        self.waves = torch.randn(3, self.dim, generator=generator) * 1.5
        self.phases = torch.rand(self.dim, generator=generator) * 6
        self.scene, self.queue, self.pictures = Scene(mesh), [], 0

    def tell(self, cameras):
        self.queue = list(cameras)

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            self.pictures += 1
            camera = self.queue.pop(0)
            grid = (picture.shape[-2] // self.stride, picture.shape[-1] // self.stride)
            hits = self.scene.look(camera.resized(grid))
            mesh = self.scene.mesh
            places = np.einsum("hwk,hwkd->hwd", hits.barycentric, mesh.vertices[mesh.faces[hits.face]])
            values = torch.sin(torch.from_numpy(places).float() @ self.waves + self.phases)
            values[~torch.from_numpy(hits.mask)] = -1.0
            yield FeatureMap(values.permute(2, 0, 1), (picture.shape[-2], picture.shape[-1]))

    def fingerprint(self):
        return "seeing"


def views(mesh, settings):
    how = (settings.up, settings.elevation, settings.field_of_view, settings.seed)
    names = ("up", "elevation", "field_of_view", "seed")
    return orbit(mesh.vertices, settings.views, size=(settings.side,) * 2, **dict(zip(names, how, strict=True)))


@pytest.fixture(scope="module")
def decorated():
    mesh = pose.subdivide(animal(), SMALL.vertices)
    encoder = Seeing(mesh)
    encoder.tell(views(mesh, SMALL))
    reports = []
    made = pose.decorate(encoder, animal(), SMALL, progress=lambda *news: reports.append(news))
    assert isinstance(encoder, Encoder)
    assert reports[-1][:3] == ("decorate", 24, 24)
    return encoder, mesh, made


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_medians_are_those_of_all_samples_at_once(chunk):
    torch.manual_seed(0)
    maps = [FeatureMap(torch.randn(5, 4, 6), (40, 60)) for _ in range(9)]
    xy = torch.rand(9, 50, 2) * torch.tensor([60.0, 40.0])
    visible = torch.rand(9, 50) < 0.4
    visible[:, :3] = False
    ours = medians(maps, xy, visible, chunk=chunk)
    for vertex in range(50):
        rows = [geometry.sample(m.values, xy[i, vertex : vertex + 1], size=m.size)[0] for i, m in enumerate(maps)]
        unit = torch.nn.functional.normalize(torch.stack(rows), dim=1)[visible[:, vertex]]
        true = torch.from_numpy(np.median(unit.numpy(), axis=0)) if len(unit) else torch.zeros(5)
        assert torch.allclose(ours[vertex], torch.nn.functional.normalize(true, dim=0), atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 24, 33])
def test_columns_are_ranked_as_by_torch(count):
    torch.manual_seed(count)
    values = torch.randn(count, 3, 4).round(decimals=1)  # with ties
    values[count // 2 :, 0] = torch.inf
    ordered = values.sort(0).values
    assert torch.equal(_ranked(values.clone(), range(count)), ordered)
    for ranks in ([0], [count - 1], sorted({(count - 1) // 2, count // 2})):
        assert torch.equal(_ranked(values.clone(), ranks), ordered[ranks])


def test_a_decoration_has_the_features_of_its_places(decorated):
    encoder, mesh, made = decorated
    true = torch.sin(torch.from_numpy(mesh.vertices).float() @ encoder.waves + encoder.phases)
    similar = torch.nn.functional.cosine_similarity(true, made.features)[made.seen >= 3]
    assert similar.median() > 0.9
    assert made.mesh_digest == animal().digest
    lengths = made.features.norm(dim=1)
    assert torch.allclose(lengths[made.seen > 0], torch.ones(()), atol=1e-5)
    assert (lengths[made.seen == 0] == 0).all()


def test_a_new_view_gets_its_vertices_and_its_pose(decorated):
    encoder, mesh, made = decorated
    for camera in orbit(mesh.vertices, 3, size=(168, 168), seed=99):
        encoder.tell([camera])
        found = pose.estimate(encoder, made, torch.zeros(3, 168, 168), focal=camera.focal[0])
        assert found.found
        assert rotation_error(found.camera.rotation, camera.rotation) < 8
        assert found.confidence > 0.3
        places = pose.pose_json(found)
        assert np.allclose(places["R"], found.camera.rotation)


def test_vertices_that_no_view_saw_are_never_matched(decorated):
    encoder, mesh, made = decorated
    hidden = replace(made, seen=torch.where(made.vertices[:, 1] > 0, made.seen, 0))
    encoder.tell(views(mesh, SMALL)[:1])
    features = next(iter(encoder.extract_stream([torch.zeros(3, 112, 112)])))
    assert (hidden.seen[pose.match_patches(features, hidden).vertex] > 0).all()


def test_a_mask_chooses_the_patches(decorated):
    _, _, made = decorated
    features = FeatureMap(torch.randn(32, 8, 8), (80, 80))
    mask = torch.zeros(80, 80, dtype=torch.bool)
    mask[:40] = True
    matches = pose.match_patches(features, made, mask=mask)
    assert len(matches) == 32
    assert (matches.xy[:, 1] < 40).all()
    with pytest.raises(InputError, match="the image's size"):
        pose.match_patches(features, made, mask=mask[:10])
    nothing = pose.match_patches(features, made, mask=torch.zeros_like(mask))
    assert len(nothing) == 0


def test_matches_are_the_brute_force_argmax(decorated):
    _, _, made = decorated
    torch.manual_seed(1)
    features = FeatureMap(torch.randn(32, 6, 5), (60, 50))
    matches = pose.match_patches(features, made)
    scores = features.unit().values.flatten(1).mT @ made.features.mT
    scores[:, made.seen == 0] = -2
    assert torch.equal(matches.vertex, scores.argmax(1))
    back = scores.argmax(0)[matches.vertex]
    step = torch.stack([back % 5 - torch.arange(30) % 5, back // 5 - torch.arange(30) // 5], 1).float()
    assert torch.allclose(matches.cycle, step.norm(dim=1), atol=1e-4)


def test_noise_has_no_pose(decorated):
    _, _, made = decorated
    torch.manual_seed(0)
    lost = from_features(FeatureMap(torch.randn(32, 16, 16), (112, 112)), made, settings=PoseSettings(confidence=0.5))
    assert not lost.found
    assert lost.reason
    assert pose.pose_json(lost)["R"] is None
    nothing = from_features(
        FeatureMap(torch.randn(32, 16, 16), (112, 112)), made, mask=torch.zeros(112, 112, dtype=torch.bool)
    )
    assert "a pose needs 4" in nothing.reason


def test_another_encoder_s_decoration_is_refused(decorated):
    encoder, _, made = decorated
    with pytest.raises(InputError, match="another encoder"):
        pose.estimate(encoder, replace(made, encoder="other"), torch.zeros(3, 56, 56))
    with pytest.raises(InputError, match="focal length must be positive"):
        pose.estimate(encoder, made, torch.zeros(3, 56, 56), focal=-1.0)


def test_files_keep_the_decoration(decorated, tmp_path):
    _, _, made = decorated
    path = pose.write_decoration(tmp_path / "deep" / "animal.safetensors", made)
    again = pose.read_decoration(path)
    assert torch.equal(again.vertices, made.vertices)
    assert torch.allclose(again.features, made.features, atol=1e-3)
    assert (again.mesh_digest, again.encoder, again.name) == (made.mesh_digest, made.encoder, made.name)
    with pytest.raises(MissingFileError, match="geco decorate"):
        pose.read_decoration(tmp_path / "none.safetensors")
    path.write_bytes(b"garbage")
    with pytest.raises(InputError, match="not a decorated mesh"):
        pose.read_decoration(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("faces", lambda t: t + len(t)),
        ("faces", lambda t: t[:, :2]),
        ("faces", lambda t: t.double()),
        ("seen", lambda t: t[1:]),
        ("features", lambda t: t * torch.nan),
        ("vertices", lambda t: t[:0]),
    ],
)
def test_a_file_whose_tensors_do_not_fit_together_is_refused(decorated, tmp_path, name, change):
    _, _, made = decorated
    broken = SimpleNamespace(**{**vars(made), name: change(getattr(made, name))})
    with pytest.raises(InputError, match="not a decorated mesh"):
        pose.read_decoration(inspect.unwrap(pose.write_decoration)(tmp_path / "broken.safetensors", broken))


def test_the_cache_is_used_and_a_damaged_one_made_again(tmp_path):
    mesh = sphere(2)
    settings = replace(SMALL, views=3, vertices=162)
    encoder = Seeing(mesh)

    def once():
        encoder.tell(views(mesh, settings))
        return pose.decorated_once(encoder, mesh, tmp_path, settings)

    first = once()
    (path,) = tmp_path.glob("*.safetensors")
    again = once()
    assert encoder.pictures == 3
    assert torch.allclose(first.features, again.features, atol=1e-3)
    path.write_bytes(b"damaged")
    once()
    assert encoder.pictures == 6
    assert torch.equal(pose.read_decoration(path).features, again.features)


def test_an_interrupted_decoration_leaves_nothing_behind(tmp_path):
    mesh, settings = sphere(2), replace(SMALL, views=3, vertices=162)
    encoder = Seeing(mesh)
    encoder.tell(views(mesh, settings))

    def interrupt(what, done, total, news=""):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pose.decorated_once(encoder, mesh, tmp_path / "cache", settings, progress=interrupt)
    assert not list(tmp_path.rglob("*"))


def test_settings_are_checked():
    for wrong in ({"up": "w"}, {"views": 0}, {"side": 5}, {"looks": "new"}):
        with pytest.raises(InputError):
            DecorateSettings(**wrong)
