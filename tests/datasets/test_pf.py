"""PF-PASCAL and PF-WILLOW: MATLAB files, csv lists with and without points, mirrored rows."""

import csv
import pickle

import numpy as np
import pytest
import torch
from dataset_trees import names, real, real_root, write_image, write_lines, write_mask
from scipy.io import savemat

from geco import images
from geco.datasets import pfpascal, pfwillow

FOLDER = "PF-dataset-PASCAL/JPEGImages"


@pytest.fixture
def root(tmp_path):
    """The folder above PF-dataset-PASCAL; longest sides 300 as in the release, and 600 for one image."""
    home = tmp_path / "PF-dataset-PASCAL"
    sizes = {"2008_000001": (200, 300), "2009_000002": (300, 150), "2010_000003": (400, 600)}
    points = np.array([[11.0, 21.0], [np.nan, np.nan], [101.0, 51.0]])
    for i, (name, size) in enumerate(sizes.items()):
        write_image(home / "JPEGImages" / f"{name}.jpg", size)
        annotation = home / "Annotations/cat" / f"{name}.mat"
        annotation.parent.mkdir(parents=True, exist_ok=True)
        savemat(annotation, {"kps": points + i, "bbox": np.array([[5.0, 6.0, 120.0, 90.0]])})
    a, b, c = (f"{FOLDER}/{name}.jpg" for name in sizes)
    header = "source_image,target_image,class,flip"
    write_lines(home / "train_pairs_pf_pascal.csv", [header, f"{a},{b},8,0", f"{a},{b},8,1", f"{b},{c},8,0"])
    header = "source_image,target_image,class,XA,YA,XB,YB"
    write_lines(home / "test_pairs_pf_pascal.csv", [header, f"{a},{c},8,1;2.5,3;4,5;6,7;8", f"{a},{b},12,1,2,3,4"])
    return tmp_path


def test_points_of_the_list(root):
    pairs = pfpascal.load(root, "test")
    assert names(pairs) == [("2008_000001", "2010_000003"), ("2008_000001", "2009_000002")]
    assert pairs.categories == ("cat", "dog")
    assert pairs[0].source.keypoints.xy.tolist() == [[0.5, 2.5], [2.0, 3.5]], "MATLAB's first pixel is (1, 1)"
    assert pairs[0].target.keypoints.xy.tolist() == [[9.0, 13.0], [11.0, 15.0]], "twice as large as it was marked"
    assert pairs[0].source.box.tolist() == [5, 6, 120, 90], "the .mat file's"
    assert pairs[1].source.box.tolist() == [0.5, 1.5, 0.5, 1.5], "no .mat file of a dog: the extent of the points"
    assert (pairs[0].skeleton.twin, pairs[0].skeleton.mirror) == ((0, 1), None)
    pickle.loads(pickle.dumps(pairs))


def test_points_of_the_matlab_files(root):
    pairs = pfpascal.load(root / "PF-dataset-PASCAL", "train")
    assert len(pairs) == 3
    source = pairs[0].source
    assert source.keypoints.visible.tolist() == [True, False, True]
    assert source.keypoints.xy[[0, 2]].tolist() == [[10.5, 20.5], [100.5, 50.5]]
    assert len(pairs[0].skeleton) == 3
    assert pairs[2].target.keypoints.xy[0].tolist() == [25.0, 45.0]
    assert len(pairs.views) == 5, "two plain, two mirrored, the larger one"


def test_a_mirrored_row_shows_both_images_in_a_mirror(root):
    pairs = pfpascal.load(root, "train")
    plain, mirrored = pairs[0].target, pairs[1].target
    assert mirrored.name == "2009_000002@mirrored"
    before, after = images.load_view(plain), images.load_view(mirrored)
    assert torch.equal(after.image, before.image.flip(-1))
    assert torch.allclose(after.keypoints.xy[0, 0], 150 - before.keypoints.xy[0, 0])
    assert torch.equal(after.keypoints.xy[:, 1], before.keypoints.xy[:, 1])
    assert torch.equal(after.keypoints.visible, before.keypoints.visible)
    assert after.box.tolist() == [30, 6, 145, 90]
    assert after.window is None


