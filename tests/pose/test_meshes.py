"""Meshes from files: what is read, merged and subdivided, and what is said of broken ones."""

import json

import numpy as np
import pytest
import trimesh
from dataset_trees import real, real_root
from modelled import animal, box, mesh_of, plane, rigged_gltf, sphere

from geco.errors import InputError, MissingFileError
from geco.pose import load_mesh, pose_mesh, problems, subdivide
from geco.pose.meshes import Mesh, components, merge


def area(mesh):
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


@pytest.mark.parametrize("ending", ["glb", "obj", "ply", "off"])
def test_formats_give_the_same_merged_surface(tmp_path, ending):
    shape = box((1, 2, 3))
    split = trimesh.Trimesh(shape.vertices[shape.faces].reshape(-1, 3), np.arange(36).reshape(-1, 3), process=False)
    split.export(tmp_path / f"box.{ending}")
    mesh = load_mesh(tmp_path / f"box.{ending}")
    assert mesh.vertices.shape == (8, 3)
    assert mesh.faces.shape == (12, 3)
    assert area(mesh) == pytest.approx(22, rel=1e-6)
    assert mesh.diagonal == pytest.approx(np.sqrt(14), rel=1e-6)
    assert problems(mesh) == ()


@pytest.mark.parametrize("make", [animal, sphere, plane], ids=["animal", "sphere", "plane"])
def test_subdividing_keeps_the_surface_and_reaches_the_number(make):
    mesh = make()
    wanted = len(mesh.vertices) + 777
    fine = subdivide(mesh, wanted)
    assert len(fine.vertices) == wanted
    assert area(fine) == pytest.approx(area(mesh), rel=1e-9)
    assert np.array_equal(fine.vertices[: len(mesh.vertices)], mesh.vertices)
    reference = trimesh.Trimesh(fine.vertices, fine.faces, process=False)
    assert reference.is_winding_consistent  # the cuts fit together: no hanging vertex, no flipped half
    assert reference.is_watertight == trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).is_watertight
    assert subdivide(mesh, 3) is mesh


def test_colours_follow_the_subdivision():
    mesh = plane(cells=2)
    colours = mesh.vertices[mesh.faces]  # a colour that is linear in space must stay equal to the place
    fine = subdivide(Mesh(mesh.vertices, mesh.faces, colours), 300)
    assert np.allclose(fine.colours, fine.vertices[fine.faces])


def test_the_digest_names_the_content():
    assert sphere().digest == sphere().digest
    assert sphere().digest != sphere(radius=1.01).digest


def test_a_skin_bends_as_its_bones_do(tmp_path):
    """Closed form: the upper half of the bar lies down to −x, the middle ring is the mean of both bones."""
    mesh = load_mesh(rigged_gltf(tmp_path / "bar.gltf"))
    assert mesh.rig.joints == ("Lower", "Upper.L")
    assert np.allclose(mesh.rig.head("Upper.L"), (0, 1, 0))
    assert np.allclose(mesh.colours, (1, 0, 0))
    assert np.allclose(pose_mesh(mesh, "bend", 0.0).vertices, mesh.vertices, atol=1e-6)
    bent = pose_mesh(mesh, "bend", 1.0).vertices
    x, y, z = mesh.vertices.T
    full = np.stack([-(y - 1), 1 + x, z], 1)
    assert np.allclose(bent[y == 0], mesh.vertices[y == 0], atol=1e-6)
    assert np.allclose(bent[y == 2], full[y == 2], atol=1e-6)
    assert np.allclose(bent[y == 1], (full + mesh.vertices)[y == 1] / 2, atol=1e-6)
    half = pose_mesh(mesh, "bend", 0.5).vertices[y == 2]  # 45°, on the sphere and not through it
    assert np.allclose(np.hypot(half[:, 0], half[:, 1] - 1), np.hypot(1, 0.1), atol=1e-6)


def test_what_cannot_be_posed_says_so(tmp_path):
    with pytest.raises(InputError, match="no skin"):
        pose_mesh(sphere(), "walk", 0)
    with pytest.raises(InputError, match="no animation 'walk'; it has: Bend"):
        pose_mesh(load_mesh(rigged_gltf(tmp_path / "bar.gltf")), "walk", 0)


