"""`geco data`: counts, published totals, every fault, pictures, and the lists of AP-10K."""

import json

import pytest
from dataset_trees import real, real_root, write_image, write_json
from typer.testing import CliRunner

from geco.cli import build

EYES = ["snout", "left_eye", "right_eye", "tail"]


def call(*arguments):
    return CliRunner().invoke(build(), [str(argument) for argument in ("data", *arguments)])


@pytest.fixture
def root(tmp_path):
    """Six geckos; the one of image 5 hides an eye."""
    flags = [[2, 2, 2, 2]] * 5 + [[2, 2, 0, 2]]
    write_json(
        tmp_path / "annotations.json",
        {
            "images": [{"id": i, "file_name": f"g{i}.jpg", "width": 80, "height": 60} for i in range(6)],
            "annotations": [
                {
                    "image_id": i,
                    "category_id": 1,
                    "bbox": [10, 10, 40, 40],
                    "keypoints": [v for k, flag in enumerate(flags[i]) for v in (12 + 9 * k, 20, flag)],
                    "segmentation": [[10, 10, 50, 10, 50, 50, 10, 50]],
                }
                for i in range(6)
            ],
            "categories": [{"id": 1, "name": "gecko", "keypoints": EYES}],
        },
    )
    for i in range(6):
        write_image(tmp_path / "images" / f"g{i}.jpg")
    return tmp_path


def test_list_names_every_loader():
    result = call("list", "--json")
    entries = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert set(entries) == {
        "animalpose", "ap10k", "coco", "cub", "images", "pascal_keypoints", "pascal_part", "pfpascal", "pfwillow",
        "spair",
    }  # fmt: skip
    assert entries["cub"]["splits"] == ["train", "test"]
    assert "SPair-71k" in call("list").stdout


def test_check_counts(root):
    result = call("check", "coco", root, "--split", "all", "--json")
    assert result.exit_code == 0, result.output
    (split,) = json.loads(result.stdout)["splits"]
    assert (split["photographs"], split["instances"], split["pairs"], split["masks"]) == (6, 6, 30, 6)
    assert split["keypoints"] == 6 * 4 - 1
    assert split["keypoints_of"] == {"gecko": 23}
    assert split["pairs_of"] == {"gecko": 30}
    # 5·4 pairs of whole geckos: two eyes 11, snout and tail 1x. 5 pairs to the one with a hidden eye: its
    # visible eye is 10, the hidden one 01. 5 pairs from it: one eye, 11.
    assert split["cases"] == {"11": 20 * 2 + 5, "10": 5, "1x": 30 * 2, "01": 5, "00": 0}


def test_check_prints_tables(root):
    text = call("check", "coco", root, "--split", "all").stdout
    assert "gecko" in text
    assert "nothing missing or damaged" in text
    assert "of the 110 queries with a visible match, 11 40.9, 10 4.5, 1x 54.5 %" in text


def test_check_lists_every_fault_and_says_so_in_its_exit_code(root):
    (root / "images/g1.jpg").unlink()
    (root / "images/g2.jpg").write_bytes((root / "images/g2.jpg").read_bytes()[:300])
    write_image(root / "images/g3.jpg", (61, 80))
    result = call("check", "coco", root, "--split", "all", "--json")
    assert result.exit_code == 1
    (split,) = json.loads(result.stdout)["splits"]
    faults = sorted(
        fault.split("/")[-1] if "g1" not in fault else "g1" + fault.split("g1")[1][:18] for fault in split["faults"]
    )
    assert len(faults) == 3
    assert faults[0].startswith("g1.jpg: no such file")
    assert "g2.jpg is damaged or cut short" in faults[1]
    assert "g3.jpg: the image is 61×80" in faults[2]
    text = call("check", "coco", root, "--split", "all").stdout
    assert text.count("missing or damaged: ") == 3
    assert "3 missing or damaged" in text
    fast = call("check", "coco", root, "--split", "all", "--fast", "--json")
    assert len(json.loads(fast.stdout)["splits"][0]["faults"]) == 1, "a damaged file is there"