def test_masks_of_voc(root):
    mask = np.zeros((200, 300))
    mask[:50] = 8
    mask[50:60] = 255
    write_mask(root / "voc/2008_000001.png", mask)
    pairs = pfpascal.load(root, "train", masks=root / "voc")
    assert int(images.load_view(pairs[0].source).mask.sum()) == 50 * 300
    assert pairs[0].target.mask is None
    wrong = pfpascal.load(root, "test", masks=root / "voc")[1].source
    assert not images.load_view(wrong).mask.any(), "this pair is about dogs"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.jpg,b.jpg,21,1,2,3,4", r"csv:2: class should be a number from 1 to 20, got '21'"),
        ("a.jpg,b.jpg,8,1;2,2,3,4", r"csv:2: XA, YA, XB, YB differ in length: 2, 1, 1, 1"),
        ("a.jpg,b.jpg,8,one,2,3,4", r"csv:2: expected a number for XA, got 'one'"),
        ("a.jpg,b.jpg,8", r"csv:2: expected 7 cells .*is the line cut short\?"),
        ("a.jpg,b.jpg,8,1,2,3,4", r"JPEGImages/a.jpg: no such file; the list of pairs names it"),
    ],
)
def test_a_wrong_line_is_named(root, line, message):
    write_lines(
        root / "PF-dataset-PASCAL/test_pairs_pf_pascal.csv",
        ["source_image,target_image,class,XA,YA,XB,YB", line],
    )
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        pfpascal.load(root, "test")
    faults = []
    assert len(pfpascal.load(root, "test", faults=faults)) == 0
    assert len(faults) in (1, 2)


def test_wrong_files_are_named(root):
    home = root / "PF-dataset-PASCAL"
    with pytest.raises(
        FileNotFoundError, match=r"val_pairs_pf_pascal.csv: no such file; expected a table source_image"
    ):
        pfpascal.load(root, "val")
    write_lines(home / "val_pairs_pf_pascal.csv", ["source,target"])
    with pytest.raises(ValueError, match=r"csv:1: column 'source_image' is missing; found source, target"):
        pfpascal.load(root, "val")
    annotation = home / "Annotations/cat/2008_000001.mat"
    savemat(annotation, {"kps": np.zeros((3, 3)), "bbox": np.zeros((1, 4))})
    with pytest.raises(ValueError, match=r"2008_000001.mat: expected kps n×2 and bbox 1×4, got \(3, 3\)"):
        pfpascal.load(root, "train")
    savemat(annotation, {"kps": np.zeros((2, 2)), "bbox": np.zeros((1, 4))})
    with pytest.raises(ValueError, match=r"2008_000001 and 2009_000002: expected 2 keypoints in both, got \[2, 3\]"):
        pfpascal.load(root, "train")
    savemat(annotation, {"points": np.zeros((2, 2))})
    with pytest.raises(ValueError, match=r"2008_000001.mat: variable 'kps' is missing"):
        pfpascal.load(root, "train")
    annotation.write_bytes(b"not a matlab file at all" * 20)
    with pytest.raises(ValueError, match=r"2008_000001.mat: not a MATLAB file that can be read"):
        pfpascal.load(root, "train")


# --- PF-WILLOW ----------------------------------------------------------------------------------------


@pytest.fixture
def willow(tmp_path):
    for kind, count in (("car(G)", 3), ("duck(S)", 2)):
        for i in range(count):
            path = write_image(tmp_path / "PF-dataset-WILLOW" / kind / f"im_{i}.png", (40, 50))
            savemat(path.with_suffix(".mat"), {"pts_coord": np.arange(20.0).reshape(2, 10) + i + 1})
    return tmp_path


