"""Loading a split: root, options, emptiness, masks and limit, the same for every command."""

import pytest
from dataset_trees import write_image, write_json

from geco import data, images, masks
from geco.data import loading

NAMES = ["snout", "left_eye", "right_eye", "tail"]


@pytest.fixture
def root(tmp_path):
    """Nine geckos with boxes and no masks."""
    write_json(
        tmp_path / "annotations/train.json",
        {
            "images": [{"id": i, "file_name": f"g{i}.jpg", "width": 80, "height": 60} for i in range(9)],
            "annotations": [
                {
                    "image_id": i,
                    "category_id": 1,
                    "bbox": [10, 10, 40, 40],
                    "keypoints": [value for k in range(4) for value in (12 + 9 * k, 20, 2)],
                }
                for i in range(9)
            ],
            "categories": [{"id": 1, "name": "gecko", "keypoints": NAMES}],
        },
    )
    write_json(tmp_path / "annotations/val.json", {"images": [], "annotations": [], "categories": []})
    for i in range(9):
        write_image(tmp_path / "images" / f"g{i}.jpg")
    return tmp_path


def names(pairs):
    return [(pair.source.name, pair.target.name) for pair in pairs]


def test_a_split_is_loaded_with_options_of_either_kind(root):
    pairs = data.load("COCO", root, "train")
    assert isinstance(pairs, data.PairDataset)
    assert len(pairs) == 9 * 8
    texts = data.load("coco", str(root), "train", ["n_pairs=7", "crop=square"])
    values = data.load("coco", root, "train", {"n_pairs": 7, "crop": "square"})
    assert len(texts) == 7
    assert names(texts) == names(values)


def test_a_limit_is_spread_evenly(root):
    pairs = data.load("coco", root, "train")
    limited = data.load("coco", root, "train", limit=50)
    assert names(limited) == [names(pairs)[i * 72 // 50] for i in range(50)]
    assert len(data.load("coco", root, "train", limit=500)) == 72


def test_masks_are_attached_after_the_limit(root, tmp_path):
    boxed = data.load("coco", root, "train", masks="box", limit=3)
    assert int(images.load_view(boxed[2].target).mask.sum()) == 40 * 40
    masks.make(boxed.views, masks.box, tmp_path / "made", record={"maker": "box"})
    filed = data.load("coco", root, "train", masks=tmp_path / "made", limit=3)
    assert images.load_view(filed[2].target).mask.equal(boxed[2].target.mask)
    with pytest.raises(FileNotFoundError, match="has no mask for"):
        data.load("coco", root, "train", masks=tmp_path / "made")


def test_mistakes_are_one_line_that_helps(root):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder; expected the root of coco"):
        data.load("coco", root / "nowhere", "train")
    message = r"split 'val' of coco is empty; see `geco data check coco .*`"
    with pytest.raises(data.EmptySplitError, match=message):
        data.load("coco", root, "val")
    with pytest.raises(ValueError, match="is empty"):
        data.load("coco", root, "val")
    with pytest.raises(ValueError, match="expected at least one entry, got 0"):
        data.load("coco", root, "train", limit=0)


def test_texts_become_what_the_signature_says():
    coco = data.find("coco")
    values = loading.read_options(coco, ["margin=0.5", "n_pairs=3", "origin=corner", "images=a=b"])
    assert values == {"margin": 0.5, "n_pairs": 3, "origin": "corner", "images": "a=b"}
    assert loading.read_options(coco, {"margin": "0.5", "n_pairs": 3}) == {"margin": 0.5, "n_pairs": 3}
    assert loading.read_options(data.find("animalpose"), ["n_pairs=3"]) == {"n_pairs": 3}, "int | None"
    with pytest.raises(ValueError, match=r"^n_pairs=many: expected a whole number"):
        loading.read_options(coco, ["n_pairs=many"])
    with pytest.raises(ValueError, match=r"^margin=wide: expected a number"):
        loading.read_options(coco, ["margin=wide"])
    for option in ("size=3", "size"):
        with pytest.raises(ValueError, match=rf"coco takes key=value with a key of annotations, .* got '{option}'"):
            loading.read_options(coco, [option])
    with pytest.raises(ValueError, match=r"pfwillow takes key=value with a key of \(none\), got 'size=3'"):
        loading.read_options(data.find("pfwillow"), {"size": 3})


def test_a_text_of_true_or_false_is_not_always_true():
    for text, value in (("true", True), ("False", False)):
        assert loading._converted(text, bool, f"crop={text}") is value
    with pytest.raises(ValueError, match="crop=maybe: expected true or false"):
        loading._converted("maybe", bool | None, "crop=maybe")


def test_a_loader_that_returns_something_else_is_named(root, monkeypatch):
    from geco.datasets import cub

    monkeypatch.setattr(cub, "load", lambda root, split, *, faults=None: ["a pair"])
    with pytest.raises(
        ValueError, match=r"load of the dataset 'cub' must return a PairDataset or PartDataset .* got list"
    ):
        data.load("cub", root, "train")
