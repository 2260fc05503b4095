"""One's own data: where the files may lie, what the numbers mean, the guessed left/right table, masks in the file."""

import json
import pickle

import numpy as np
import pytest
import torch
from dataset_trees import names, real, real_root, share_on_mask, write_image, write_json, write_mask

from geco import images
from geco.datasets import coco

GECKO = ["snout", "left_eye", "right_eye", "tail tip"]


def content(number=12, names=GECKO, flag=2, **extra):
    return {
        "images": [{"id": i, "file_name": f"g{i}.jpg", "width": 80, "height": 60} for i in range(number)],
        "annotations": [
            {
                "id": 100 + i,
                "image_id": i,
                "category_id": 7,
                "bbox": [10, 20, 30, 15],
                "keypoints": [10 + i, 20, flag, 15, 22, flag, 17, 22, flag, 0, 0, 0],
                **extra,
            }
            for i in range(number)
        ],
        "categories": [{"id": 7, "name": "gecko", "keypoints": names}],
    }


@pytest.fixture
def root(tmp_path):
    write_json(tmp_path / "annotations.json", content())
    for i in range(12):
        write_image(tmp_path / "images" / f"g{i}.jpg")
    return tmp_path


def test_one_file_is_split_by_image(root):
    names = [{view.name for view in coco.load(root, split).views} for split in coco.SPLITS]
    assert set.union(*names) == {f"g{i}" for i in range(12)}
    assert sum(map(len, names)) == 12
    assert len(coco.load(root, "all").views) == 12


def test_a_file_of_a_split_is_taken_whole(root):
    write_json(root / "annotations/val.json", content(5))
    assert len(coco.load(root, "val").views) == 5
    write_json(root / "mine-val.json", content(4))
    assert len(coco.load(root, "val", annotations="mine-{split}.json").views) == 4


def test_points_boxes_pairs(root):
    pairs = coco.load(root, "all")
    assert len(pairs) == 12 * 11
    view = pairs.views[3]
    assert view.keypoints.xy[0].tolist() == [13.5, 20.5], "whole numbers are indices of pixels"
    assert view.keypoints.visible.tolist() == [True, True, True, False]
    assert view.box.tolist() == [10, 20, 40, 35]
    assert pairs[0].category == "gecko"
    assert names(coco.load(root, "all", n_pairs=9)) != names(coco.load(root, "all", n_pairs=9, seed=1))
    assert names(coco.load(root, "all", n_pairs=9)) == names(coco.load(root, "all", n_pairs=9))
    cropped = coco.load(root, "all", crop="square", margin=0.0).views[3]
    assert (cropped.size, cropped.keypoints.xy[0].tolist()) == ((30, 30), [3.5, 8.5])
    pickle.loads(pickle.dumps(pairs))


def test_a_size_that_the_file_does_not_say_is_read_from_the_image(root):
    data = content()
    for image in data["images"]:
        del image["width"]
    write_json(root / "annotations.json", data)
    assert {view.size for view in coco.load(root, "all").views} == {(60, 80)}


def test_fractions_count_from_the_corner_and_the_choice_can_be_made(root):
    data = content()
    data["annotations"][0]["keypoints"][0] = 10.25
    write_json(root / "annotations.json", data)
    assert coco.load(root, "all").views[3].keypoints.xy[0].tolist() == [13, 20]
    assert coco.load(root, "all", origin="index").views[3].keypoints.xy[0].tolist() == [13.5, 20.5]
    write_json(root / "annotations.json", content())
    assert coco.load(root, "all", origin="corner").views[3].keypoints.xy[0].tolist() == [13, 20]


def test_a_file_can_say_what_its_fractions_count_from(root):
    data = content()
    data["annotations"][0]["keypoints"][0] = 10.25
    data["info"] = {"keypoint_origin": "index"}
    write_json(root / "annotations.json", data)
    assert coco.load(root, "all").views[3].keypoints.xy[0].tolist() == [13.5, 20.5]
    assert coco.load(root, "all", origin="corner").views[3].keypoints.xy[0].tolist() == [13, 20]


def test_flags_of_visibility(root):
    write_json(root / "annotations.json", content(flag=1))
    assert coco.load(root, "all").views[0].keypoints.visible.tolist() == [True, True, True, False]
    data = content(flag=1)
    data["annotations"][5]["keypoints"][2::3] = [2, 2, 2, 2]
    write_json(root / "annotations.json", data)
    assert [view.name for view in coco.load(root, "all").views] == ["g5"], "1 now means hidden"


def test_counterparts_of_a_category(root):
    skeleton = coco.load(root, "all")[0].skeleton
    assert skeleton.names == tuple(GECKO)
    assert skeleton.twin == skeleton.mirror == (0, 2, 1, 3)
    write_json(root / "annotations.json", content(names=["a", "b", "c", "d"]))
    unknown = coco.load(root, "all")[0].skeleton
    assert (unknown.twin, unknown.mirror) == ((0, 1, 2, 3), None), "it is not known what a flip exchanges"
    write_json(root / "twins.json", {"a": "d"})
    assert coco.load(root, "all")[0].skeleton.twin == (3, 1, 2, 0)
    write_json(root / "other.json", {"twin": {"a": "d", "d": "a"}, "mirror": {}})
    other = coco.load(root, "all", twins="other.json")[0].skeleton
    assert (other.twin, other.mirror) == ((3, 1, 2, 0), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": "z"}, "there is no keypoint 'z'; the keypoints are a, b, c, d"),
        ({"a": "b", "c": "b"}, "'b' has two counterparts, or is its own"),
        ({"a": "a"}, "'a' has two counterparts, or is its own"),
        (["a"], "twins.json: expected a table .*, got list"),
    ],
)
def test_a_wrong_table_is_explained(root, table, message):
    write_json(root / "annotations.json", content(names=["a", "b", "c", "d"]))
    write_json(root / "twins.json", table)
    with pytest.raises(ValueError, match=message):
        coco.load(root, "all")