def test_all_ordered_pairs_of_a_class(willow):
    pairs = pfwillow.load(willow)
    assert len(pairs) == 3 * 2 + 2 * 1
    assert names(pairs)[:2] == [("car(G)/im_0", "car(G)/im_1"), ("car(G)/im_0", "car(G)/im_2")]
    assert len(set(names(pairs))) == 8
    source = pairs[0].source
    assert source.keypoints.xy[:2].tolist() == [[0.5, 10.5], [1.5, 11.5]]
    assert source.box.tolist() == [0.5, 10.5, 9.5, 19.5]
    assert source.size == (40, 50)
    assert pairs[0].skeleton.mirror is None


def test_wrong_willow_files_are_named(willow):
    car = willow / "PF-dataset-WILLOW/car(G)"
    savemat(car / "im_0.mat", {"pts_coord": np.zeros((10, 2))})
    with pytest.raises(ValueError, match=r"im_0.mat: pts_coord should be 2×10 \(x over y\), got \(10, 2\)"):
        pfwillow.load(willow)
    (car / "im_1.png").unlink()
    faults = []
    assert len(pfwillow.load(willow, faults=faults)) == 2
    assert len(faults) == 2
    assert "im_1.png: no such file; im_1.mat describes it" in faults[1]
    with pytest.raises(FileNotFoundError, match=r"found no <class>/<name>.mat; is this the PF-dataset-WILLOW folder"):
        pfwillow.load(willow / "nowhere")
    with pytest.raises(ValueError, match=r"split must be one of test, got 'train'"):
        pfwillow.load(willow, "train")


# --- real files ---------------------------------------------------------------------------------------


@real
@pytest.mark.parametrize(("split", "count"), [("val", 307), ("test", 299)])
def test_real_pascal_pairs_have_the_points_of_the_list(split, count):
    root = real_root("PF-PASCAL")
    faults = []
    pairs = pfpascal.load(root, split, faults=faults)
    assert faults == []
    with (root / f"PF-dataset-PASCAL/{split}_pairs_pf_pascal.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(pairs) == len(rows) == count
    assert len(set(pairs.categories)) == 20
    for pair, row in zip(pairs, rows, strict=True):
        for view, x, y in ((pair.source, "XA", "YA"), (pair.target, "XB", "YB")):
            if max(view.size) != pfpascal.MARKED_SIDE:
                assert view.name == "2010_001360", "the only one that is smaller in VOC"
                continue
            expected = [[float(v) - 0.5 for v in row[column].split(";")] for column in (x, y)]
            assert torch.allclose(view.keypoints.xy.T, torch.tensor(expected))


@real
def test_real_pascal_points_lie_on_the_objects():
    """The masks are of VOC's larger images, so the points are carried there."""
    masks = real_root("VOC_SegmentationClassAug") / "SegmentationClassAug"
    views = {
        (view.name, view.mask.label): view
        for pair in pfpascal.load(real_root("PF-PASCAL"), "test", masks=masks)
        for view in (pair.source, pair.target)
        if view.mask is not None
    }
    on_mask = []
    for view in views.values():
        mask = images.read_mask(view.mask)
        scale = max(mask.shape) / max(view.size)
        column, row = (view.keypoints.xy * scale).long().unbind(-1)
        on_mask += mask[row.clamp(max=mask.shape[0] - 1), column.clamp(max=mask.shape[1] - 1)].tolist()
    assert len(views) >= 20
    assert np.mean(on_mask) > 0.85


@real
def test_real_willow_is_complete():
    pairs = pfwillow.load(real_root("PF-WILLOW"))
    assert len(pairs) == 900
    assert len(pairs.views) == 100
    assert {category: pairs.categories.count(category) for category in set(pairs.categories)} == dict.fromkeys(
        set(pairs.categories), 90
    )
    for view in pairs.views:
        assert max(view.size) == 300
        assert (view.keypoints.xy > 0).all()
        assert (view.keypoints.xy < torch.tensor([view.size[1], view.size[0]])).all()
