"""Annotations that are damaged, mistyped or malicious: a clean error, a fault, or a dataset whose views make sense."""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from dataset_trees import write_image, write_json, write_lines, write_mask
from hostile.mutations import LFS, byte_mutants, dumps, json_mutants, mutated_json, raw, sampled, text_mutants
from hostile.verdicts import LONGEST, check, refused, unchecked
from hypothesis import HealthCheck, given, settings
from scipy.io import savemat

from geco import data
from geco.data import audit, loading
from geco.datasets import ap10k
from geco.datasets.ap10k import preparation

SIZE = (30, 40)  # height, width
NAN, INF = float("nan"), float("inf")


# --- what makes sense -------------------------------------------------------------------------------------------------


def makes_sense(dataset):
    """Whether every view can be scored: a size, finite points, a box with an area, a mask of its size, and pairs."""
    for view in data.views_of(dataset):
        assert min(view.size) > 0
        if view.keypoints is not None:
            assert torch.isfinite(view.keypoints.xy).all()
        if view.box is not None:
            assert torch.isfinite(view.box).all()
            assert (view.box[2:] >= view.box[:2]).all()
        if isinstance(view.mask, torch.Tensor):
            assert tuple(view.mask.shape) == view.size
    assert len(dataset) > 0, "an empty dataset is not to be accepted in silence"
    for entry in dataset:
        if hasattr(entry, "skeleton"):
            assert len(entry.source.points.visible) == len(entry.target.points.visible) == len(entry.skeleton)
    return True


def is_one_line(fault):
    return bool(fault.strip()) and len(fault.splitlines()) == 1 and len(fault) <= LONGEST


def try_all(name, root, split, *, counted_too, **options):
    """Every way in which a dataset is read ends well; the audit, which opens all images, only if it is asked for."""
    check(lambda: data.load(name, root, split, options), right=makes_sense)
    faults = []
    load = data.find(name).load

    def tolerated(dataset):
        return all(map(is_one_line, faults)) and (not len(dataset) or makes_sense(dataset))

    check(lambda: load(root, split, faults=faults, **options), right=tolerated)

    def counted(result):
        return all(map(is_one_line, result[0].faults))

    if counted_too:
        check(lambda: audit.count_split(data.find(name), root, split, options), right=counted)


# --- trees that are right ---------------------------------------------------------------------------------------------

GECKO = ["snout", "left_eye", "right_eye"]
COCO = {
    "images": [{"id": i, "file_name": f"g{i}.png", "width": 40, "height": 30} for i in range(3)],
    "annotations": [
        {"id": 0, "image_id": 0, "category_id": 7, "bbox": [5, 5, 20, 15], "keypoints": [6, 6, 2, 9, 9, 2, 12, 8, 1]},
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [5, 5, 20, 15], "keypoints": [6, 6, 2, 9, 9, 2, 12, 8, 2],
         "segmentation": [[6, 6, 20, 6, 20, 18, 6, 18]], "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 7, "keypoints": [6, 6, 2, 9, 10, 2, 12, 8, 2],
         "segmentation": {"size": [30, 40], "counts": [600, 60, 540]}, "mask": None},
    ],
    "categories": [{"id": 7, "name": "gecko", "keypoints": GECKO}],
}  # fmt: skip
COCO_OPTIONS = {"min_keypoints": 1, "min_shared": 1}


def coco_tree(root):
    write_json(root / "annotations.json", COCO)
    write_json(root / "twins.json", {"left_eye": "right_eye"})
    for i in range(3):
        write_image(root / "images" / f"g{i}.png", SIZE)


SPAIR = {
    "image_width": 40,
    "image_height": 30,
    "bndbox": [5, 6, 35, 25],
    "kps": {"0": [10, 20], "1": [30, 20], "2": None, "3": [4, 4]},
}


def spair_tree(root):
    for name in ("2007_000001", "2008_000002"):
        write_json(root / "ImageAnnotation/cat" / f"{name}.json", SPAIR)
        write_image(root / "JPEGImages/cat" / f"{name}.jpg", SIZE)
    write_lines(root / "Layout/large/trn.txt", ["000001-2007_000001-2008_000002:cat"])


