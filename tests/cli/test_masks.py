"""`geco masks` on a small COCO dataset that the test writes."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from segmented import brightness_network, tiny_sam
from typer.testing import CliRunner

from geco import data, images, masks
from geco.cli import build
from geco.types import MaskFile

run = CliRunner()
NAMES = ["left_eye", "right_eye", "nose"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six images of a bright square, two keypoints on it and one beside it, outlined by a polygon."""
    folder = tmp_path / "animals"
    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    listed, annotations = [], []
    for number in range(1, 7):
        pixels = np.full((40, 60, 3), 10, np.uint8)
        pixels[10:30, 20:45] = 230
        Pillow.fromarray(pixels).save(folder / "images" / f"{number}.png")
        listed.append({"id": number, "file_name": f"{number}.png", "width": 60, "height": 40})
        annotations.append(
            {
                "id": number,
                "image_id": number,
                "category_id": 1,
                "bbox": [20, 10, 25, 20],
                "iscrowd": 0,
                "area": 500,
                "num_keypoints": 3,
                "keypoints": [25, 15, 2, 40, 15, 2, 5, 5, 2],
                "segmentation": [[20, 10, 45, 10, 45, 30, 20, 30]],
            }
        )
    content = {
        "images": listed,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "square", "keypoints": NAMES, "skeleton": []}],
    }
    (folder / "annotations" / "train.json").write_text(json.dumps(content))
    return folder


def call(*arguments: object):
    return run.invoke(build(), ["masks", *map(str, arguments)])


def test_own_masks_are_collected_evaluated_and_attached(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call("coco", root, "--split", "train", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["instances"], told["made"], told["empty"], told["failures"]) == (6, 6, 0, [])
    assert told["keypoints_inside"] == pytest.approx(2 / 3)
    assert told["box_covered"] == pytest.approx(1.0, abs=0.1)
    assert images.size_of(told["sheet"])[1] > 100

    attached = data.load("coco", root, "train", masks=out)
    view = images.load_view(attached[0].source)
    assert view.mask[20, 30]
    assert not view.mask[5, 5]


def test_a_second_run_makes_nothing_and_says_so(root: Path, tmp_path: Path) -> None:
    arguments = ("coco", root, "--split", "train", "--out", tmp_path / "out", "--sheet", 0)
    assert "6 masks in" in call(*arguments).stdout
    result = call(*arguments)
    assert "(0 new, 0 empty)" in result.stdout
    assert "visible keypoints on the mask: 66.7%" in result.stdout
    assert "share of the box covered:" in result.stdout
    assert not (tmp_path / "out" / "contact-sheet.png").exists()


def test_a_limit_makes_a_trial_that_is_resumed_later(root: Path, tmp_path: Path) -> None:
    arguments = ("coco", root, "--split", "train", "--out", tmp_path / "out", "--json")
    assert json.loads(call(*arguments, "--limit", 2).stdout)["made"] == 2
    assert json.loads(call(*arguments).stdout)["made"] == 4


def test_u2net_masks_with_a_network_file(root: Path, tmp_path: Path) -> None:
    network = brightness_network(tmp_path / "net.onnx")
    arguments = ("coco", root, "--split", "train", "--with", "u2net", "--weights", network)
    result = call(*arguments, "--out", tmp_path / "u2")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "u2" / "masks.json").read_text())
    assert record == {"maker": "u2net", "weights": "net.onnx", "margin": 0.1, "threshold": 0.5}
    written = next((tmp_path / "u2").glob("*@*.png"))
    mask = images.read_mask(MaskFile(written))
    assert mask[12:28, 22:43].all()
    assert not mask[:, 50:].any()
    other = call(*arguments, "--out", tmp_path / "u2", "--threshold", 0.7)
    assert "threshold=0.5, now asked for" in str(other.exception)


def test_sam_masks_from_a_folder(root: Path, tmp_path: Path) -> None:
    weights = tiny_sam(tmp_path / "tiny")
    arguments = ("--split", "train", "--with", "sam", "--weights", weights, "--device", "cpu")
    result = call("coco", root, *arguments, "--out", tmp_path / "sam", "--limit", 2)
    assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "sam").glob("*@*.png"))) == 2


def test_failures_are_counted_the_rest_is_kept_and_the_exit_code_says_so(root: Path, tmp_path: Path) -> None:
    (root / "images" / "3.png").write_bytes(b"broken")
    result = call("coco", root, "--split", "train", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "5 masks in" in result.stdout
    assert "1 failed, the first:" in result.stdout
    assert "3.png" in result.stdout


def test_a_mask_of_another_size_is_told_and_not_overwritten(root: Path, tmp_path: Path) -> None:
    arguments = ("coco", root, "--split", "train", "--out", tmp_path / "out")
    assert call(*arguments).exit_code == 0
    other = next((tmp_path / "out").glob("3@*.png"))
    Pillow.new("L", (30, 20)).save(other)
    result = call(*arguments)
    assert result.exit_code == 1
    assert "1 failed, the first:" in result.stdout
    assert "3@20-10-45-30.png: the mask is 20×30 (height×width), but its view is 40×60" in result.stdout
    assert images.size_of(other) == (20, 30)


def test_the_default_folder_is_found_by_the_dataset_s_name(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("COCO", root, "--split", "train", "--sheet", 0).exit_code == 0
    assert masks.made_folders("coco") == [Path("masks/coco-own")]


def test_empty_splits_are_passed_over(root: Path, tmp_path: Path) -> None:
    empty = {"images": [], "annotations": [], "categories": []}
    (root / "annotations" / "val.json").write_text(json.dumps(empty))
    out = ("--out", tmp_path / "out", "--json")
    result = call("coco", root, "--split", "val", "--split", "train", *out)
    assert json.loads(result.stdout)["instances"] == 6
    assert "coco at" in str(call("coco", root, "--split", "val", *out).exception)


def test_mistakes_are_one_line_that_helps(root: Path, tmp_path: Path) -> None:
    told = {
        ("cocoo", root): "datasets has no 'cocoo'; did you mean 'coco'?",
        ("coco", tmp_path / "no"): "no such folder; expected the root of coco",
        ("coco", root, "--split", "train", "--with", "u2net"): "u2net masks need the network: give --weights",
    }
    for arguments, message in told.items():
        result = call(*arguments)
        assert result.exit_code != 0
        assert message in str(result.exception)
    choices = call("coco", root, "--with", "magic").output
    assert all(f"'{choice}'" in choices for choice in ("own", "sam", "u2net"))


def test_help_has_an_example() -> None:
    assert "geco masks ap10k" in call("--help").output


def test_masks_of_squares_hold_their_keypoints_and_are_found_with_the_same_squares(root: Path, tmp_path: Path) -> None:
    out, network = tmp_path / "out", brightness_network(tmp_path / "net.onnx")
    squares = ("--set", "crop=square", "--set", "margin=1")
    made = ("coco", root, "--split", "train", "--with", "u2net", "--weights", network, "--out", out, *squares)
    result = call(*made, "--hold-keypoints", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["keypoints_inside"] == 1.0
    attached = data.load("coco", root, "train", ["crop=square", "margin=1"], masks=out)
    points = attached[0].source.points
    x, y = points.xy[points.visible][2].int().tolist()
    assert images.load_view(attached[0].source).mask[y, x]
    assert "holds masks made with" in str(call(*made).exception)  # without --hold-keypoints they would be others
    result = call("coco", root, "--split", "train", "--hold-keypoints", "--out", tmp_path / "own")
    assert str(result.exception) == "--hold-keypoints is for --with u2net, got --with own"
