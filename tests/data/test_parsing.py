"""Parsing: splits by hash, squares around boxes, points by their convention, and messages that name the place."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from dataset_trees import write_lines

from geco import data
from geco.types import Keypoints, View

SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}


def test_the_hash_keeps_its_shares_and_its_answers():
    counts = Counter(data.hashed_split(f"{i}.jpg", SHARES) for i in range(20_000))
    assert counts["train"] / 20_000 == pytest.approx(0.70, abs=0.01)
    assert counts["val"] / 20_000 == pytest.approx(0.15, abs=0.01)
    # Written down so that no later version moves an image to another split.
    splits = [data.hashed_split(name, SHARES) for name in ("ca110.jpeg", "2007_000063.jpg", "0.jpg")]
    assert splits == ["test", "val", "train"]


def test_points_count_from_the_corner_and_hidden_ones_lie_there():
    points = data.keypoints([(3, 4), (9, 9)], [True, False], shift=data.PIXEL_CENTRE)
    assert points.xy.tolist() == [[3.5, 4.5], [0, 0]]
    beyond = data.on_image(Keypoints(torch.tensor([[3.5, 4.5], [9.5, 1.0]]), torch.tensor([True, True])), (6, 8))
    assert beyond.visible.tolist() == [True, False]


def test_a_square_is_centred_on_the_box_and_named():
    view = View(Path("x.jpg"), (60, 80), box=torch.tensor([20.0, 10.0, 60.0, 40.0]), name="x")
    square = data.squared(view, margin=0.05)
    assert (square.name, square.size, square.window.box) == ("x@18,3,62,47", (44, 44), (18, 3, 62, 47))
    with pytest.raises(ValueError, match="x has no box to cut a square around"):
        data.squared(View(Path("x.jpg"), (60, 80), name="x"), margin=0.05)


def test_a_table_names_the_line_that_is_wrong(tmp_path):
    path = write_lines(tmp_path / "boxes.txt", ["1 a b", "", "2 c d e"])
    assert [cells for _, cells in data.read_rows(path, "id", "name")] == [["1", "a b"], ["2", "c d e"]]
    with pytest.raises(ValueError, match=r"boxes.txt:1: expected `id x y z`, got '1 a b'"):
        list(data.read_rows(path, "id", "x", "y", "z"))


def test_faults_are_collected_or_raised():
    faults = []
    with data.tolerating(faults):
        raise ValueError("a fault")
    assert faults == ["a fault"]
    with pytest.raises(ValueError, match="a fault"), data.tolerating(None):
        raise ValueError("a fault")


def test_a_field_of_another_kind_is_shown():
    assert data.field({"size": 3}, "size", (int, float), "here") == 3
    with pytest.raises(ValueError, match="here: key 'size' should be int or float, got 'three'"):
        data.field({"size": "three"}, "size", (int, float), "here")
    with pytest.raises(ValueError, match="here: key 'size' is missing; found: list"):
        data.field([], "size", int, "here")