AP10K = {
    "bbox": [5, 6, 20, 15],
    "keypoints": [value for i in range(17) for value in (5 + i, 10, 2)],
    "width": 40,
    "height": 30,
    "file_name": "000000000001.png",
}
AP10K_PAIR = {
    "src_json_path": "ImageAnnotation/Felidae/cat/1.json",
    "trg_json_path": "elsewhere/ImageAnnotation/Felidae/cat/2.json",
}


def ap10k_tree(root):
    for name in ("1", "2"):
        write_json(root / "ImageAnnotation/Felidae/cat" / f"{name}.json", AP10K)
    write_image(root / "data/000000000001.png", SIZE)
    (root / "PairAnnotation").mkdir()
    (root / "PairAnnotation/trn.jsonl").write_text(json.dumps(AP10K_PAIR) + "\n")


POSE = {
    "images": {"1": "2007_000001.png", "2": "2007_000002.png", "3": "2007_000005.png"},
    "annotations": [
        {
            "image_id": i,
            "bbox": [5, 5, 25, 20],
            "keypoints": [[6 + k, 6 + k, 1] if k < 8 else [0, 0, 0] for k in range(20)],
            "category_id": 1,
        }
        for i in (1, 2, 3)
    ],
    "categories": [{"id": 1, "name": "dog"}],
}


def animalpose_tree(root):
    write_json(root / "keypoints.json", POSE)
    for file in POSE["images"].values():
        write_image(root / "images" / file, SIZE)


CUB_PARTS = [f"{i} {part} {part * 2.0} {part * 1.5} 1" for i in (1, 2) for part in range(1, 16)]


def cub_tree(root):
    write_lines(root / "images.txt", ["1 001.Auk/Auk_1.png", "2 001.Auk/Auk_2.png"])
    write_lines(root / "train_test_split.txt", ["1 1", "2 1"])
    write_lines(root / "bounding_boxes.txt", ["1 5.0 5.0 20.0 15.0", "2 5.0 5.0 20.0 15.0"])
    write_lines(root / "parts/part_locs.txt", CUB_PARTS)
    for i in (1, 2):
        write_image(root / f"images/001.Auk/Auk_{i}.png", SIZE)


PF_MAT = {"kps": np.array([[11.0, 21.0], [np.nan, np.nan], [101.0, 51.0]]), "bbox": np.array([[5.0, 6.0, 120.0, 90.0]])}
PF_ROWS = [
    "source_image,target_image,class,flip,XA,YA,XB,YB",
    "a.png,b.png,8,0,1;2.5,3;4,5;6,7;8",
    "b.png,a.png,8,1,1;2.5,3;4,5;6,7;8",
]


PF_TABLE = "\n".join(PF_ROWS)


def pfpascal_tree(root):
    for name in ("a", "b"):
        write_image(root / "JPEGImages" / f"{name}.png", (20, 30))
        (root / "Annotations/cat").mkdir(parents=True, exist_ok=True)
        savemat(root / f"Annotations/cat/{name}.mat", PF_MAT)
    write_lines(root / "test_pairs_pf_pascal.csv", PF_ROWS)
    write_lines(root / "val_pairs_pf_pascal.csv", ["source_image,target_image,class", "a.png,b.png,8"])


WILLOW_MAT = {"pts_coord": np.stack([np.linspace(2, 30, 10), np.linspace(3, 20, 10)])}


def pfwillow_tree(root):
    for name in ("a", "b"):
        write_image(root / "car" / f"{name}.png", SIZE)
        savemat(root / f"car/{name}.mat", WILLOW_MAT)


def struct(rows, fields):
    array = np.zeros((1, len(rows)), dtype=[(field, object) for field in fields])
    for i, row in enumerate(rows):
        array[0, i] = row
    return array


BODY, HEAD = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
BODY[5:25, 5:35] = HEAD[5:15, 5:15] = 1


def part_mat(kind="cat", mask=BODY, parts=(("head", HEAD),), fields=("part_name", "mask"), objects=1):
    parts = struct(list(parts), fields) if isinstance(parts, tuple) else parts
    rows = [(kind, 1, mask, parts)] * objects
    return {"anno": struct([("x", struct(rows, ("class", "class_ind", "mask", "parts")))], ("imname", "objects"))}


