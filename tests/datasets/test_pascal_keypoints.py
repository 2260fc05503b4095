"""PASCAL keypoints: one XML file per object, sides read from names, masks of objects, our split by VOC's id."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from dataset_trees import names, real, real_root, share_on_mask, write_image, write_lines, write_mask

from geco import images
from geco.data import benchmark_lists, hashed_split, published_skeletons
from geco.datasets import pascal_keypoints

KEYPOINT = '<keypoint name="{}" visible="{}" x="{}" y="{}" z="0.00"/>'
BUS = {"L_F_RoofTop": (10, 20), "R_F_RoofTop": (30, 20), "L_F_Base": (10, 40.25), "R_F_Base": (30, 40)}


def write_object(root, image, number=1, category="bus", points=BUS, hidden=(), box=(5, 10, 30, 40), voc_id=None):
    """An annotation as the release writes it; `box` is xmin, ymin, width, height."""
    x, y, width, height = box
    path = root / f"annotations/{category}/{image}_{number}.xml"
    write_lines(
        path,
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            f"<annotation><image>{image}</image>",
            "" if voc_id is None else f"<voc_id>{voc_id}</voc_id>",
            f"<category>{category}</category><subcategory></subcategory>",
            f'<visible_bounds height="{height}" width="{width}" xmin="{x}" ymin="{y}"/>',
            "<keypoints>",
            *(KEYPOINT.format(name, int(name not in hidden), *xy) for name, xy in points.items()),
            "</keypoints></annotation>",
        ],
    )
    return path


@pytest.fixture
def root(tmp_path):
    """40 images, each with a bus and a chair."""
    chair = {"Seat_Left_Front": (50, 30), "Seat_Right_Front": (70, 30), "Leg_Left_Back": (52, 50)}
    for i in range(40):
        write_image(tmp_path / f"JPEGImages/2009_9{i:05}.jpg")
        write_object(tmp_path, f"2009_9{i:05}")
        write_object(tmp_path, f"2009_9{i:05}", 2, "chair", chair, box=(45, 25, 30, 30))
    return tmp_path


@pytest.fixture
def one_split(monkeypatch):
    """Every image is in the training split."""
    monkeypatch.setattr(pascal_keypoints, "hashed_split", lambda name, shares: "train")


def image_names(pairs):
    return {view.image.stem for view in pairs.views}


def test_every_image_is_in_one_split(root):
    train, val = (image_names(pascal_keypoints.load(root, split)) for split in pascal_keypoints.SPLITS)
    assert train | val == {f"2009_9{i:05}" for i in range(40)}
    assert train == {name for name in train | val if hashed_split(name, {"train": 0.92, "val": 0.08}) == "train"}
    assert not train & val


def test_pairs_are_of_one_category_and_two_images(root, one_split):
    pairs = pascal_keypoints.load(root, "train", n_pairs=300)
    assert len({(id(pair.source), id(pair.target)) for pair in pairs}) == 300, "no pair twice"
    assert set(pairs.categories) == {"bus", "chair"}
    left = {"bus": 5.0, "chair": 45.0}
    for pair, category in zip(pairs, pairs.categories, strict=True):
        assert pair.source.image != pair.target.image
        assert [float(view.box[0]) for view in (pair.source, pair.target)] == [left[category]] * 2
        assert pair.skeleton == pascal_keypoints.skeleton(category)
    assert names(pascal_keypoints.load(root, "train", n_pairs=300)) == names(pairs)
    assert names(pascal_keypoints.load(root, "train", n_pairs=300, seed=1)) != names(pairs)
    assert set(pascal_keypoints.load(root, "train", categories="chair, boat").categories) == {"chair"}
    assert len(pickle.loads(pickle.dumps(pairs))) == 300


def test_points_and_boxes(root, one_split):
    write_object(root, "2009_900000", points={**BUS, "L_B_Base": (79, 59), "R_B_Base": (80, 59)}, hidden=("L_F_Base",))
    bus = pascal_keypoints.load(root, "train", categories="bus").views[0]
    table = pascal_keypoints.skeleton("bus")
    visible = {name for name, flag in zip(table.names, bus.keypoints.visible.tolist(), strict=True) if flag}
    assert visible == {"L_F_RoofTop", "R_F_RoofTop", "R_F_Base", "L_B_Base"}, "neither hidden nor beyond the image"
    assert bus.keypoints.xy[table.names.index("R_F_Base")].tolist() == [30.5, 40.5], "pixels are counted from 0"
    assert bus.box.tolist() == [5, 10, 35, 50]
    assert (bus.name, bus.size, bus.mask) == ("2009_900000", (60, 80), None)


def test_filters_and_crops(root, one_split):
    every = len(pascal_keypoints.load(root, "train").views)
    assert every == 80
    assert len(pascal_keypoints.load(root, "train", min_keypoints=4).views) == 40, "chairs have three"
    assert len(pascal_keypoints.load(root, "train", min_box=35).views) == 40, "chairs are 30 pixels"
    assert set(pascal_keypoints.load(root, "train", min_shared=4).categories) == {"bus"}
    chair = pascal_keypoints.load(root, "train", categories="chair", crop="square", margin=0.5).views[0]
    assert chair.window.box == (30, 10, 90, 70), "30 pixels and half of them at each side"
    assert chair.name == "2009_900000@30,10,90,70"
    assert chair.keypoints.xy[chair.keypoints.visible].tolist() == [[20.5, 20.5], [40.5, 20.5], [22.5, 40.5]]
    assert images.load_view(chair).image.shape == (3, 60, 60)


# --- masks --------------------------------------------------------------------------------------------


def test_only_objects_with_an_outline_are_loaded_if_asked_for(root, one_split):
    outline = np.zeros((60, 80), dtype=np.uint8)
    outline[10:50, 5:35] = 1
    for image in ("2009_900003", "2009_900007"):
        write_mask(root / f"SegmentationObject/{image}.png", outline)
    views = pascal_keypoints.load(root, "train", n_pairs=4, outlined=True).views
    assert [view.image.stem for view in views] == ["2009_900003", "2009_900007"]
    assert all(view.mask is not None for view in views), "the chairs beside the outlined buses have none"


def test_the_mask_is_the_object_that_most_visible_keypoints_lie_on(root, one_split):
    labels = np.zeros((60, 80))
    labels[15:50, 5:25] = 3  # two points of the bus …
    labels[38:42, 25:35] = 5  # … one …
    labels[18:22, 28:32] = 255  # … and one on the border
    write_mask(root / "SegmentationObject/2009_900000.png", labels)
    views = pascal_keypoints.load(root, "train").views
    bus, chair = (next(v for v in views if v.name == "2009_900000" and v.box[0] == x) for x in (5, 45))
    assert torch.equal(images.load_view(bus).mask, torch.from_numpy(labels == 3))
    assert chair.mask is None, "it lies on no object"
    assert sum(view.mask is not None for view in views) == 1
    cropped = pascal_keypoints.load(root, "train", categories="bus", crop="square").views[0]
    x0, y0, x1, y1 = cropped.window.box
    seen = torch.nn.functional.pad(torch.from_numpy(labels == 3), (20,) * 4)[y0 + 20 : y1 + 20, x0 + 20 : x1 + 20]
    assert torch.equal(images.load_view(cropped).mask, seen)


@pytest.mark.parametrize(
    ("voc_id", "hidden", "expected"), [(7, (), 7), (None, (), 2), (9, (), 2), (7, ("L_F_Base",), 2)]
)
def test_between_equals_the_number_in_voc_decides(root, one_split, voc_id, hidden, expected):
    labels = np.zeros((60, 80))
    labels[:30], labels[30:] = 2, 7  # roof and base
    write_mask(root / "SegmentationObject/2009_900000.png", labels)
    write_object(root, "2009_900000", voc_id=voc_id, hidden=hidden)
    assert pascal_keypoints.load(root, "train", categories="bus").views[0].mask.label == expected


# --- names --------------------------------------------------------------------------------------------


def test_a_flip_exchanges_left_and_right_in_all_four_spellings():
    for category in pascal_keypoints.CATEGORIES:
        table = pascal_keypoints.skeleton(category)
        assert len(set(table.names)) == len(table.names)
        for name, row in zip(table.names, table.mirror, strict=True):
            words = [{"L": "R", "R": "L", "Left": "Right", "Right": "Left"}.get(w, w) for w in name.split("_")]
            assert table.names[row] == "_".join(words)
    counts = {category: len(pascal_keypoints.skeleton(category)) for category in pascal_keypoints.CATEGORIES}
    assert counts == {
        "aeroplane": 16, "bicycle": 11, "bird": 12, "boat": 11, "bottle": 8, "bus": 8, "car": 14, "cat": 16,
        "chair": 10, "cow": 16, "diningtable": 8, "dog": 16, "horse": 16, "motorbike": 10, "person": 23,
        "pottedplant": 6, "sheep": 16, "sofa": 12, "train": 7, "tvmonitor": 8,
    }  # fmt: skip
    assert set(published_skeletons("spair")) < set(counts)


def test_twins_also_exchange_front_and_back_wheels():
    front_back = {
        (category, table.names[i], table.names[j])
        for category in pascal_keypoints.CATEGORIES
        for table in [pascal_keypoints.skeleton(category)]
        for i, j in enumerate(table.twin)
        if i < j and table.mirror[i] != j
    }
    assert front_back == {
        (category, f"F_{what}", f"B_{what}")
        for category, whats in (
            ("bicycle", ("WheelCenter", "WheelEnd", "WheelIntersection")),
            ("motorbike", ("WheelCenter", "WheelEnd")),
        )
        for what in whats
    }
    for category in pascal_keypoints.CATEGORIES:
        table = pascal_keypoints.skeleton(category)
        assert all(table.twin[i] == j for i, j in enumerate(table.mirror) if i != j)


# --- what is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</annotation>", "", r"2009_900000_1.xml:\d+: not XML \(no element found\); expected an annotation of the"),
        ("<annotation>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>", r"_1.xml: defines a document type or entities"),
        ("<annotation>", "<annotation>&b;", r"_1.xml:2: not XML \(undefined entity\)"),
        ("<image>2009_900000", "<image>../../x", r"_1.xml: <image> should be 2009_900000, got ../../x"),
        ("<category>bus", "<category>car", r"_1.xml: <category> should be bus, got car"),
        ("<category>bus</category>", "", r"_1.xml: <category> should be bus, got None"),
        ("L_F_Base", "L_Bumper", r"_1.xml: keypoint 'L_Bumper' is not one of a bus: L_F_RoofTop, "),
        ("L_F_Base", "R_F_Base", r"_1.xml: keypoint 'R_F_Base' is listed twice"),
        (' x="10"', "", r"_1.xml: keypoint 'L_F_RoofTop': attribute 'x' is missing; found: name, visible, y, z"),
        ('x="10"', 'x="ten"', r"_1.xml: keypoint 'L_F_RoofTop': expected a number for x, got 'ten'"),
        ('x="10"', 'x="nan"', r"_1.xml: keypoint 'L_F_RoofTop': expected a number for x, got 'nan'"),
        ("visible_bounds", "bounds", r"_1.xml: <visible_bounds> is missing"),
        ('width="30"', 'width="0"', r"_1.xml: visible_bounds should have an area, got width 0 and height 40"),
    ],
)
def test_a_wrong_annotation_is_one_line_or_one_fault(root, one_split, old, new, message):
    path = root / "annotations/bus/2009_900000_1.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message) as error:
        pascal_keypoints.load(root, "train")
    assert "\n" not in str(error.value)
    faults = []
    assert len(pascal_keypoints.load(root, "train", faults=faults).views) == 79
    assert faults == [str(error.value)]


def test_bytes_that_are_no_text_are_one_fault(root, one_split):
    (root / "annotations/bus/2009_900000_1.xml").write_bytes("<!DOCTYPE a>".encode("utf-16"))
    faults = []
    pascal_keypoints.load(root, "train", faults=faults)
    (fault,) = faults
    assert "2009_900000_1.xml: not a text file" in fault


def test_wrong_files_are_named(root, one_split):
    (root / "JPEGImages/2009_900000.jpg").unlink()
    write_mask(root / "SegmentationObject/2009_900001.png", np.ones((30, 40)))
    (root / "annotations/bus/readme.xml").write_text("<a/>")
    (root / "annotations/cars").mkdir()
    faults = []
    assert len(pascal_keypoints.load(root, "train", faults=faults).views) == 76
    assert [sum(part in fault for fault in faults) for part in (
        "2009_900000.jpg: no such file; 2009_900000_1.xml describes it",
        "2009_900001.png: 30×40 (height×width), but its image is 60×80",
        "readme.xml: expected a name <image>_<number>.xml",
        "cars: no category of the PASCAL keypoints; they have aeroplane",
    )] == [1, 2, 1, 1]  # fmt: skip
    assert len(faults) == 6, "a bus and a chair lack each of the first two"
    with pytest.raises(ValueError, match=r"have no category 'cars'; they have aeroplane, bicycle"):
        pascal_keypoints.load(root, "train", categories="cars")
    with pytest.raises(ValueError, match=r"split must be one of train, val, got 'test'"):
        pascal_keypoints.load(root, "test")
    with pytest.raises(FileNotFoundError, match=r"annotations: no such folder; expected annotations/<category>"):
        pascal_keypoints.load(root / "nowhere", "train")


# --- real files ---------------------------------------------------------------------------------------


@real
def test_real_objects():
    root = real_root("PascalVOC-keypoints")
    faults = []
    whole = {"spare_benchmarks": False, "min_keypoints": 0, "n_pairs": 3000, "faults": faults}
    splits = {split: pascal_keypoints.load(root, split, **whole) for split in pascal_keypoints.SPLITS}
    assert faults == []
    views = [view for pairs in splits.values() for view in pairs.views]
    assert len({view.image for view in views}) == 4_560
    assert len(views) == len(list(root.glob("annotations/*/*.xml"))) == 8_333
    assert len(set(splits["train"].categories)) == 15
    assert 0.07 < len(image_names(splits["val"])) / 4_560 < 0.09
    visible = sum(int(view.keypoints.visible.sum()) for view in views)
    assert visible == 57_951, "58,208 that are labelled as visible, without 257 beyond their image"
    own = [view for view in views if view.mask is not None]
    assert len(own) == 1_625
    assert 0.60 < share_on_mask(own[::10]) < 0.70, "many points are on outlines, which VOC's masks leave out"


@real
def test_real_pairs_of_the_validation_list():
    pairs = pascal_keypoints.load(real_root("PascalVOC-keypoints"), "val", crop="square")
    assert len(pairs) == pascal_keypoints.N_PAIRS["val"]
    assert len(Counter(pairs.categories)) == 15
    assert image_names(pairs) <= benchmark_lists()["pascal_keypoints val"]
    for view in pairs.views[::20]:
        loaded = images.load_view(replace(view, mask=None))
        assert loaded.image.shape[1] == loaded.image.shape[2]
