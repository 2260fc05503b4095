"""CUB-200-2011: the text tables, the rule of seven parts, seeded pairs, and the square crop."""

import pickle

import numpy as np
import pytest
import torch
from dataset_trees import names, real, real_root, share_on_mask, write_image, write_lines, write_mask

from geco import images
from geco.data import audit, published_skeletons
from geco.datasets import cub

PARTS = 15


@pytest.fixture
def root(tmp_path):
    """Birds 3, 1, 2 (train) and 4 (test), in this order; bird 2 shows only six parts."""
    files = {3: "002.Crow/Crow_3.jpg", 1: "001.Auk/Auk_1.jpg", 2: "001.Auk/Auk_2.jpg", 4: "001.Auk/Auk_4.jpg"}
    write_lines(tmp_path / "images.txt", (f"{i} {file}" for i, file in files.items()))
    write_lines(tmp_path / "train_test_split.txt", (f"{i} {int(i != 4)}" for i in files))
    write_lines(tmp_path / "bounding_boxes.txt", (f"{i} 20.0 10.0 40.0 30.0" for i in files))
    rows = []
    for i in files:
        for part in range(1, PARTS + 1):
            seen = part <= (6 if i == 2 else 7 + i)
            rows.append(f"{i} {part} {part * 5.0} {part * 3.0} 1" if seen else f"{i} {part} 0.0 0.0 0")
    write_lines(tmp_path / "parts/part_locs.txt", rows)
    for file in files.values():
        write_image(tmp_path / "images" / file)
    votes = np.zeros((60, 80))
    votes[10:40, 20:60] = 204
    votes[10:20, 20:60] = 102  # two of five annotators
    write_mask(tmp_path / "segmentations/001.Auk/Auk_1.png", votes)
    return tmp_path


def test_birds_with_seven_parts_in_the_order_of_the_list(root):
    pairs = cub.load(root, "train")
    assert [view.name for view in pairs.views] == ["002.Crow/Crow_3", "001.Auk/Auk_1"]
    assert len(cub.load(root, "train", min_parts=6).views) == 3
    assert len(cub.load(root, "test").views) == 1
    assert sorted(names(pairs)) == sorted([("002.Crow/Crow_3", "001.Auk/Auk_1"), ("001.Auk/Auk_1", "002.Crow/Crow_3")])
    assert set(pairs.categories) == {"bird"}
    pickle.loads(pickle.dumps(pairs))


def test_points_boxes_and_masks(root):
    auk = cub.load(root, "train").views[1]
    assert auk.size == (60, 80)
    assert auk.keypoints.visible.tolist() == [True] * 8 + [False] * 7
    assert auk.keypoints.xy[0].tolist() == [5.5, 3.5]
    assert auk.box.tolist() == [20, 10, 60, 40]
    mask = images.load_view(auk).mask
    assert mask[20:40, 20:60].all()
    assert int(mask.sum()) == 20 * 40, "two votes of five are not foreground"


def test_the_square_crop_centres_the_box_and_moves_everything(root):
    plain, cropped = (cub.load(root, "train", crop=crop).views[1] for crop in ("none", "square"))
    assert cropped.size == (44, 44), "the longer side, 40, and 5 % of it at each end"
    assert cropped.window.box == (18, 3, 62, 47)
    assert cropped.name == "001.Auk/Auk_1@18,3,62,47"
    assert cropped.box.tolist() == [2, 7, 42, 37]
    assert torch.equal(cropped.keypoints.xy, plain.keypoints.xy - torch.tensor([18.0, 3.0]))
    inside = (plain.keypoints.xy >= torch.tensor([18.0, 3.0])).all(1) & (plain.keypoints.xy[:, 0] <= 62)
    assert torch.equal(cropped.keypoints.visible, plain.keypoints.visible & inside)
    whole, cut = images.load_view(plain), images.load_view(cropped)
    assert torch.equal(cut.image, whole.image[:, 3:47, 18:62])
    assert torch.equal(cut.mask, whole.mask[3:47, 18:62])