def test_check_draws_pictures(root, tmp_path):
    out = tmp_path / "pictures"
    text = call("check", "coco", root, "--split", "all", "--show", "2", "--out", out).stdout
    assert sorted(path.name for path in out.iterdir()) == ["coco-all-1.png", "coco-all-2.png"]
    assert "coco-all-2.png" in text


def test_options_of_the_loader(root):
    result = call("check", "coco", root, "--split", "all", "--set", "n_pairs=7", "--set", "crop=square", "--json")
    assert json.loads(result.stdout)["splits"][0]["pairs"] == 7


def test_mistakes(root):
    for arguments, message in (
        (("check", "cocoa", root), "datasets has no 'cocoa'; did you mean 'coco'?"),
        (("check", "coco", root / "nowhere"), "nowhere: no such folder; expected the root of coco"),
        (("check", "coco", root, "--set", "size=3"), "coco takes key=value with a key of annotations, images"),
        (("prepare", "cub", root), "cub needs no preparation; only ap10k does"),
    ):
        error = call(*arguments).exception
        assert message in str(error)


def test_prepare(tmp_path):
    kinds = [{"id": 1, "name": "cat", "supercategory": "Felidae"}]
    for name in ("train", "val", "test"):
        empty = {"images": [], "annotations": [], "categories": kinds}
        write_json(tmp_path / f"annotations/ap10k-{name}-split1.json", empty)
    numbers = range(1, 4)
    full = {
        "images": [{"id": i, "file_name": f"{i:012d}.jpg", "width": 80, "height": 60} for i in numbers],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 30, 40], "keypoints": [9, 9, 2] * 17}
            for i in numbers
        ],
        "categories": kinds,
    }
    write_json(tmp_path / "annotations/ap10k-train-split1.json", full)
    result = call("prepare", "ap10k", tmp_path, "--json")
    counts = json.loads(result.stdout)
    assert counts["test"] == 3
    assert sum(counts.values()) == 3
    (tmp_path / "crowd.txt").write_text("000000000002\n")
    text = call("prepare", "ap10k", tmp_path, "--exclude", tmp_path / "crowd.txt").output
    assert "1 pairs in" in text.replace("\n", " ")
    for i in numbers:
        write_image(tmp_path / "data" / f"{i:012d}.jpg")
    checked = call("check", "ap10k", tmp_path, "--json")
    assert checked.exit_code == 0, checked.output
    content = json.loads(checked.stdout)
    assert [split["pairs"] for split in content["splits"]] == [0, 0, 1]
    assert "test: 1 of 36,000 published pairs: a subset (0.0%)" in content["remarks"]


@real
@pytest.mark.parametrize(
    ("name", "folder", "options"),
    [
        ("spair", "SPair-71k", []),
        ("pfwillow", "PF-WILLOW", []),
        ("spair", "SPair-71k-test", ["--fast", "--split", "test"]),
        ("pfpascal", "PF-PASCAL", ["--split", "val"]),
        ("pfpascal", "PF-PASCAL", ["--split", "test"]),
        ("pascal_keypoints", "PascalVOC-keypoints", ["--split", "val"]),
        ("pascal_part", "PASCAL-Part", ["--set", "lists=hash"]),
        (
            "cub",
            "CUB_200_2011",
            ["--fast", "--split", "test", "--set", "n_pairs=200", "--set", "crop=square"],
        ),
        ("animalpose", "Animal-Pose", ["--fast", "--split", "val", "--set", "crop=square"]),
    ],
)
def test_real_datasets_are_whole(name, folder, options, tmp_path):
    result = call("check", name, real_root(folder), *options, "--show", 1, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert all(split["faults"] == [] for split in content["splits"])
    assert list(tmp_path.iterdir())