def pascal_part_tree(root):
    for name in ("2008_000001", "2008_000002"):
        (root / "Parts/Annotations_Part").mkdir(parents=True, exist_ok=True)
        savemat(root / f"Parts/Annotations_Part/{name}.mat", part_mat())
        write_image(root / "VOCdevkit/VOC2010/JPEGImages" / f"{name}.jpg", SIZE)
    write_lines(root / "VOCdevkit/VOC2010/ImageSets/Main/train.txt", ["2008_000001", "2008_000002"])


TREES = {
    "coco": (coco_tree, "all", COCO_OPTIONS),
    "spair": (spair_tree, "train", {}),
    "ap10k": (ap10k_tree, "train", {}),
    "animalpose": (animalpose_tree, "train", {}),
    "cub": (cub_tree, "train", {}),
    "pfpascal": (pfpascal_tree, "test", {}),
    "pfwillow": (pfwillow_tree, "test", {}),
    "pascal_part": (pascal_part_tree, "train", {}),
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    roots = {}
    for name, (make, _, _) in TREES.items():
        roots[name] = tmp_path_factory.mktemp(name)
        make(roots[name])
    return roots


@pytest.fixture
def attacked(trees):
    """Runs a dataset with one of its files replaced, and puts the file back."""
    undo = []

    def attack(name, place, content, split=None):
        _, usual, options = TREES[name]
        path = trees[name] / place
        undo.append((path, path.read_bytes()))
        path.write_bytes(content)
        try_all(name, trees[name], split or usual, counted_too=crc32(content) % 3 == 0, **options)

    yield attack
    for path, content in undo:
        path.write_bytes(content)


@pytest.mark.parametrize("name", TREES)
def test_the_trees_are_right(trees, name):
    """Else the mutants below would be refused for another reason."""
    _, split, options = TREES[name]
    count, _ = audit.count_split(data.find(name), trees[name], split, options)
    assert count.faults == []
    assert makes_sense(data.load(name, trees[name], split, options))


# --- mutated files ----------------------------------------------------------------------------------------------------


def mat(content):
    file = io.BytesIO()
    savemat(file, content)
    return file.getvalue()


PART_FILE, PART_LIST = "Parts/Annotations_Part/2008_000001.mat", "VOCdevkit/VOC2010/ImageSets/Main/train.txt"
CASES = [
    *(("coco", "annotations.json", m) for m in json_mutants(COCO, count=20, seed=1)),
    *(("coco", "twins.json", m) for m in json_mutants({"left_eye": "right_eye"}, count=12, seed=2)),
    *(("coco", "twins.json", m) for m in json_mutants({"twin": {"left_eye": "right_eye"}, "mirror": {}}, count=10)),
    *(("spair", "ImageAnnotation/cat/2007_000001.json", m) for m in json_mutants(SPAIR, count=15, seed=3)),
    *(("spair", "Layout/large/trn.txt", m) for m in sampled(text_mutants("000001-2007_000001-2008_000002:cat\n"), 20)),
    *(("ap10k", "ImageAnnotation/Felidae/cat/1.json", m) for m in json_mutants(AP10K, count=15, seed=4)),
    *(("ap10k", "PairAnnotation/trn.jsonl", m) for m in json_mutants(AP10K_PAIR, count=15, seed=5)),
    *(("animalpose", "keypoints.json", m) for m in json_mutants(POSE, count=15, seed=6)),
    *(("cub", "images.txt", m) for m in sampled(text_mutants("1 001.Auk/Auk_1.png\n2 001.Auk/Auk_2.png\n"), 25)),
    *(("cub", "train_test_split.txt", m) for m in sampled(text_mutants("1 1\n2 1\n"), 20)),
    *(("cub", "bounding_boxes.txt", m) for m in sampled(text_mutants("1 5 5 20 15\n2 5 5 20 15\n"), 25)),
    *(("cub", "parts/part_locs.txt", m) for m in sampled(text_mutants("\n".join(CUB_PARTS) + "\n"), 25)),
    *(("pfpascal", "test_pairs_pf_pascal.csv", m) for m in sampled(text_mutants(PF_TABLE, separator=","), 40)),
    *(("pfpascal", "Annotations/cat/a.mat", m) for m in byte_mutants(mat(PF_MAT), flips=6, seed=7)),
    *(("pfwillow", "car/a.mat", m) for m in byte_mutants(mat(WILLOW_MAT), flips=6, seed=8)),
    *(("pascal_part", PART_FILE, m) for m in byte_mutants(mat(part_mat()), flips=6, seed=9)),
    *(("pascal_part", PART_LIST, m) for m in sampled(text_mutants("2008_000001\n2008_000002\n"), 20)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "place", "content"),
    [(name, place, content) for name, place, (_, content) in CASES],
    ids=[f"{i} {name} {Path(place).name} {label[:50]}" for i, (name, place, (label, _)) in enumerate(CASES)],
)
def test_a_mutated_file(attacked, name, place, content):
    attacked(name, place, content)


MATS = {
    "text": {"kps": "kps", "bbox": "bbox", "pts_coord": "points"},
    "cells": {key: np.array([[1], ["a"]], dtype=object) for key in ("kps", "bbox", "pts_coord")},
    "structures": {key: {"x": 1.0} for key in ("kps", "bbox", "pts_coord")},
    "complex": {"kps": PF_MAT["kps"] * 1j, "bbox": PF_MAT["bbox"] * 1j, "pts_coord": WILLOW_MAT["pts_coord"] * 1j},
    "empty": {key: np.zeros((0, 0)) for key in ("kps", "bbox", "pts_coord")},
    "scalars": dict.fromkeys(("kps", "bbox", "pts_coord"), 3.0),
    "three columns": {"kps": np.ones((3, 3)), "bbox": np.ones((1, 5)), "pts_coord": np.ones((3, 10))},
    "infinite": {"kps": PF_MAT["kps"] + np.inf, "bbox": PF_MAT["bbox"] + np.inf, "pts_coord": np.full((2, 10), np.inf)},
    "NaN": {"kps": PF_MAT["kps"] * np.nan, "bbox": PF_MAT["bbox"] * np.nan, "pts_coord": np.full((2, 10), np.nan)},
    "huge": {"kps": np.full((3, 2), 1e300), "bbox": np.full((1, 4), 1e300), "pts_coord": np.full((2, 10), 1e300)},
    "other names": {"points": np.ones((2, 10))},
    "truth values": {key: np.ones((2, 10), bool) for key in ("kps", "bbox", "pts_coord")},
}


@pytest.mark.parametrize("kind", MATS)
def test_a_matlab_file_of_something_else(attacked, kind):
    attacked("pfpascal", "Annotations/cat/a.mat", mat(MATS[kind]))
    attacked("pfpascal", "Annotations/cat/a.mat", mat(MATS[kind]), split="val")
    attacked("pfwillow", "car/a.mat", mat(MATS[kind]))


PART_MATS = {
    "another class": part_mat(kind="dragon"),
    "a class of numbers": part_mat(kind=np.ones((2, 2))),
    "no class": part_mat(kind=""),
    "a scalar mask": part_mat(mask=1.0),
    "a text mask": part_mat(mask="mask"),
    "an empty mask": part_mat(mask=np.zeros((0, 0))),
    "a mask in colours": part_mat(mask=np.ones((*SIZE, 3))),
    "a complex mask": part_mat(mask=BODY * 1j),
    "a mask of another size": part_mat(mask=BODY[:-3]),
    "a part of another size": part_mat(parts=(("head", HEAD[:-3]),)),
    "an unknown part": part_mat(parts=(("wing", HEAD),)),
    "a part of numbers": part_mat(parts=((3.0, HEAD),)),
    "a part of text": part_mat(parts=(("head", "mask"),)),
    "a part without a mask": part_mat(parts=(("head", HEAD),), fields=("part_name", "shape")),
    "parts of numbers": part_mat(parts=np.ones((2, 3))),
    "parts of text": part_mat(parts="head"),
    "no object": {"anno": struct([("x", np.zeros((0, 0)))], ("imname", "objects"))},
    "objects of numbers": {"anno": struct([("x", np.ones((1, 1)))], ("imname", "objects"))},
    "no objects": {"anno": struct([("x",)], ("imname",))},
    "an annotation of numbers": {"anno": np.ones((2, 2))},
    "an annotation of text": {"anno": "anno"},
    "two objects": part_mat(objects=2),
}


@pytest.mark.parametrize("kind", PART_MATS)
def test_a_part_annotation_of_something_else(attacked, kind):
    attacked("pascal_part", "Parts/Annotations_Part/2008_000001.mat", mat(PART_MATS[kind]))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=mutated_json(COCO))
