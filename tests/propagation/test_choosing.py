"""Which images to label next, and corrections that join the labels."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from geco.errors import InputError
from geco.propagation import (
    HIDDEN,
    VISIBLE,
    Animal,
    LabelledImage,
    LabelSet,
    Result,
    join_corrections,
    numbered,
    worth_labelling,
)
from geco.types import Skeleton

NAMES = ("nose", "tail")


def result(look, uncertainty):
    one = Animal(torch.zeros(2, 2), torch.full((2,), VISIBLE), None, "", None, torch.full((2,), uncertainty / 2))
    return Result(LabelledImage(Path("x.png"), (one,)), torch.nn.functional.normalize(torch.tensor(look), dim=0))


def test_the_first_choice_is_the_one_of_the_largest_gain_by_hand():
    labelled = torch.eye(3)[:1]
    results = [
        result((1.0, 0.1, 0.0), 0.9),
        result((0.0, 1.0, 0.0), 0.5),
        result((0.0, 0.9, 0.3), 0.5),
        result((0.0, 0.0, 1.0), 0.6),
    ]
    looks, errors = torch.stack([one.look for one in results]), torch.tensor([0.9, 0.5, 0.5, 0.6])
    known = looks[:, 0]
    gains = [float(((looks @ looks[i] - known).clamp(min=0) * errors).sum()) for i in range(4)]
    order = worth_labelling(results, labelled, 4)
    assert order[0] == max(range(4), key=gains.__getitem__) == 2
    assert order[1] == 3  # 1 looks like 2, which is labelled by then
    assert sorted(order) == [0, 1, 2, 3]
    assert worth_labelling(results, labelled, 2) == order[:2]
    assert worth_labelling([], labelled, 3) == []


def label_set(names=NAMES, **places):
    images = [
        LabelledImage(Path(f"{name}.png"), (Animal(torch.tensor(xy, dtype=torch.float32), torch.tensor(state)),))
        for name, (xy, state) in places.items()
    ]
    return LabelSet(Skeleton(names, (0, 1), (0, 1)), images)


LABELS = label_set(a=([[1, 1], [2, 2]], [2, 2]))
BEFORE = label_set(b=([[3, 3], [4, 4]], [2, 1]), c=([[5, 5], [6, 6]], [2, 2]))


def names(labels):
    return [image.path.stem for image in labels.images]


def test_of_a_file_with_all_images_only_those_that_differ_are_corrections():
    moved = label_set(b=([[3.4, 3], [9, 9]], [2, 1]), c=([[5, 8], [6, 6]], [2, 2]))
    labels, counts = join_corrections(LABELS, [moved], BEFORE)
    assert (names(labels), counts) == (["a", "c"], [1])
    shown = label_set(b=([[3, 3], [4, 4]], [2, 2]), c=([[5, 5], [6, 6]], [2, 2]))
    assert names(join_corrections(LABELS, [shown], BEFORE)[0]) == ["a", "b"]
    with pytest.raises(InputError, match="unchanged"):
        join_corrections(LABELS, [BEFORE], BEFORE)


def test_of_a_file_with_some_images_all_are_corrections_and_the_latest_counts():
    checked = label_set(b=([[3, 3], [4, 4]], [2, 1]))
    later = label_set(b=([[7, 7], [4, 4]], [2, 1]), a=([[0, 0], [2, 2]], [2, 2]))
    labels, counts = join_corrections(LABELS, [checked, later], BEFORE)
    assert counts == [1, 2]
    found = {image.path.stem: image.animals[0].xy[0].tolist() for image in labels.images}
    assert found == {"a": [0, 0], "b": [7, 7]}
    assert len(labels.images) == 2


def test_keypoints_are_told_by_their_names():
    swapped = label_set(("tail", "nose"), b=([[4, 4], [3, 3]], [HIDDEN, VISIBLE]))
    labels, _ = join_corrections(LABELS, [swapped], BEFORE)
    one = labels.images[-1].animals[0]
    assert (one.xy.tolist(), one.state.tolist()) == ([[3, 3], [4, 4]], [VISIBLE, HIDDEN])
    with pytest.raises(InputError, match="other keypoints than the labels: ear, tail"):
        join_corrections(LABELS, [label_set(("nose", "ear"), b=([[4, 4], [3, 3]], [2, 2]))], None)


def test_files_of_rounds():
    assert [str(numbered(Path("out/all.json"), number)) for number in (1, 2)] == ["out/all.json", "out/all-round2.json"]
    assert replace(LABELS, images=[]).labelled == 0
