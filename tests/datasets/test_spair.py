"""SPair-71k: its files as they are written, its published counts, and what is said when a file is wrong."""

import csv
import pickle

import numpy as np
import pytest
import torch
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

from geco import images
from geco.data import published_skeletons
from geco.datasets import spair
from geco.types import MaskFile

CAT = 15


def annotation(name, kps, size=(60, 80)):
    return {
        "filename": f"{name}.jpg",
        "image_width": size[1],
        "image_height": size[0],
        "image_depth": 3,
        "category": "cat",
        "bndbox": [5, 6, 70, 50],
        "kps": {str(i): kps.get(i) for i in range(30)},
        "azimuth_id": 7,
    }


@pytest.fixture
def root(tmp_path):
    points = {
        "2007_000001": {0: [10, 20], 1: [30, 20], 14: [79, 59]},
        "2008_000002": {0: [11, 21], 13: [1, 2]},
        "2009_000003": {},
    }
    for name, kps in points.items():
        write_json(tmp_path / "ImageAnnotation/cat" / f"{name}.json", annotation(name, kps))
        write_image(tmp_path / "JPEGImages/cat" / f"{name}.jpg")
    pairs = ["000001-2007_000001-2008_000002:cat", "000007-2008_000002-2007_000001:cat"]
    write_lines(tmp_path / "Layout/large/trn.txt", pairs)
    write_lines(tmp_path / "Layout/small/trn.txt", pairs[:1])
    for pair in ["000003-2009_000003-2007_000001:cat", "000002-2007_000001-2009_000003_cat"]:
        write_json(tmp_path / "PairAnnotation/val" / f"{pair}.json", {})
    return tmp_path


def test_pairs_come_in_the_order_of_the_layout(root):
    pairs = spair.load(root, "train")
    assert names(pairs) == [("2007_000001", "2008_000002"), ("2008_000002", "2007_000001")]
    assert len(spair.load(root, "trn", layout="small")) == 1
    assert pairs.categories == ("cat", "cat")
    assert len(pairs.views) == 2, "an image is read once, however many pairs it is in"


def test_points_are_pixel_centres_and_boxes_are_as_written(root):
    source = spair.load(root, "train")[0].source
    assert source.size == (60, 80)
    assert source.box.tolist() == [5, 6, 70, 50]
    assert source.keypoints.visible.nonzero()[:, 0].tolist() == [0, 1, 14]
    assert source.keypoints.xy[[0, 1, 14]].tolist() == [[10.5, 20.5], [30.5, 20.5], [79.5, 59.5]]
    assert len(source.keypoints.visible) == CAT
    assert images.load_view(source).image.shape == (3, 60, 80)


def test_without_a_layout_the_pair_files_are_listed_whatever_stands_for_the_colon(root):
    pairs = spair.load(root, "val")
    assert names(pairs) == [("2007_000001", "2009_000003"), ("2009_000003", "2007_000001")]


def test_masks_are_the_pixels_of_the_class(root):
    labels = np.zeros((60, 80))
    labels[10:30, 20:40] = 8  # cat
    labels[40:50, 20:40] = 12  # dog
    write_mask(root / "Segmentation/cat/2007_000001.png", labels)
    source, target = (spair.load(root, "train")[0].source, spair.load(root, "train")[0].target)
    assert target.mask is None
    assert isinstance(source.mask, MaskFile)
    assert torch.equal(images.load_view(source).mask, torch.from_numpy(labels == 8))
    write_mask(root / "voc/2008_000002.png", labels)
    assert spair.load(root, "train", masks=root / "voc")[0].target.mask.path.name == "2008_000002.png"


def test_pickles_and_slices(root):
    pairs = pickle.loads(pickle.dumps(spair.load(root, "train")))
    assert names(pairs[1:]) == names(pairs)[1:]
    assert names([pairs[-1]]) == names(pairs)[1:]
    with pytest.raises(IndexError, match=r"pair 2 of 2"):
        pairs[2]
    assert "2 pairs of 2 views" in repr(pairs)


