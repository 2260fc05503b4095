"""Images without annotation: each once in every place of a pair, those of benchmarks left out."""

import os

import pytest
import torch
from dataset_trees import write_image

from geco import data
from geco.batching import collate
from geco.data import benchmark_images
from geco.training import Joint, TrainingPairs
from geco.training.settings import AugmentSettings


@pytest.fixture
def root(tmp_path):
    for name in ("a.jpg", "deep/b.png", "c.JPG", "d.webp"):
        write_image(tmp_path / name, (30, 40))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_each_image_is_once_a_source_and_once_a_target(root):
    pairs = data.load("images", root, "train")
    names = {"a.jpg", "deep/b.png", "c.JPG", "d.webp"}
    assert {view.name for view in pairs.views} == names
    assert {pair.source.name for pair in pairs} == {pair.target.name for pair in pairs} == names
    assert all(pair.source.name != pair.target.name for pair in pairs)
    assert set(pairs.categories) == {"image"}
    assert [pair.source.name for pair in data.load("images", root, "train")] == [p.source.name for p in pairs]
    others = {tuple(p.source.name for p in data.load("images", root, "train", {"seed": n})) for n in range(5)}
    assert len(others) > 1


def test_they_are_augmented_and_stacked_with_nothing_to_compare(root):
    pairs = TrainingPairs(Joint({"images": data.load("images", root, "train")}), AugmentSettings(28), seed=0,
                          masks=False)  # fmt: skip
    batch = collate([pairs[0, number] for number in range(3)])
    assert batch.source.pixels.shape == (3, 3, 28, 28)
    assert batch.source.points.visible.shape == (3, 0)
    assert batch.skeletons[0].names == ()


def test_the_whole_image_may_be_its_mask(root):
    pair = data.load("images", root, "train", masks="box")[0]
    assert pair.source.mask.shape == (30, 40)
    assert pair.source.mask.all()


def test_images_of_benchmarks_are_left_out(root):
    tested = min(benchmark_images())
    write_image(root / f"{tested}.jpg", (30, 40))
    assert len(data.load("images", root, "train")) == 4
    assert len(data.load("images", root, "train", {"spare_benchmarks": False})) == 5
    for name in ("a.jpg", "deep/b.png", "c.JPG", "d.webp"):
        os.unlink(root / name)
    with pytest.raises(ValueError, match="every image is in a benchmark's validation or test list"):
        data.load("images", root, "train")


def test_what_is_no_image_is_named_or_collected(root, tmp_path_factory):
    (root / "broken.jpg").write_bytes(b"\xff\xd8 cut off")
    with pytest.raises(ValueError, match=r"broken\.jpg"):
        data.load("images", root, "train")
    faults = []
    pairs = data.find("images").load(root, "train", faults=faults)
    assert len(pairs) == 4
    assert "broken.jpg" in faults[0]
    with pytest.raises(ValueError, match="holds no image"):
        data.load("images", tmp_path_factory.mktemp("empty"), "train")
    with pytest.raises(ValueError, match="split"):
        data.load("images", root, "test")
    assert torch.equal(pairs[0].source.box, torch.tensor([0.0, 0.0, 40.0, 30.0]))