def broken(folder, kind):
    path = folder / "mesh.obj"
    text = {
        "empty": "",
        "garbage": "this is not a mesh\x00\x01",
        "points only": "v 0 0 0\nv 1 0 0\nv 0 1 0\n",
        "one point": "v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3\n",
        "nan": "v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n",
        "a line": "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 1 3\n",
    }[kind]
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("empty", "no faces|damaged"),
        ("garbage", "no faces|damaged"),
        ("points only", "no faces"),
        ("one point", "zero size"),
        ("nan", "NaN|no faces|damaged"),
        ("a line", "zero area|no faces"),
    ],
)
def test_broken_files_are_one_line(tmp_path, kind, said):
    with pytest.raises(InputError, match=said) as caught:
        load_mesh(broken(tmp_path, kind))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_missing_unknown_and_huge_files(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        load_mesh(tmp_path / "none.obj")
    (tmp_path / "mesh.txt").write_text("x")
    with pytest.raises(InputError, match=r"expected one of \.glb"):
        load_mesh(tmp_path / "mesh.txt")
    box().export(tmp_path / "box.obj")
    with pytest.raises(InputError, match="12 faces, above the limit of 10"):
        load_mesh(tmp_path / "box.obj", faces=10)


@pytest.mark.parametrize("length", [0, 10, 30, 300])
def test_a_glb_that_is_cut_short_is_one_line(tmp_path, length):
    box().export(tmp_path / "box.glb")
    (tmp_path / "cut.glb").write_bytes((tmp_path / "box.glb").read_bytes()[:length])
    with pytest.raises(InputError, match=r"damaged|cut short"):
        load_mesh(tmp_path / "cut.glb")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("animations", 0, "channels", 0, "target", "node"), 99),
        (("accessors", 6, "type"), "VEC3"),
        (("accessors", 5, "count"), 1),
        (("nodes", 0, "children"), [0]),
        (("nodes",), 5),
        (("skins", 0, "joints"), ["a"]),
        ((), []),
    ],
    ids=str,
)
def test_a_skin_that_does_not_fit_together_is_one_line(tmp_path, path, value):
    """A number out of range would otherwise surface when the mesh is posed."""
    file = rigged_gltf(tmp_path / "bar.gltf")
    content = json.loads(file.read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    if path:
        place[path[-1]] = value
    file.write_text(json.dumps(content if path else value))
    with pytest.raises(InputError, match=r"damaged|circle") as caught:
        load_mesh(file)
    assert "\n" not in str(caught.value)


def test_what_may_surprise_is_named():
    two = mesh_of(trimesh.util.concatenate([box(), box(at=(3, 0, 0))]))
    assert any("2 separate pieces" in line for line in problems(two))
    assert any("not closed" in line for line in problems(plane()))
    inside_out = sphere(1)
    assert any("inside out" in line for line in problems(Mesh(inside_out.vertices, inside_out.faces[:, ::-1])))
    flipped = inside_out.faces.copy()
    flipped[0] = flipped[0, ::-1]
    assert any("flipped" in line for line in problems(Mesh(inside_out.vertices, flipped)))
    fan = Mesh(np.vstack([np.eye(3), [[0, 0, 0], [1, 1, 1]]]), np.array([(0, 1, 2), (0, 1, 3), (0, 1, 4)]))
    assert any("non-manifold" in line for line in problems(fan))
    for unit in (1e-3, 1e3):
        assert any("no unit known" in line for line in problems(sphere(1, radius=unit)))


def test_merging_drops_what_no_face_uses():
    mesh = merge(Mesh(np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (5, 5, 5.0), (0, 0, 0)]), np.array([(4, 1, 2)])))
    assert mesh.vertices.shape == (3, 3)
    assert components(mesh).max() == 0


@real
def test_rigged_animals_of_the_collection():
    """Left joints lie on the +x side of an animal that faces +z with y up; skinning at rest is near the bind pose."""
    folder = real_root("meshes/quaternius")
    for path in sorted(folder.glob("*.glb")):
        mesh = load_mesh(path)
        assert mesh.rig.head("FrontShoulder.L")[0] > 0 > mesh.rig.head("FrontShoulder.R")[0], path.name
        assert mesh.rig.head("Head")[2] > mesh.rig.head("Tail1")[2]
        assert np.allclose(mesh.rig.weights.sum(1), 1, atol=1e-6)
        moved = pose_mesh(mesh, "Walk", 0.4)
        assert 0 < np.abs(moved.vertices - mesh.vertices).max() < mesh.diagonal
