"""Images of the benchmarks: the lists are those of the datasets, and no training list holds one of them."""

import csv
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dataset_trees import real, real_root, write_image, write_json, write_lines
from scipy.io import savemat

from geco.data import benchmark_images, benchmark_lists
from geco.datasets import animalpose, pascal_keypoints, pfpascal, spair
from geco.types import View

HELD_OUT = ("spair val", "spair test", "pfpascal val", "pfpascal test", "animalpose test")
FREE = ("2007_999901", "2008_999902", "2009_999903", "2010_999904")  # ids that VOC does not have


def image_names(pairs):
    return {view.image.stem for view in pairs.views}


def test_the_lists_hold_ids_of_voc():
    lists = benchmark_lists()
    assert set(HELD_OUT) < set(lists)
    assert all(re.fullmatch(r"20(07|08|09|10|11)_\d{6}", image) for ids in lists.values() for image in ids)
    assert benchmark_images() == set().union(*lists.values())
    rest = benchmark_images(besides="pascal_keypoints val")
    assert benchmark_images() - rest == lists["pascal_keypoints val"], "it is disjoint from the others"


def test_the_list_of_animals_is_that_of_their_loader():
    for split in ("val", "test"):
        stems = {Path(file).stem for file, where in animalpose.listed().items() if where == split}
        assert benchmark_lists()[f"animalpose {split}"] == {stem for stem in stems if stem.startswith("20")}


# --- training lists that name images of the benchmarks ------------------------------------------


@pytest.fixture
def names():
    """Four images of no benchmark, and one of each list."""
    return (*FREE, *(min(benchmark_lists()[held_out]) for held_out in HELD_OUT))


def of_spair(root, names):
    keypoints = {str(i): [10 + i, 20] if i < 5 else None for i in range(30)}
    record = {"image_width": 80, "image_height": 60, "bndbox": [5, 6, 70, 50], "kps": keypoints}
    for name in names:
        write_json(root / f"ImageAnnotation/cat/{name}.json", record)
        write_image(root / f"JPEGImages/cat/{name}.jpg")
    pairs = [f"{i:06}-{a}-{b}:cat" for i, (a, b) in enumerate(zip(names, names[1:] + names[:1], strict=True))]
    write_lines(root / "Layout/large/trn.txt", pairs)
    write_lines(root / "Layout/large/test.txt", pairs)
    return spair


def of_pfpascal(root, names):
    for name in names:
        write_image(root / f"JPEGImages/{name}.jpg", (200, 300))
        (root / "Annotations/cat").mkdir(parents=True, exist_ok=True)
        savemat(
            root / f"Annotations/cat/{name}.mat", {"kps": np.full((4, 2), 9.0), "bbox": np.array([[5.0, 6, 90, 90]])}
        )
    rows = [f"{a}.jpg,{b}.jpg,8,0" for a, b in zip(names, names[1:] + names[:1], strict=True)]
    for split in ("train", "test"):
        write_lines(root / f"{split}_pairs_pf_pascal.csv", ["source_image,target_image,class,flip", *rows])
    return pfpascal


def of_animalpose(root, names):
    points = [[10 + i, 20, 1] for i in range(20)]
    annotations = [
        {"image_id": i, "bbox": [5, 5, 40, 40], "keypoints": points, "category_id": 1} for i in range(len(names))
    ]
    for name in names:
        write_image(root / f"images/{name}.jpg")
    write_json(
        root / "keypoints.json",
        {
            "images": {str(i): f"{name}.jpg" for i, name in enumerate(names)},
            "annotations": annotations,
            "categories": [{"id": 1, "name": "dog"}],
        },
    )
    return animalpose


def of_pascal_keypoints(root, names):
    points = "".join(f'<keypoint name="{name}" visible="1" x="9" y="9" z="0"/>' for name in ("Nose", "L_Eye", "R_Eye"))
    for name in names:
        write_image(root / f"JPEGImages/{name}.jpg")
        write_lines(
            root / f"annotations/person/{name}_1.xml",
            [
                f"<annotation><image>{name}</image><category>person</category>",
                '<visible_bounds height="30" width="20" xmin="5" ymin="5"/>',
                f"<keypoints>{points}</keypoints></annotation>",
            ],
        )
    return pascal_keypoints


