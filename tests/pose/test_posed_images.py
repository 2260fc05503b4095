"""Posed images in COLMAP's and NeRF's formats, against the cameras that wrote them."""

import json

import numpy as np
import pytest
import torch
from modelled import animal, sphere
from PIL import Image
from scipy.spatial.transform import Rotation

from geco.errors import InputError, MissingFileError
from geco.pose import DecorateSettings, Scene, decorate_images, orbit, paint, read_posed
from geco.pose.looks import Look
from geco.types import FeatureMap

SIZE = (60, 80)


def rendered(folder, count=3):
    cameras = orbit(animal().vertices, count, size=SIZE, seed=8)
    scene = Scene(animal())
    for i, camera in enumerate(cameras):
        picture = paint(scene, camera, scene.look(camera), Look(coat="plain", seed=2))
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(folder / f"{i}.png")
    return cameras


def colmap(folder, cameras, model="PINHOLE"):
    lenses = [f"{i} {model} 80 60 {c.focal[0]} {c.focal[1]} {c.centre[0]} {c.centre[1]}" for i, c in enumerate(cameras)]
    (folder / "cameras.txt").write_text("# comment\n" + "\n".join(lenses) + "\n")
    lines = ["# comment"]
    for i, camera in enumerate(cameras):
        x, y, z, w = Rotation.from_matrix(camera.rotation).as_quat()
        lines += [f"{i + 1} {w} {x} {y} {z} {' '.join(map(str, camera.translation))} {i} {i}.png", ""]
    (folder / "images.txt").write_text("\n".join(lines) + "\n")


def transforms(folder, cameras):
    frames = []
    for i, camera in enumerate(cameras):
        matrix = np.eye(4)
        matrix[:3, :3] = camera.rotation.T @ np.diag([1, -1, -1])
        matrix[:3, 3] = camera.position
        angle = 2 * np.arctan(SIZE[1] / 2 / camera.focal[0])
        frames.append({"file_path": f"{i}.png", "transform_matrix": matrix.tolist(), "camera_angle_x": angle})
    (folder / "transforms.json").write_text(json.dumps({"frames": frames}))


@pytest.mark.parametrize("write", [colmap, transforms])
def test_cameras_come_back(tmp_path, write):
    cameras = rendered(tmp_path)
    write(tmp_path, cameras)
    posed = read_posed(tmp_path)
    assert [p.path.name for p in posed] == ["0.png", "1.png", "2.png"]
    for image, camera in zip(posed, cameras, strict=True):
        points = animal().vertices
        assert np.allclose(image.camera.project(points)[0], camera.project(points)[0], atol=1e-6)


def test_a_mesh_is_decorated_from_posed_images(tmp_path):
    cameras = rendered(tmp_path)
    colmap(tmp_path, cameras)

    class Colours:
        name, threshold, dim, stride, device = "colours", 0.0, 3, 1, torch.device("cpu")

        def extract_stream(self, pictures, *, batch_size=8):
            for picture in pictures:
                yield FeatureMap(picture.float() - 128, tuple(picture.shape[-2:]))

        def fingerprint(self):
            return "colours"

    made = decorate_images(Colours(), animal(), read_posed(tmp_path), DecorateSettings(vertices=200))
    visible = np.stack([Scene(made.mesh).visible(camera) for camera in cameras])
    assert made.seen.tolist() == visible.sum(0).tolist()
    with pytest.raises(InputError, match="no posed images"):
        decorate_images(Colours(), sphere(), [])


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"k1": -0.12}, r"0\.png .* distorts \(k1 -0.12\); undistort first"),
        ({"transform_matrix": [[1, 0], [0, 1]]}, r"not a transforms\.json"),
        ({"transform_matrix": (2 * np.eye(4)).tolist()}, "orthonormal"),
        ({"camera_angle_x": 0}, r"not a transforms\.json"),
        ({"w": 0, "h": 0, "fl_x": 9}, "must have pixels"),
        ({"fl_x": 10, "fl_y": float("nan")}, "focal length must be positive"),
        ({"cx": float("inf")}, "NaN or infinity"),
    ],
)
def test_a_frame_that_is_no_pinhole_camera_is_one_line(tmp_path, frame, said):
    transforms(tmp_path, rendered(tmp_path, 1))
    content = json.loads((tmp_path / "transforms.json").read_text())
    content["frames"][0].update(frame)
    (tmp_path / "transforms.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=said) as caught:
        read_posed(tmp_path)
    assert "\n" not in str(caught.value)


def test_what_is_wrong_is_one_line(tmp_path):
    with pytest.raises(MissingFileError, match=r"transforms\.json"):
        read_posed(tmp_path)
    cameras = rendered(tmp_path)
    colmap(tmp_path, cameras, model="OPENCV")
    with pytest.raises(InputError, match="undistort first"):
        read_posed(tmp_path)
    (tmp_path / "cameras.txt").write_text("1 PINHOLE x")
    with pytest.raises(InputError, match="not a COLMAP text model"):
        read_posed(tmp_path)
    (tmp_path / "images.txt").unlink()
    for text in ("{}", "[]", '{"frames": [1]}', "[" * 100_000):
        (tmp_path / "transforms.json").write_text(text)
        with pytest.raises(InputError, match=r"not a transforms\.json"):
            read_posed(tmp_path)
    transforms(tmp_path, cameras)
    (tmp_path / "1.png").unlink()
    with pytest.raises((MissingFileError, InputError), match="no such file"):
        read_posed(tmp_path)