def test_any_mutation_of_a_coco_file(trees, content):
    path = trees["coco"] / "annotations.json"
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        check(lambda: data.load("coco", trees["coco"], "all", COCO_OPTIONS), right=makes_sense)
    finally:
        path.write_bytes(before)


# --- what COCO files get wrong ----------------------------------------------------------------------------------------


def coco_with(root, number, **changes):
    content = json.loads(json.dumps(COCO))
    content["annotations"][number].update(changes)
    (root / "annotations.json").write_bytes(dumps(content))
    faults = []
    pairs = data.find("coco").load(root, "all", faults=faults, **COCO_OPTIONS)
    return pairs, faults


@pytest.fixture
def own(tmp_path):
    coco_tree(tmp_path)
    return tmp_path


def test_nested_keypoints_are_understood(own):
    flat, _ = coco_with(own, 0)
    nested, faults = coco_with(own, 0, keypoints=[[6, 6, 2], [9, 9, 2], [12, 8, 1]])
    assert faults == []
    for one, other in zip(flat.views, nested.views, strict=True):
        assert one.keypoints.xy.equal(other.keypoints.xy)
        assert one.keypoints.visible.equal(other.keypoints.visible)


def test_nan_where_nothing_is_marked_is_nothing(own):
    pairs, faults = coco_with(own, 0, keypoints=[6, 6, 2, NAN, NAN, 0, 12, 8, 2])
    assert faults == []
    assert pairs.views[0].keypoints.visible.tolist() == [True, False, True]
    assert pairs.views[0].keypoints.xy[1].tolist() == [0, 0]


