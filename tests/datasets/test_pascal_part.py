"""PASCAL-Part: structures of MATLAB, the part on top, the twin tables, disjoint splits."""

import functools
import operator
import pickle

import numpy as np
import pytest
import torch
from dataset_trees import real, real_root, write_image, write_lines
from scipy.io import savemat
from tabled import struct

from geco import images
from geco.datasets import pascal_part

SIZE = (30, 40)


def rectangle(y0, y1, x0, x1):
    mask = np.zeros(SIZE, dtype=np.uint8)
    mask[y0:y1, x0:x1] = 1
    return mask


def annotate(root, name, objects):
    """`objects`: (class, mask, [(part, mask), …])"""
    path = root / "Parts/Annotations_Part" / f"{name}.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        (kind, 1, mask, struct(parts, ("part_name", "mask")) if parts else np.zeros((0, 0)))
        for kind, mask, parts in objects
    ]
    anno = struct([(name, struct(rows, ("class", "class_ind", "mask", "parts")))], ("imname", "objects"))
    savemat(path, {"anno": anno})
    write_image(root / "VOCdevkit/VOC2010/JPEGImages" / f"{name}.jpg", SIZE)


BODY = rectangle(5, 25, 5, 35)


@pytest.fixture
def root(tmp_path):
    head, eye = rectangle(5, 15, 5, 15), rectangle(8, 10, 8, 10)
    annotate(
        tmp_path,
        "2008_000001",
        [("cat", BODY, [("leye", eye), ("head", head), ("rfpa", rectangle(20, 25, 30, 35))])],
    )
    annotate(tmp_path, "2008_000002", [("cat", BODY, []), ("dog", BODY, [])])
    annotate(tmp_path, "2008_000003", [("table", BODY, [])])
    annotate(tmp_path, "2008_000004", [("tvmonitor", BODY, [("screen", head)])])
    lists = tmp_path / "VOCdevkit/VOC2010/ImageSets/Main"
    write_lines(lists / "train.txt", ["2008_000002", "2008_000001"])
    write_lines(lists / "val.txt", ["2008_000003", "2008_000004"])
    return tmp_path


def test_single_objects_of_the_two_lists(root):
    train, test = pascal_part.load(root, "train"), pascal_part.load(root, "test")
    assert [view.name for view in train] == ["2008_000001"]
    assert [view.name for view in test] == ["2008_000003", "2008_000004"]
    assert (train.listed, test.listed) == (2, 2)
    assert test.categories == ("diningtable", "tvmonitor")
    assert set(test.skeletons) == {"diningtable", "tvmonitor"}
    assert pascal_part.load(root, "test", categories="tvmonitor").categories == ("tvmonitor",)
    assert len(test[1:]) == 1
    assert [view.name for view in pickle.loads(pickle.dumps(test))] == [view.name for view in test]


def test_the_part_with_the_highest_index_is_on_top(root):
    views = pascal_part.load(root, "train")
    view, names = views[0], views.skeletons["cat"].names
    expected = np.zeros(SIZE, dtype=int)
    expected[5:15, 5:15] = names.index("head") + 1
    expected[8:10, 8:10] = names.index("leye") + 1
    expected[20:25, 30:35] = names.index("rfpa") + 1
    assert torch.equal(view.parts, torch.from_numpy(expected))
    assert torch.equal(view.mask, torch.from_numpy(BODY.astype(bool)))
    assert view.box.tolist() == [5, 5, 35, 25]
    assert images.load_view(view).image.shape == (3, *SIZE)


def test_a_thing_without_parts_is_one_part(root):
    table = pascal_part.load(root, "test")[0]
    assert torch.equal(table.parts, table.mask.long())
    assert pascal_part.part_table("diningtable").names == ("fg",)


def test_counts_of_parts():
    counts = {category: len(pascal_part.part_table(category)) for category in pascal_part.CATEGORIES}
    assert len(counts) == 20
    published = {"cow": 19, "sheep": 19, "horse": 21, "cat": 17, "dog": 18, "bird": 13, "person": 24}
    assert {category: counts[category] for category in published} == published


