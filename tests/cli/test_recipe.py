"""The documented recipe on data without masks of its own: `geco masks` → `geco train` → `geco evaluate`, as a user."""

import json

import numpy as np
import pytest
import torch
from dataset_trees import write_json
from PIL import Image as Pillow
from segmented import brightness_network
from training_data import tiny_vit
from typer.testing import CliRunner

from geco.cli import build
from geco.training import RunFolder

KEYPOINTS = 17
IMAGES = 60


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture
def geco(monkeypatch, tmp_path):
    """The command line in a folder of its own, on one thread."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(*arguments):
        return CliRunner().invoke(build(), [str(word) for word in arguments])

    yield run
    torch.set_num_threads(threads)


@pytest.fixture
def ap10k(tmp_path):
    """A release of AP-10K with one species: a bright animal on dark ground, no outlines, no masks."""
    root, rng = tmp_path / "ap-10k", np.random.default_rng(0)
    contents = {name: {"images": [], "annotations": []} for name in ("train", "val", "test")}
    (root / "data").mkdir(parents=True)
    for number in range(1, IMAGES + 1):
        left, top = (int(edge) for edge in rng.integers(5, 30, 2))
        pixels = np.full((98, 98, 3), 20, np.uint8)
        pixels[top : top + 50, left : left + 60] = rng.integers(180, 255, (50, 60, 3))
        name = f"{number:012d}.jpg"
        Pillow.fromarray(pixels).save(root / "data" / name)
        content = contents[("train", "val", "test")[number % 3]]
        content["images"].append({"id": number, "file_name": name, "width": 98, "height": 98})
        across, down = np.arange(KEYPOINTS) % 6, np.arange(KEYPOINTS) // 6
        points = np.stack([left + 5 + 10 * across, top + 8 + 15 * down, np.full(KEYPOINTS, 2)], 1)
        content["annotations"].append(
            {
                "id": number,
                "image_id": number,
                "category_id": 24,
                "bbox": [left, top, 60, 50],
                "area": 3000,
                "iscrowd": 0,
                "num_keypoints": KEYPOINTS,
                "keypoints": [int(value) for value in points.flatten()],
            }
        )
    categories = [{"id": 24, "supercategory": "Felidae", "name": "cat"}]
    for name, content in contents.items():
        write_json(root / f"annotations/ap10k-{name}-split1.json", {**content, "categories": categories})
    return root


def test_masks_then_train_then_evaluate(geco, ap10k, vit, tmp_path):
    small = ["--model", vit, "--size", 98, "--batch-size", 2, "--workers", 0, "--set", "cpu=true", "--steps", 2]
    train = ["train", "--data", f"ap10k={ap10k}", *small, "--set", "validation_pairs=3"]
    assert geco("data", "prepare", "ap10k", ap10k).exit_code == 0

    bare = geco(*train, "--dry-run")
    assert "ap10k: " in str(bare.exception)
    assert "make masks with `geco masks ap10k ROOT`" in str(bare.exception)

    network = brightness_network(tmp_path / "bright.onnx")
    made = geco("masks", "ap10k", ap10k, "--split", "train", "--with", "u2net", "--weights", network, "--json")
    assert made.exit_code == 0, (made.output, made.exception)
    assert json.loads(made.stdout)["keypoints_inside"] > 0.9

    trained = geco(*train, "--out", "runs/cats")
    assert trained.exit_code == 0, (trained.output, trained.exception)
    assert "masks/ap10k-u2net" in trained.output  # found where `geco masks` wrote them, and said so
    steps = [record for record in RunFolder("runs/cats").records() if record["kind"] == "step"]
    assert len(steps) == 2
    assert all(record["skipped"] == 0 and record["entries background"] > 0 for record in steps)

    result = geco("evaluate", "keypoints", "ap10k", ap10k, "-m", "runs/cats", "--limit", 5, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    assert 0 <= json.loads(result.stdout)["values"]["geco PCK@0.1"] <= 1


def test_boxes_are_masks_for_those_without_a_segmenter(geco, ap10k, vit):
    small = ["--model", vit, "--size", 98, "--batch-size", 2, "--workers", 0, "--set", "cpu=true", "--steps", 1]
    assert geco("data", "prepare", "ap10k", ap10k).exit_code == 0
    for words in ("box", "ap10k=box"):
        result = geco("train", "--data", f"ap10k={ap10k}", *small, "--masks", words, "--dry-run")
        assert result.exit_code == 0, (result.output, result.exception)


def test_a_folder_of_masks_can_be_named(geco, ap10k, vit, tmp_path):
    network = brightness_network(tmp_path / "bright.onnx")
    small = ["--model", vit, "--size", 98, "--batch-size", 2, "--workers", 0, "--set", "cpu=true", "--steps", 1]
    assert geco("data", "prepare", "ap10k", ap10k).exit_code == 0
    words = ["--with", "u2net", "--weights", network, "--out", "elsewhere"]
    assert geco("masks", "ap10k", ap10k, "--split", "train", *words).exit_code == 0
    train = ["train", "--data", f"ap10k={ap10k}", *small, "--dry-run"]
    assert "no foreground mask" in str(geco(*train).exception)
    named = geco(*train, "--masks", "ap10k=elsewhere")
    assert named.exit_code == 0, (named.output, named.exception)