def test_twins_exchange_front_and_back_but_a_flip_does_not():
    tables = published_skeletons("spair")
    assert len(tables) == 18
    bicycle = tables["bicycle"]
    assert bicycle.names[:2] == ("front wheel", "back wheel")
    assert bicycle.twin[:2] == (1, 0)
    assert bicycle.mirror[:2] == (0, 1)
    front_back = {
        (category, i, j)
        for category, table in tables.items()
        for i, j in enumerate(table.twin)
        if i < j and table.mirror[i] != j
    }
    assert front_back == {
        ("bicycle", 0, 1), ("bus", 4, 7), ("car", 4, 8), ("car", 5, 9), ("motorbike", 4, 5),
        ("motorbike", 6, 7), ("motorbike", 11, 12), ("pottedplant", 1, 3),
    }  # fmt: skip
    for table in tables.values():
        for i, j in enumerate(table.mirror):
            left, right = sorted((table.names[i], table.names[j]))
            assert i == j or left.replace("left", "right") == right, "a flip exchanges only left and right"


def test_published_counts_add_up():
    assert {split: totals["pairs"] for split, totals in spair.PUBLISHED.items()} == {
        "train": 53_340,
        "val": 5_384,
        "test": 12_234,
    }


def test_what_is_wrong_is_named(root, tmp_path):
    with pytest.raises(ValueError, match=r"split must be one of train, val, test, trn, got 'all'"):
        spair.load(root, "all")
    with pytest.raises(FileNotFoundError, match=r"PairAnnotation/test: no such .* is .* the SPair-71k folder\?"):
        spair.load(root, "test")
    annotations = root / "ImageAnnotation/cat"
    (annotations / "2007_000001.json").write_text('{"kps": \n oops}')
    with pytest.raises(ValueError, match=r"2007_000001.json:2: not JSON .*expected an SPair-71k image annotation"):
        spair.load(root, "train")
    write_json(annotations / "2007_000001.json", {"kps": {}, "image_height": 60})
    with pytest.raises(ValueError, match=r"2007_000001.json: key 'image_width' is missing; found: kps, image_height"):
        spair.load(root, "train")
    write_json(annotations / "2007_000001.json", annotation("2007_000001", {3: [1]}))
    with pytest.raises(ValueError, match=r"2007_000001.json: kps 3: expected \[x, y\] or null, got \[1\]"):
        spair.load(root, "train")
    write_lines(root / "Layout/large/trn.txt", ["", "000001-cat"])
    with pytest.raises(ValueError, match=r"trn.txt:2: expected `<id>-<source>-<target>:<category>`, got '000001-cat'"):
        spair.load(root, "train")


def test_faults_are_collected_without_stopping_at_the_first(root):
    (root / "ImageAnnotation/cat/2007_000001.json").unlink()
    write_lines(root / "Layout/large/trn.txt", ["nonsense", "000001-2007_000001-2008_000002:cat"])
    faults = []
    pairs = spair.load(root, "train", faults=faults)
    assert len(pairs) == 0
    assert [fault.rsplit("/")[-1][:16] for fault in faults] == ["trn.txt:1: expec", "2007_000001.json"]


@real
def test_real_pairs():
    root = real_root("SPair-71k")
    masks = real_root("VOC_SegmentationClassAug") / "SegmentationClassAug"
    splits = [spair.load(root, split, masks=masks, spare_benchmarks=False) for split in spair.SPLITS]
    assert [len(pairs) for pairs in splits] == [4, 2, 6]
    views = [view for pairs in splits for view in pairs.views]
    assert len(views) == 18
    assert share_on_mask(views) > 0.9
    # A pair lists the points visible in both images; our two views must say the same.
    pair = spair.load(root, "val")[0]
    both = pair.source.keypoints.visible & pair.target.keypoints.visible
    assert len(pair.skeleton) == CAT
    assert both.nonzero()[:, 0].tolist() == list(range(11))


@real
def test_real_layouts_have_the_published_counts():
    root = real_root("SPair-71k-full-layout")
    for split, folder in (("train", "trn"), ("val", "val"), ("test", "test")):
        listed = spair._pair_names(root, folder, "large")
        counts = dict.fromkeys(spair.PUBLISHED_PAIRS[split], 0)
        for where, name in listed:
            counts[spair._parse_name(name, where)[2]] += 1
        assert counts == spair.PUBLISHED_PAIRS[split]


@real
def test_real_tables_agree_with_the_published_csv():
    with (real_root("SPair-71k") / "spair_keypoint_permutation.csv").open() as file:
        rows = list(csv.DictReader(file))
    for category, table in published_skeletons("spair").items():
        column = [row[category] for row in rows]
        assert tuple(int(cell) for cell in column if cell.strip()) == table.twin, category
