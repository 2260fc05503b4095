"""`geco decorate` and `geco pose` as a user meets them, with a tiny random encoder."""

import json

import pytest
from modelled import animal, box
from PIL import Image
from safetensors import safe_open
from typer.testing import CliRunner

import geco
from geco.cli import build
from geco.errors import FileError, InputError, MissingFileError
from geco.pose import read_decoration

QUICK = ("--views", "4", "--vertices", "300", "--size", "56")


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))

    def call(*arguments):
        return CliRunner().invoke(build(), [str(a) for a in arguments], catch_exceptions=False)

    return call


@pytest.fixture
def mesh(tmp_path):
    import trimesh

    made = animal()
    path = tmp_path / "animal.obj"
    trimesh.Trimesh(made.vertices, made.faces, process=False).export(path)
    return path


def test_decorate_writes_a_file_with_the_mesh_s_hash(invoke, mesh, tiny_folder, tmp_path):
    done = invoke("decorate", mesh, "-o", "animal.safetensors", "-m", tiny_folder, *QUICK)
    assert done.exit_code == 0, done.output
    with safe_open(tmp_path / "animal.safetensors", framework="pt") as opened:
        assert opened.metadata()["mesh"] == geco.pose.load_mesh(mesh).digest
        assert opened.get_tensor("features").shape == (300, 24)
    assert "8 separate pieces" in done.stderr
    assert "written: animal.safetensors" in done.stderr


def test_pose_prints_json_draws_and_uses_the_cache(invoke, mesh, tiny_folder, image_file, tmp_path):
    arguments = ("pose", mesh, image_file(), "-m", tiny_folder, "--confidence", "0", *QUICK)
    done = invoke(*arguments)
    answer = json.loads(done.stdout)
    assert done.exit_code == (0 if answer["found"] else 1)
    assert "8 separate pieces" in done.stderr
    assert (tmp_path / "pose.png").is_file() == answer["found"]
    (kept,) = (tmp_path / "cache" / "decorated").glob("animal-*.safetensors")
    before = kept.stat().st_mtime_ns
    again = invoke("pose", kept, image_file(), "-m", tiny_folder, "--confidence", "0", "--size", "56")
    assert json.loads(again.stdout)["matches"] == answer["matches"]
    invoke(*arguments)
    assert kept.stat().st_mtime_ns == before
    assert len(read_decoration(kept).seen) == 300


def test_an_image_without_the_animal_has_no_pose(invoke, mesh, tiny_folder, image_file, tmp_path):
    done = invoke("pose", mesh, image_file(), "-m", tiny_folder, "--confidence", "0.99", *QUICK)
    assert done.exit_code == 1
    assert "no pose found" in done.stderr
    assert json.loads(done.stdout)["R"] is None
    assert not (tmp_path / "pose.png").exists()


def test_mistakes_are_one_line_and_cost_no_model(invoke, mesh, image_file, tmp_path):
    with pytest.raises(MissingFileError, match=r"none\.obj: no such file"):
        invoke("pose", "none.obj", image_file())
    with pytest.raises(MissingFileError, match=r"none\.jpg: no such file"):
        invoke("pose", mesh, "none.jpg")
    Image.new("L", (5, 9)).resize((20, 30)).save(tmp_path / "mask.png")
    with pytest.raises(InputError, match="its image"):
        invoke("pose", mesh, image_file(), "--mask", "mask.png")
    (tmp_path / "mesh.obj").write_text("v 0 0 0\n")
    with pytest.raises(InputError, match="no faces"):
        invoke("decorate", "mesh.obj")
    with pytest.raises(MissingFileError, match="COLMAP"):
        invoke("decorate", mesh, "--posed", "nowhere")
    with pytest.raises(MissingFileError, match="COLMAP"):
        invoke("decorate", mesh, "--photographs", "nowhere")  # as it was called before


def test_the_python_door(mesh, tiny_folder, image_file, tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    model = geco.load(tiny_folder, size=56, device="cpu")
    settings = geco.DecorateSettings(views=3, vertices=200, side=56)
    decorated = geco.decorate(mesh, model=model, settings=settings)
    assert isinstance(decorated, geco.Decoration)
    pose = geco.estimate_pose(decorated, image_file(), model=model, focal=150.0)
    assert isinstance(pose, geco.Pose)
    assert pose.camera.size == (90, 120)
    path = geco.pose.write_decoration(tmp_path / "animal.safetensors", decorated)
    assert len(geco.estimate_pose(path, image_file(), model=model).matches) == len(pose.matches)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    import sys

    from geco.errors import MissingPackageError

    box().export(tmp_path / "box.obj")
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'geco-features\[pose\]'"):
        geco.pose.load_mesh(tmp_path / "box.obj")


def test_evaluate_pose_compares_two_models(invoke, mesh, tiny_folder, tmp_path):
    quick = ("--views", "3", "--images", "2", "--size", "56")
    done = invoke("evaluate", "pose", mesh, "-m", tiny_folder, *quick, "--out", "one", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert {"d_geo", "e_rot", "within 5°", "within 10°", "within 30°"} == set(report["values"])
    assert (tmp_path / "one" / "matches.png").is_file()
    both = invoke("evaluate", "pose", mesh, "-m", tiny_folder, "-m", tiny_folder, *quick)
    assert "Side by side" in both.stdout
    assert "-0.000 ±0.000" in both.stdout or "0.000 ±0.000" in both.stdout


def test_results_never_go_onto_an_input(invoke, mesh, image_file):
    picture = image_file("photo.png")
    with pytest.raises((FileError, InputError), match=r"photo\.png"):
        invoke("pose", mesh, picture, "-o", picture)
    with pytest.raises((FileError, InputError), match=r"\.safetensors"):
        invoke("decorate", mesh, "-o", "mesh.txt")