def test_the_seed_decides_the_pairs(root):
    rng = np.random.default_rng(0)
    ids = [f"{i}" for i in range(10, 40)]
    write_lines(root / "images.txt", (f"{i} 001.Auk/Auk_1.jpg" if i == "10" else f"{i} x/{i}.jpg" for i in ids))
    for i in ids[1:]:
        write_image(root / "images/x" / f"{i}.jpg", (20, 20))
    write_lines(root / "train_test_split.txt", (f"{i} 1" for i in ids))
    write_lines(root / "bounding_boxes.txt", (f"{i} 1.0 1.0 9.0 9.0" for i in ids))
    rows = (f"{i} {p} {rng.integers(1, 19)}.0 3.0 1" for i in ids for p in range(1, PARTS + 1))
    write_lines(root / "parts/part_locs.txt", rows)
    drawn = names(cub.load(root, "train", n_pairs=50))
    assert len(set(drawn)) == 50, "no pair twice"
    assert all(source != target for source, target in drawn)
    assert names(cub.load(root, "train", n_pairs=50)) == drawn
    assert names(cub.load(root, "train", n_pairs=50, seed=1)) != drawn
    assert len(cub.load(root, "train", n_pairs=10_000)) == 30 * 29, "all, if there are fewer"


def test_twins():
    bird = published_skeletons("cub")["bird"]
    pairs = {(bird.names[i], bird.names[j]) for i, j in enumerate(bird.twin) if i < j}
    assert pairs == {("left eye", "right eye"), ("left leg", "right leg"), ("left wing", "right wing")}
    assert bird.mirror == bird.twin


def test_what_is_wrong_is_named(root):
    with pytest.raises(ValueError, match=r"split must be one of train, test, got 'val'"):
        cub.load(root, "val")
    with pytest.raises(ValueError, match=r"crop must be one of none, square, got 'round'"):
        cub.load(root, "train", crop="round")
    (root / "images/002.Crow/Crow_3.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"Crow_3.jpg: no such file; .*images.txt:1 lists it"):
        cub.load(root, "train")
    faults = []
    assert len(cub.load(root, "train", faults=faults).views) == 1
    assert len(faults) == 1
    write_lines(root / "bounding_boxes.txt", ["3 1 2 three 4"])
    with pytest.raises(ValueError, match=r"bounding_boxes.txt:1: expected a number for a box, got 'three'"):
        cub.load(root, "train")
    write_lines(root / "bounding_boxes.txt", ["3 1 2"])
    message = r"bounding_boxes.txt:1: expected `image_id x y width height`, got '3 1 2'"
    with pytest.raises(ValueError, match=message):
        cub.load(root, "train")
    write_lines(root / "bounding_boxes.txt", ["3 1 2 3 4"])
    with pytest.raises(
        ValueError, match=r"bounding_boxes.txt: image 1 of images.txt is missing; is the file cut short"
    ):
        cub.load(root, "train", min_parts=99)
    write_lines(root / "parts/part_locs.txt", ["3 16 1 2 1"])
    with pytest.raises(ValueError, match=r"part_locs.txt:1: expected a part number from 1 to 15, got '16'"):
        cub.load(root, "train")


@real
def test_real_birds():
    root = real_root("CUB_200_2011")
    pairs = cub.load(root, "test", n_pairs=2000)
    assert (len(pairs), len(pairs.views)) == (2000, 250)
    assert len(cub.load(root, "train", n_pairs=1).views) == 350
    assert share_on_mask(pairs.views) > 0.95
    cases = dict.fromkeys(("11", "10", "1x"), 0)
    for pair in pairs:
        counted = audit.query_cases(pair)
        cases = {case: number + counted[case] for case, number in cases.items()}
    total = sum(cases.values())
    assert cases["1x"] / total == pytest.approx(0.776, abs=0.01), "METHOD §8"
    assert cases["11"] / total == pytest.approx(0.119, abs=0.01)


@real
def test_real_birds_fill_their_square_crop():
    views = cub.load(real_root("CUB_200_2011"), "test", crop="square", n_pairs=1).views[:40]
    assert share_on_mask(views) > 0.95
    for view in views:
        sides = (view.box[2:] - view.box[:2]).max() / view.size[0]
        assert float(sides) == pytest.approx(1 / 1.1, abs=0.03)