def test_twins_exchange_limbs_never_a_leg_with_its_own_paw():
    for category in pascal_part.CATEGORIES:
        table = pascal_part.part_table(category)
        assert table.twin == table.mirror
        for i, j in enumerate(table.twin):
            if i < j:
                left, right = table.names[i], table.names[j]
                assert left.replace("left", "right") == right or "r" + left[1:] == right
    cat = pascal_part.part_table("cat")
    assert cat.names[cat.twin[cat.names.index("lfleg")]] == "rfleg"
    assert cat.names[cat.twin[cat.names.index("lfpa")]] == "rfpa"
    train = pascal_part.part_table("train")
    assert train.names[train.twin[train.names.index("crightside_10")]] == "cleftside_10"
    assert all(i == j for i, j in enumerate(pascal_part.part_table("bicycle").twin)), "front and back are not mirrored"
    with pytest.raises(ValueError, match=r"PASCAL-Part has no category 'wolf'; it has aeroplane, bicycle"):
        pascal_part.part_table("wolf")


def test_a_split_by_hash_is_disjoint_and_complete(root):
    halves = [pascal_part._listed(root, split, "hash") for split in pascal_part.SPLITS]
    assert sorted(functools.reduce(operator.iadd, halves, [])) == [f"2008_00000{i}" for i in (1, 2, 3, 4)]
    with pytest.raises(FileNotFoundError, match=r"Annotations_Part: no such folder"):
        pascal_part.load(root / "Parts", "train", lists="hash")


def test_what_is_wrong_is_named(root):
    write_lines(root / "VOCdevkit/VOC2010/ImageSets/Main/val.txt", ["2008_000003", "2008_000009", "2008_000004"])
    with pytest.raises(FileNotFoundError, match=r"2008_000009.mat: no such file; expected a MATLAB file with 'anno'"):
        pascal_part.load(root, "test")
    faults = []
    assert len(pascal_part.load(root, "test", faults=faults)) == 2
    assert len(faults) == 1
    annotate(root, "2008_000001", [("cat", BODY, [("horn", BODY)])])
    with pytest.raises(ValueError, match=r"2008_000001.mat: a cat has no part 'horn'; it has head, leye"):
        pascal_part.load(root, "train")
    annotate(root, "2008_000001", [("unicorn", BODY, [])])
    with pytest.raises(ValueError, match=r"2008_000001.mat: class should be one of aeroplane, .* got 'unicorn'"):
        pascal_part.load(root, "train")
    (root / "VOCdevkit/VOC2010/ImageSets/Main/train.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"Main/train.txt: no such file; .*lists='hash', which needs none"):
        pascal_part.load(root, "train")
    annotate(root, "2008_000003", [("cat", BODY, [])])
    (root / "VOCdevkit/VOC2010/JPEGImages/2008_000003.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"2008_000003.jpg: no such file; 2008_000003.mat describes it"):
        pascal_part.load(root, "test")


@real
def test_real_parts():
    root = real_root("PASCAL-Part")
    splits = [pascal_part.load(root, split, lists="hash") for split in pascal_part.SPLITS]
    assert sum(views.listed for views in splits) == 18
    assert sum(len(views) for views in splits) == 8
    assert {view.name for view in splits[0]}.isdisjoint(view.name for view in splits[1])
    for views in splits:
        for view, category in zip(views, views.categories, strict=True):
            loaded = images.load_view(view)
            assert loaded.parts.shape == loaded.mask.shape == loaded.image.shape[1:]
            labels = set(loaded.parts.unique().tolist()) - {0}
            assert labels <= set(range(1, len(views.skeletons[category]) + 1))
            assert float(loaded.mask[loaded.parts > 0].float().mean()) > 0.97, "parts lie on the object"
    cat = next(view for views in splits for view in views if view.name == "2008_006462")
    head, eye = 1, 2
    rows, columns = (cat.parts == eye).nonzero().float().mean(0).tolist()
    assert cat.parts[int(rows), int(columns)] == eye
    assert (cat.parts == head).sum() > (cat.parts == eye).sum() > 0
