"""Animal-Pose: its file, our splits by image, pairs of one species, filters and crops."""

import pickle
from collections import Counter

import numpy as np
import pytest
from dataset_trees import (
    names,
    real,
    real_root,
    share_on_mask,
    write_image,
    write_json,
    write_lines,
    write_mask,
)

from geco import data, images
from geco.data import hashed_split, published_skeletons
from geco.datasets import animalpose

KEYPOINTS = 20


def points(visible, start=(10, 10)):
    return [[start[0] + i, start[1] + i, 1] if i < visible else [0, 0, 0] for i in range(KEYPOINTS)]


@pytest.fixture
def root(tmp_path):
    """40 images with a dog and a cat each; only the first ten dogs have masks."""
    files = {str(i): f"20{i:02}_000001.jpg" for i in range(1, 41)}
    annotations = []
    for i, file in files.items():
        write_image(tmp_path / "images" / file)
        for kind, box in ((1, [10, 10, 40, 40]), (2, [45, 5, 75, 55])):
            annotation = {
                "image_id": int(i),
                "bbox": box,
                "keypoints": points(8, box[:2]),
                "num_keypoints": KEYPOINTS,
                "category_id": kind,
            }
            if kind == 1 and int(i) <= 10:
                name = f"{file[:-4]}_{i}.png"
                mask = np.zeros((60, 80))
                mask[10:14, 10:40] = 255  # half of the eight points
                write_mask(tmp_path / "masks" / name, mask)
                annotation["mask"] = name
            annotations.append(annotation)
    kinds = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
    write_json(
        tmp_path / "keypoints.json",
        {"images": files, "annotations": annotations, "categories": kinds, "info": {}},
    )
    return tmp_path


def image_names(pairs):
    return {view.image.name for view in pairs.views}


def test_every_image_is_in_one_split(root):
    splits = {split: image_names(animalpose.load(root, split)) for split in animalpose.SPLITS}
    assert sum(map(len, splits.values())) == 40
    assert set.union(*splits.values()) == {f"20{i:02}_000001.jpg" for i in range(1, 41)}
    for split, files in splits.items():
        assert all(hashed_split(name, animalpose.SHARES) == split for name in files)


def test_pairs_are_of_one_species_and_two_images(root):
    pairs = animalpose.load(root, "train", n_pairs=300)
    assert len({(id(pair.source), id(pair.target)) for pair in pairs}) == 300, "no pair twice"
    for pair in pairs:
        assert pair.source.image != pair.target.image
        assert float(pair.source.box[0]) == float(pair.target.box[0]), "dogs are left, cats are right"
    assert set(pairs.categories) == {"dog", "cat"}
    mixed = animalpose.load(root, "train", n_pairs=300, species="any")
    assert set(mixed.categories) == {"animal"}
    assert any(float(p.source.box[0]) != float(p.target.box[0]) for p in mixed)
    sorted_out = animalpose.load(root, "train", n_pairs=300, species="any", category="source")
    assert names(sorted_out) == names(mixed), "the same pairs"
    boxes = {"dog": 10.0, "cat": 45.0}
    assert [boxes[category] for category in sorted_out.categories] == [float(p.source.box[0]) for p in mixed]
    again = animalpose.load(root, "train", n_pairs=300)
    assert [(p.source.image, p.target.image) for p in again] == [(p.source.image, p.target.image) for p in pairs]
    assert names(animalpose.load(root, "train", n_pairs=300, seed=1)) != names(pairs)
    pickle.loads(pickle.dumps(pairs))


def test_instances_of_an_image_share_its_name_unless_their_crops_differ(root):
    plain, cropped = (animalpose.load(root, "val", crop=crop) for crop in ("none", "square"))
    assert len({view.name for view in plain.views}) == len(image_names(plain))
    assert len({view.name for view in cropped.views}) == len(cropped.views)
    cat = next(view for view in cropped.views if view.size == (60, 60))
    assert cat.window.box == (30, 0, 90, 60), "the square leaves the image on the right"
    loaded = images.load_view(cat)
    assert loaded.image.shape == (3, 60, 60)
    assert (loaded.image[:, :, 50:] == loaded.image[:, :, 49:50]).all(), "edge pixels beyond the border"


def test_filters(root):
    content = animalpose.read_json(root / "keypoints.json", what="")
    every = len(animalpose.load(root, "train").views)
    assert len(animalpose.load(root, "train", min_box=35).views) == every // 2, "dogs' boxes are 30 pixels"
    masked = sum(
        "mask" in a and hashed_split(content["images"][str(a["image_id"])], animalpose.SHARES) == "train"
        for a in content["annotations"]
    )
    assert masked > 0
    assert len(animalpose.load(root, "train", min_on_mask=0.5).views) == every
    assert len(animalpose.load(root, "train", min_on_mask=0.51).views) == every - masked
    assert len(animalpose.load(root, "train", min_keypoints=9).views) == 0
    assert len(animalpose.load(root, "train", min_shared=9)) == 0
    name = sorted(image_names(animalpose.load(root, "train")))[0]
    write_lines(root / "leave-out.txt", [name[:-4], "no_such"])
    left = animalpose.load(root, "train", exclude=root / "leave-out.txt")
    assert name not in image_names(left)
    assert len(left.views) == every - 2