# --- masks --------------------------------------------------------------------------------------------


def test_masks_in_the_file_are_decoded_when_asked_for(root):
    polygon = [10.0, 20.0, 40.0, 20.0, 40.0, 35.0, 10.0, 35.0]
    write_json(root / "annotations.json", content(segmentation=[polygon]))
    pairs = pickle.loads(pickle.dumps(coco.load(root, "all")))
    expected = torch.zeros(60, 80, dtype=torch.bool)
    expected[20:35, 10:40] = True
    assert torch.equal(pairs[0].source.mask, expected)
    assert torch.equal(pairs.views[-1].mask, expected)
    assert torch.equal(pairs.views[2:4][1].mask, expected)
    cropped = coco.load(root, "all", crop="square", margin=0.0)[0].source
    assert torch.equal(images.load_view(cropped).mask, expected[12:42, 10:40])


def test_masks_in_files(root):
    mask = np.zeros((60, 80))
    mask[:30] = 255
    write_mask(root / "masks/m.png", mask)
    write_json(root / "annotations.json", content(mask="m.png"))
    assert int(images.load_view(coco.load(root, "all")[0].target).mask.sum()) == 30 * 80


# --- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keypoints": [1, 2, 2]}, r"annotations\[0\]: keypoints: expected 4 × \(x, y, v\) in one list"),
        ({"image_id": 99}, r"annotations\[0\]: image_id 99 is not among the file's images"),
        ({"category_id": 99}, r"annotations\[0\]: category_id 99 is not among the file's categories"),
        ({"bbox": "big"}, r"annotations\[0\]: bbox: expected \[x, y, width, height\], got 'big'"),
        ({"mask": "gone.png"}, r"masks/gone.png: no such file; .*key 'mask' names it"),
    ],
)
def test_what_is_wrong_is_named(root, change, message):
    data = content()
    data["annotations"][0].update(change)
    write_json(root / "annotations.json", data)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        coco.load(root, "all")
    faults = []
    assert len(coco.load(root, "all", faults=faults).views) == 11
    assert len(faults) == 1


def test_missing_files_are_named(root):
    with pytest.raises(FileNotFoundError, match=r"found none of annotations/val.json, val.json, annotations.json"):
        coco.load(root / "images", "val")
    with pytest.raises(FileNotFoundError, match=r"mine.json: no such file; expected COCO keypoint annotations"):
        coco.load(root, "val", annotations="mine.json")
    (root / "images/g3.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"images/g3.jpg: no such file; .*annotations\[3\] needs it"):
        coco.load(root, "all")
    write_json(root / "annotations.json", {"images": []})
    with pytest.raises(ValueError, match=r"annotations.json: key 'categories' is missing; found: images"):
        coco.load(root, "all")


def test_categories_with_other_keypoints_cannot_be_mixed(root):
    data = content()
    data["categories"].append({"id": 8, "name": "newt", "keypoints": ["a", "b", "c", "d"]})
    data["annotations"][0]["category_id"] = 8
    write_json(root / "annotations.json", data)
    assert set(coco.load(root, "all").categories) == {"gecko"}, "one newt makes no pair"
    with pytest.raises(ValueError, match=r"categories='any' needs the same keypoints in every category"):
        coco.load(root, "all", categories="any")


# --- real files ---------------------------------------------------------------------------------------


@real
def test_real_ap10k_file_as_own_data():
    pairs = coco.load(real_root("AP-10K-sample"), "all", annotations="test_ap10k.json", categories="any")
    assert (len(pairs), len(pairs.views)) == (2, 2)
    assert pairs[0].skeleton.twin == (1, 0, 2, 3, 4, 8, 9, 10, 5, 6, 7, 14, 15, 16, 11, 12, 13)
    assert images.load_view(pairs[0].source).image.shape == (3, *pairs[0].source.size)


@real
def test_real_dogs_of_stanford_extra(tmp_path):
    """Its list becomes a COCO file in a few lines; its masks are COCO's text."""
    root = real_root("StanfordExtra")
    dogs = json.loads((root / "StanfordExtra_sample.json").read_text())
    labels = [f"point {i}" for i in range(24)]
    write_json(
        tmp_path / "annotations.json",
        {
            "images": [
                {
                    "id": i,
                    "file_name": dog["img_path"],
                    "width": dog["img_width"],
                    "height": dog["img_height"],
                }
                for i, dog in enumerate(dogs)
            ],
            "annotations": [
                {
                    "image_id": i,
                    "category_id": 1,
                    "bbox": dog["img_bbox"],
                    "keypoints": [value for joint in dog["joints"] for value in joint],
                    "segmentation": {"size": [dog["img_height"], dog["img_width"]], "counts": dog["seg"]},
                }
                for i, dog in enumerate(dogs)
            ],
            "categories": [{"id": 1, "name": "dog", "keypoints": labels}],
        },
    )
    pairs = coco.load(tmp_path, "all", images=root / "sample_imgs")
    assert len(pairs.views) == 25
    assert share_on_mask(pairs.views) > 0.93