@pytest.mark.parametrize("write", [of_spair, of_pfpascal, of_animalpose, of_pascal_keypoints])
def test_training_lists_leave_out_images_of_the_benchmarks(write, names, tmp_path, monkeypatch):
    module = write(tmp_path, names)
    # All in the training split of those that split by a hash, so that only the lists can keep an image out.
    for hashed in (animalpose, pascal_keypoints):
        monkeypatch.setattr(hashed, "hashed_split", lambda name, shares: "train")
    assert image_names(module.load(tmp_path, "train", spare_benchmarks=False)) == set(names)
    assert image_names(module.load(tmp_path, "train")) == set(FREE)


@pytest.mark.parametrize("write", [of_spair, of_pfpascal, of_animalpose])
def test_test_lists_hold_what_they_held(write, names, tmp_path, monkeypatch):
    module = write(tmp_path, names)
    monkeypatch.setattr(animalpose, "hashed_split", lambda name, shares: "test")
    assert image_names(module.load(tmp_path, "test")) == set(names)


# --- real files ---------------------------------------------------------------------------------------


@cache
def real_image_names(module, folder, split):
    return image_names(module.load(real_root(folder), split, min_keypoints=0, n_pairs=10))


@pytest.fixture(scope="module")
def held_out():
    """Images of the lists, read from the datasets themselves."""
    lists = {}
    for split in ("val", "test"):
        layout = real_root("SPair-71k-full-layout") / f"Layout/large/{split}.txt"
        lists[f"spair {split}"] = set(re.findall(r"\d{4}_\d{6}", layout.read_text()))
        with (real_root("PF-PASCAL") / f"PF-dataset-PASCAL/{split}_pairs_pf_pascal.csv").open() as file:
            rows = list(csv.DictReader(file))
        lists[f"pfpascal {split}"] = {Path(row[c]).stem for row in rows for c in ("source_image", "target_image")}
    lists["animalpose test"] = real_image_names(animalpose, "Animal-Pose", "test")
    return lists


@real
def test_real_lists_are_complete(held_out):
    for name, ids in held_out.items():
        ours = benchmark_lists()[name]
        assert {image for image in ids if re.fullmatch(r"\d{4}_\d{6}", image)} <= ours, name
        if not name.startswith("animalpose"):
            assert len(ours - ids) == (2 if name == "pfpascal val" else 0), "the one pair of 308 that is not there"


@real
@pytest.mark.parametrize(("module", "folder"), [(pascal_keypoints, "PascalVOC-keypoints"), (animalpose, "Animal-Pose")])
def test_no_real_training_list_holds_an_image_of_a_benchmark(module, folder, held_out):
    train = real_image_names(module, folder, "train")
    assert len(train) > 2_500
    assert {name: len(train & ids) for name, ids in held_out.items()} == dict.fromkeys(held_out, 0)


@real
def test_the_real_training_list_of_spair_holds_no_image_of_a_benchmark(held_out, monkeypatch):
    def unread(root, masks, category, image):  # only the layouts are there
        count = len(spair.published_skeletons("spair")[category])
        return View(Path(image), (8, 8), spair.keypoints([(0, 0)] * count, [True] * count, shift=0), name=image)

    monkeypatch.setattr(spair, "_view", unread)
    pairs = spair.load(real_root("SPair-71k-full-layout"), "train")
    train = image_names(pairs)
    assert (len(pairs), len(train)) == (29_534, 733)
    assert {name: len(train & ids) for name, ids in held_out.items()} == dict.fromkeys(held_out, 0)


@real
def test_real_training_and_validation_images_are_apart():
    sources = ((pascal_keypoints, "PascalVOC-keypoints"), (animalpose, "Animal-Pose"))
    train, val = (set.union(*(real_image_names(*source, split) for source in sources)) for split in ("train", "val"))
    assert not train & val
    assert real_image_names(*sources[0], "val") == benchmark_lists()["pascal_keypoints val"]