def test_points_boxes_and_twins(root):
    dog = animalpose.load(root, "train").views[0]
    assert dog.keypoints.visible.tolist() == [True] * 8 + [False] * 12
    assert dog.keypoints.xy[1].tolist() == [11.5, 11.5]
    assert dog.box.tolist() == [10, 10, 40, 40]
    table = published_skeletons("animalpose")["animal"]
    assert all(table.names[i].replace("left", "right") == table.names[j] for i, j in enumerate(table.twin) if i < j)
    assert [table.names[i] for i, j in enumerate(table.twin) if i == j] == [
        "nose",
        "throat",
        "withers",
        "tailbase",
    ]


def edited(root, **changes):
    content = animalpose.read_json(root / "keypoints.json", what="")
    for record in content["annotations"]:
        record.update(changes)
    write_json(root / "keypoints.json", content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_id": 999}, r"annotations\[0\]: image_id 999 is not among the file's images"),
        ({"category_id": 9}, r"annotations\[0\]: category_id 9 is not among the file's categories"),
        ({"image_id": "1"}, r"annotations\[0\]: key 'image_id' should be int, got '1'"),
        ({"bbox": [1, 2, 3]}, r"bbox: expected \[x0, y0, x1, y1\], got \[1, 2, 3\]"),
        ({"keypoints": [[1, 2, 1]]}, r"expected 20 keypoints \[x, y, visible\], got 1"),
        ({"keypoints": [[1, 2]] * 20}, r"keypoints\[0\]: expected \[x, y, visible\], got \[1, 2\]"),
        ({"mask": "gone.png"}, r"masks/gone.png: no such file; .* key 'mask' names it"),
    ],
)
def test_what_is_wrong_is_named(root, changes, message):
    edited(root, **changes)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        animalpose.load(root, "train")


def test_missing_images_are_all_listed(root):
    for i in (1, 2, 3):
        (root / "images" / f"20{i:02}_000001.jpg").unlink()
    faults = []
    for split in animalpose.SPLITS:
        animalpose.load(root, split, faults=faults)
    assert len(faults) == 6, "a dog and a cat in each"
    assert all("no such file" in fault for fault in faults)


@real
def test_real_animals():
    root = real_root("Animal-Pose")
    every = {"min_keypoints": 0, "n_pairs": 100, "spare_benchmarks": False}
    splits = {split: animalpose.load(root, split, **every) for split in animalpose.SPLITS}
    found = [image_names(pairs) for pairs in splits.values()]
    assert sum(map(len, found)) == len(set.union(*found)) >= 3890
    assert 0.68 < len(splits["train"].views) / sum(len(p.views) for p in splits.values()) < 0.72
    assert 0.80 < share_on_mask(splits["val"].views[::8]) < 0.90, "the masks are good, not perfect"
    good = animalpose.load(root, "val", min_on_mask=0.8, crop="square").views
    assert len(animalpose.load(root, "val")) == animalpose.N_PAIRS["val"]
    assert share_on_mask(good[::8]) > 0.88


def test_keypoints_that_are_left_out_are_as_if_nobody_had_annotated_them(root):
    whole = animalpose.load(root, "train", n_pairs=20)
    without = animalpose.load(root, "train", n_pairs=20, without="left_eye, left_ear,right_ear")
    skeleton = without[0].skeleton
    assert len(skeleton) == 17
    assert skeleton.names[:3] == ("right_eye", "nose", "left_front_elbow")
    assert skeleton.twin[0] == 0, "its counterpart is gone"
    assert skeleton.mirror is None, "a flipped right eye is a left eye, which is not among the rows"
    assert skeleton.names[skeleton.twin[2]] == "right_front_elbow"
    left = without.views[0].keypoints
    rows = [i for i in range(20) if i not in (0, 3, 4)]
    assert left.xy.tolist() == whole.views[0].keypoints.xy[rows].tolist()
    assert left.visible.tolist() == whole.views[0].keypoints.visible[rows].tolist()

    only = animalpose.load(root, "train", n_pairs=20, only="left_ear,right_ear,nose")
    assert only[0].skeleton.names == ("nose", "left_ear", "right_ear")
    assert only[0].skeleton.twin == only[0].skeleton.mirror == (0, 2, 1)
    assert only.views[0].keypoints.xy.shape == (3, 2)


def test_a_keypoint_that_does_not_exist_lists_the_choices(root):
    with pytest.raises(ValueError, match=r"without names keypoints.* no left_horn\. Choices: left_eye, right_eye"):
        animalpose.load(root, "train", without="left_horn")
    with pytest.raises(ValueError, match="leave no keypoint"):
        animalpose.load(root, "train", only="nose", without="nose")


def test_the_lists_are_those_of_the_hash_and_do_not_overlap():
    lists = animalpose.listed()
    counts = Counter(lists.values())
    assert counts == {"train": 2737, "val": 577, "test": 597}
    assert all(hashed_split(name, animalpose.SHARES) == split for name, split in lists.items())


@pytest.mark.parametrize("option", ["images", "photographs"], ids=["images", "its name in release 0.1"])
def test_only_listed_images_if_asked_for(root, monkeypatch, option):
    every = animalpose.load(root, "train")
    names = sorted({view.image.name for view in every.views})
    monkeypatch.setattr(animalpose, "listed", lambda: dict.fromkeys(names[:3], "train"))
    some = data.load("animalpose", root, "train", [f"{option}=listed"])
    assert sorted({view.image.name for view in some.views}) == names[:3]
    assert {view.image.name for view in animalpose.load(root, "train").views} == set(names)