@pytest.mark.parametrize(
    "bbox",
    [[NAN, 5, 20, 15], [5, 5, INF, 15], [5, 5, -20, 15], [5, 5, 20, -1], [5, 5, 0, 15], [5, 5, 20, 0], [50, 5, 20, 15],
     [5, 40, 20, 15], [-30, 5, 20, 15], [5, -30, 20, 15], [5, 5, 1e12, 15], [-1e6, -1e6, 2e6, 2e6], [5, 5, 20],
     [5, 5, 20, 15, 1], ["5", 5, 20, 15], [[5, 5, 20, 15]], None, "5 5 20 15", {}, [], [True, 5, 20, 15],
     [10**400, 5, 20, 15], [raw("1e400"), 5, 20, 15], 5],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_box_that_is_none_is_a_fault_of_its_entry(own, bbox):
    pairs, faults = coco_with(own, 1, bbox=bbox)
    assert len(faults) == 1
    assert "annotations[1]" in faults[0]
    assert "annotations.json" in faults[0]
    assert is_one_line(faults[0])
    assert len(pairs.views) == 2


@pytest.mark.parametrize("bbox", [[-1, -1, 30, 20], [5, 5, 36, 26], [0, 0, 40, 30]], ids=str)
def test_a_box_that_reaches_over_the_edge_is_a_box(own, bbox):
    pairs, faults = coco_with(own, 1, bbox=bbox)
    assert faults == []
    assert pairs.views[1].box.tolist() == [bbox[0], bbox[1], bbox[0] + bbox[2], bbox[1] + bbox[3]]


@pytest.mark.parametrize(
    "change",
    [
        *({"keypoints": value} for value in (
            [NAN, 6, 2, 9, 9, 2, 12, 8, 2], [INF, 6, 2, 9, 9, 2, 12, 8, 2], [6, 6, NAN, 9, 9, 2, 12, 8, 2],
            ["6", 6, 2, 9, 9, 2, 12, 8, 2], [10**400, 6, 2, 9, 9, 2, 12, 8, 2], [6, 6], [[6, 6], [9, 9], [12, 8]],
            "x", 5, {"0": 1}, [None] * 9, [True] * 9, [[[6, 6, 2], [9, 9, 2], [12, 8, 2]]], True, [1e12] * 9,
        )),
        *({"segmentation": value} for value in (
            "polygon", ["a"], [["a"] * 6], [[1, 2, 3]], [[1, 2, 3, 4, 5]], [[NAN] * 6], [[INF] * 6], [[1e12] * 6], [5],
            [[None] * 6], [[[1, 2], [3, 4], [5, 6]]], {"counts": 5}, {"counts": "abc"}, {"counts": "\x00"},
            {"counts": "é"}, {"counts": []}, {"counts": [1, 2]}, {"counts": [-1, 1201]}, {"counts": ["1200"]},
            {"counts": [1200.0]},
            {"counts": [10**400]}, {"counts": "o" * 5000}, {"counts": [True] * 1200}, {"size": [1, 1]}, True, 7,
            [[10**400] * 6],
        )),
        *({"mask": value} for value in (5, [], {}, "gone.png", "../annotations.json", "", "\x00", "x" * 5000, True)),
        *({"image_id": value} for value in (None, 9, "0", 0.5, True, [], {}, NAN, 10**400)),
        *({"category_id": value} for value in (None, 9, "7", True, [])),
        *({"iscrowd": value} for value in ("0", "yes", 2, [], 0.5)),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_an_entry_that_is_wrong_is_a_fault(own, change):
    pairs, faults = coco_with(own, 1, **change)
    assert len(faults) == 1, pairs.views
    assert "annotations[1]" in faults[0]
    assert is_one_line(faults[0])
    assert len(pairs.views) == 2


@pytest.mark.parametrize("which", ["images", "categories"])
def test_an_id_that_stands_there_twice_is_a_fault(own, which):
    content = json.loads(json.dumps(COCO))
    content[which].append(dict(content[which][0], file_name="g1.png", name="newt"))
    write_json(own / "annotations.json", content)
    refused(lambda: data.load("coco", own, "all", COCO_OPTIONS), "annotations.json", which, "twice")


@pytest.mark.parametrize(
    "change",
    [{"width": -40}, {"height": NAN}, {"width": "40"}, {"width": 10**12}, {"height": 2.5}, {"width": [40]},
     {"width": True}, {"file_name": None}, {"file_name": 3}, {"file_name": ""}, {"file_name": "."}, {"file_name": ".."},
     {"file_name": "gone.png"}, {"file_name": "a\x00b"}, {"file_name": "x" * 5000}, {"file_name": "/dev/zero"},
     {"file_name": "../../../../../../etc/passwd"}, {"file_name": "\ud800.png"}, {"id": None},
     {"id": True}, {"id": []}],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_an_image_entry_that_is_wrong(own, change):
    content = json.loads(json.dumps(COCO))
    content["images"][0].update(change)
    (own / "annotations.json").write_bytes(dumps(content))
    before = sorted(own.rglob("*"))
    faults = []
    pairs = data.find("coco").load(own, "all", faults=faults, **COCO_OPTIONS)
    count, _ = audit.count_split(data.find("coco"), own, "all", COCO_OPTIONS)
    assert count.faults
    assert all(map(is_one_line, [*faults, *count.faults]))
    assert len(pairs.views) in (2, 3)
    assert sorted(own.rglob("*")) == before, "nothing is written"


def test_images_outside_the_root_are_read_as_before(own, tmp_path_factory):
    elsewhere = write_image(tmp_path_factory.mktemp("elsewhere") / "far.png", SIZE)
    for file in (str(elsewhere), os.path.relpath(elsewhere, own / "images")):
        content = json.loads(json.dumps(COCO))
        content["images"][0]["file_name"] = file
        write_json(own / "annotations.json", content)
        view = data.load("coco", own, "all", COCO_OPTIONS).views[0]
        assert view.image.resolve() == elsewhere.resolve()


def test_an_empty_mask_is_a_fault_of_the_audit(own):
    write_mask(own / "masks" / "empty.png", np.zeros(SIZE))
    coco_with(own, 1, mask="empty.png")
    count, _ = audit.count_split(data.find("coco"), own, "all", COCO_OPTIONS)
    assert count.empty_masks == 1
    assert [fault for fault in count.faults if "empty.png" in fault and "no foreground" in fault] == count.faults


# --- AP-10K's lists are written: nothing may lead elsewhere -----------------------------------------------------------

RELEASE = {
    "images": [{"id": 1, "file_name": "1.jpg", "width": 40, "height": 30}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "keypoints": [1, 1, 2] * 17}],
    "categories": [{"id": 1, "name": "cat", "supercategory": "Felidae"}],
}
RELEASES = json_mutants(RELEASE, count=20, seed=11)
ESCAPES = ["../../../evil", "/tmp/evil", "..", ".", "", "a/b", "a\\b", "a\x00b", "x" * 5000, "C:evil", "\n"]


def prepared(folder, content):
    root = folder / "release"
    for name in preparation.FILES:
        path = root / "annotations" / f"ap10k-{name}-split1.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if name == "train" else dumps({"images": [], "annotations": [], "categories": []}))

    def right(counts):
        return set(counts) >= {"trn", "val", "test"}

    ended = check(lambda: ap10k.prepare(root), right=right)
    assert [path.name for path in folder.iterdir()] == ["release"], "nothing is written beside the root"
    return ended


@pytest.mark.parametrize("content", [c for _, c in RELEASES], ids=[label[:50] for label, _ in RELEASES])
def test_a_mutated_release_is_prepared_or_refused(tmp_path, content):
    prepared(tmp_path, content)


@pytest.mark.parametrize("key", ["name", "supercategory"])
@pytest.mark.parametrize("name", ESCAPES, ids=lambda name: repr(name[:12]))
def test_a_category_cannot_lead_out_of_the_root(tmp_path, key, name):
    content = json.loads(json.dumps(RELEASE))
    content["categories"][0][key] = name
    assert prepared(tmp_path, dumps(content)).kind == "clean error"


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, True, False, 1.5, "3", NAN, [], 10**400 * -1], ids=lambda v: str(v)[:20])
def test_a_limit_is_a_number_of_entries(own, limit):
    refused(lambda: unchecked(data.load)("coco", own, "all", COCO_OPTIONS, limit=limit))


def test_a_limit_beyond_everything_is_everything(own):
    assert len(data.load("coco", own, "all", COCO_OPTIONS, limit=10**400)) == 6


@pytest.mark.parametrize(
    "options",
    [{"n_pairs": 0}, {"n_pairs": -5}, {"n_pairs": "many"}, {"n_pairs": 2.5}, {"n_pairs": None}, {"n_pairs": True},
     {"n_pairs": []}, {"seed": None}, {"seed": 1.5}, {"seed": "x"}, {"margin": NAN, "crop": "square"},
     {"margin": "nan"}, {"margin": "inf"}, {"margin": -1, "crop": "square"}, {"margin": 1e9, "crop": "square"},
     {"margin": None},
     {"crop": "round"}, {"crop": 3}, {"crop": None}, {"categories": ["same"]}, {"origin": 0}, {"min_keypoints": -1},
     {"min_keypoints": "3.5"}, {"min_shared": -1}, {"min_shared": NAN}, {"annotations": "gone.json"},
     {"annotations": 5}, {"images": 5}, {"images": "gone"}, {"twins": "gone.json"}, {"twins": 5}, {"nothing": 1},
     {"faults": []}, {1: 2},
     ["n_pairs"], ["n_pairs=x"], ["=5"], [5], 5, None, "n_pairs", [None], [["n_pairs", 5]]],
    ids=str,
)  # fmt: skip
def test_options_that_are_none(own, options):
    given = {**COCO_OPTIONS, **options} if isinstance(options, dict) else options
    coco = data.find("coco")
    refused(lambda: coco.load(own, "all", **unchecked(loading.read_options)(coco, given)))


@pytest.mark.parametrize("options", ["min_shared=1", ["min_shared=1"], {"min_shared": "1"}, {"min_shared": 1}], ids=str)
def test_options_in_every_form(own, options):
    assert loading.read_options(data.find("coco"), options) == {"min_shared": 1}
    assert len(data.load("coco", own, "all", options)) == 2, "two of the three show three points"


@pytest.mark.parametrize(
    "name", [None, 3, "", "cocos", "../coco", "coco\0", ["coco"], "__init__", "geco.datasets.coco"]
)
def test_datasets_that_do_not_exist(own, name):
    refused(lambda: unchecked(data.find)(name))


@pytest.mark.parametrize("split", [None, 3, "", "Train", ["train"], "../train", b"train"])
@pytest.mark.parametrize("name", TREES)
def test_splits_that_do_not_exist(trees, name, split):
    refused(lambda: unchecked(unchecked(data.find)(name).load)(trees[name], split), "split")


ROOTS = ["missing", "a file", "a pipe", "a loop", "empty", "None", "a number", "empty text", "NUL", "long"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links")
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("kind", ROOTS)
def test_roots_that_are_none(tmp_path, name, kind):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").mkdir()
    root = {"missing": tmp_path / "gone", "a file": tmp_path / "file", "a pipe": tmp_path / "pipe",
            "a loop": tmp_path / "loop", "empty": tmp_path / "empty", "None": None, "a number": 5, "empty text": "",
            "NUL": "a\0b", "long": "x" * 5000}[kind]  # fmt: skip
    refused(lambda: unchecked(data.load)(name, root, TREES[name][1]), seconds=3)


PLACES = {
    "coco": "annotations.json",
    "spair": "ImageAnnotation/cat/2007_000001.json",
    "ap10k": "PairAnnotation/trn.jsonl",
    "animalpose": "keypoints.json",
    "cub": "images.txt",
    "pfpascal": "test_pairs_pf_pascal.csv",
    "pfwillow": "car/a.mat",
    "pascal_part": "Parts/Annotations_Part/2008_000001.mat",
}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links")
@pytest.mark.parametrize("kind", ["gone", "a folder", "a pipe", "a loop", "a device"])
@pytest.mark.parametrize("name", TREES)
def test_files_that_are_none(trees, tmp_path, name, kind):
    root = tmp_path / "root"
    shutil.copytree(trees[name], root)
    path = root / PLACES[name]
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind != "gone":
        path.symlink_to(path if kind == "a loop" else "/dev/zero")
    _, split, options = TREES[name]
    refused(lambda: data.load(name, root, split, options), seconds=3)
    faults = []

    def right(dataset):  # a class of PF-WILLOW is what its folder holds
        return bool(faults) or (name, kind, len(dataset)) == ("pfwillow", "gone", 0)

    check(lambda: data.find(name).load(root, split, faults=faults, **options), right=right, seconds=3)


@pytest.mark.parametrize("name", TREES)
def test_a_git_lfs_pointer_is_called_one(trees, tmp_path, name):
    root = tmp_path / "root"
    shutil.copytree(trees[name], root)
    _, split, options = TREES[name]
    (root / PLACES[name]).write_bytes(LFS)
    message = refused(lambda: data.load(name, root, split, options))
    assert "Git LFS" in message or not PLACES[name].endswith(("json", "mat")), message


def test_a_file_that_may_not_be_read(own, monkeypatch):
    """As the administrator, who may read everything, sees it only in this way."""

    def denied(self, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    refused(lambda: data.load("coco", own, "all", COCO_OPTIONS), "annotations.json", "Permission denied")
    monkeypatch.setattr(Path, "is_file", denied)
    refused(
        lambda: data.load("coco", own, "all", {**COCO_OPTIONS, "annotations": "annotations.json"}), "permission denied"
    )


@pytest.mark.parametrize("masks", ["gone", "", 5, "a\0b", [], True], ids=repr)
def test_masks_that_are_none(own, masks):
    pairs = data.load("coco", own, "all", COCO_OPTIONS)
    refused(lambda: unchecked(data.attach_masks)(pairs, masks))
