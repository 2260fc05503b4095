"""Datasets made from datasets: entries spread evenly, masks of a folder, boxes as masks."""

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from dataset_trees import write_image

from geco import data, geometry, images, masks
from geco.data.derived import SelectedPairs
from geco.types import Keypoints, Skeleton, View

EYES = Skeleton(("left eye", "right eye"), (1, 0), (1, 0))


class PartViews(list):
    """Views with part maps; a list is a sequence."""

    listed = 4000

    def __init__(self, count):
        super().__init__(View(Path(f"{i}.jpg"), (8, 8), name=str(i)) for i in range(count))
        self.categories = [("cat", "dog", "cow")[i * 3 // count] for i in range(count)]

    @property
    def skeletons(self):
        return dict.fromkeys(("cow", "cat", "dog"), EYES)


def view(number, box=(1.0, 1.0, 5.0, 5.0)):
    points = Keypoints(torch.tensor([[2.0, 2.0], [float(number), 4.0]]), torch.tensor([True, True]))
    return View(Path(f"{number}.jpg"), (8, 8), points, torch.tensor(box), name=str(number))


def chain(count):
    """Pairs (0, 1), (1, 2), …; the second half are cows."""
    rows = [(i, i + 1) for i in range(count)]
    categories = ["cat" if i < count / 2 else "cow" for i in range(count)]
    return data.Pairs([view(i) for i in range(count + 1)], rows, categories, [EYES] * count)


@pytest.mark.parametrize(("length", "count"), [(1999, 1000), (10, 3), (7, 7), (5, 1), (1000, 999)])
def test_entries_are_spread_evenly(length, count):
    numbers = [i * length // count for i in range(count)]
    pairs, parts = data.spread(chain(length), count), data.spread(PartViews(length), count)
    assert [int(pair.source.name) for pair in pairs] == numbers
    assert [int(part.name) for part in parts] == numbers
    assert len(pairs) == len(parts) == count
    gaps = {after - before for before, after in pairwise(numbers)}
    assert len(gaps) <= 2
    assert max(gaps, default=1) - min(gaps, default=1) <= 1


def test_1000_of_1999_are_not_the_first_1000():
    assert int(data.spread(chain(1999), 1000)[999].source.name) == 1997


def test_a_selection_has_its_own_views_categories_and_skeletons():
    pairs = data.spread(chain(100), 4)
    assert isinstance(pairs, data.PairDataset)
    assert [view.name for view in pairs.views] == ["0", "1", "25", "26", "50", "51", "75", "76"]
    assert pairs.categories == ("cat", "cat", "cow", "cow")
    assert tuple(pair.category for pair in pairs) == pairs.categories
    neighbours = SelectedPairs(chain(10), [3, 4])
    assert [view.name for view in neighbours.views] == ["3", "4", "5"], "each once"
    assert neighbours.views[-1].name == "5"
    parts = data.spread(PartViews(90), 2)
    assert isinstance(parts, data.PartDataset)
    assert parts.categories == ("cat", "dog")
    assert list(parts.skeletons) == ["cat", "dog"], "no cow was selected"
    assert parts.listed == 4000


def test_views_with_other_annotations_are_other_views():
    first, other = view(0), replace(view(0), keypoints=view(3).keypoints)
    pairs = data.Pairs([first, other, view(1)], [(0, 2), (1, 2), (2, 0)], ["cat"] * 3, [EYES] * 3)
    assert len(SelectedPairs(pairs, [0, 1]).views) == 3


def test_selections_are_lazy_and_can_be_pickled():
    class Counting(data.Pairs):
        calls = 0

        def __getitem__(self, index):
            type(self).calls += 1
            return super().__getitem__(index)

    whole = chain(50)
    counted = Counting(whole.views, [(i, i + 1) for i in range(50)], whole.categories, [EYES] * 50)
    selection = data.spread(counted, 5)
    assert Counting.calls < 20, "the type checker of these tests looks at some, nobody at all of them"
    assert selection[-1].source.name == "40"
    again = pickle.loads(pickle.dumps(data.spread(whole, 5)))
    assert [view.name for view in again.views] == [view.name for view in selection.views]
    with pytest.raises(IndexError):
        selection[5]


def test_few_entries_are_all_and_none_is_a_mistake():
    pairs = chain(3)
    assert data.spread(pairs, 3) is pairs
    assert data.spread(pairs, 10) is pairs
    with pytest.raises(ValueError, match="expected at least one entry, got 0"):
        data.spread(pairs, 0)


# --- masks ----------------------------------------------------------------------------------------


def test_masks_of_a_folder(tmp_path):
    pairs = chain(3)
    views = [replace(entry, image=write_image(tmp_path / entry.image, (8, 8))) for entry in pairs.views]
    pairs = data.Pairs(views, [(0, 1), (1, 2), (2, 3)], pairs.categories, [EYES] * 3)
    with pytest.raises(FileNotFoundError, match="no such folder; make the masks with `geco masks`"):
        data.attach_masks(pairs, tmp_path / "masks")
    masks.make(views[:3], masks.box, tmp_path / "masks", record={"maker": "box"})
    with pytest.raises(FileNotFoundError, match=r"has no mask for 1 of 4 instances, 3@1-1-5-5.png for one"):
        data.attach_masks(pairs, tmp_path / "masks")
    selected = pickle.loads(pickle.dumps(data.attach_masks(data.spread(pairs, 2), str(tmp_path / "masks"))))
    assert isinstance(selected, data.PairDataset)
    assert len(selected) == 2
    assert selected.categories == ("cat", "cat")
    assert int(images.load_view(selected[1].target).mask.sum()) == 16
    assert [entry.mask.path.name for entry in selected.views] == [f"{i}@1-1-5-5.png" for i in (0, 1, 2)]
    shipped = torch.ones(8, 8, dtype=torch.bool)
    own = data.Pairs([*views[:3], replace(views[3], mask=shipped)], [(2, 3)], ["cat"], [EYES])
    (pair,) = data.attach_masks(own, tmp_path / "masks", keep_own=True)
    assert pair.source.mask.path.name == "2@1-1-5-5.png"
    assert pair.target.mask is shipped


def test_boxes_as_masks_have_the_size_and_window_of_their_view(tmp_path):
    path = write_image(tmp_path / "a.jpg", (60, 80))
    whole = View(path, (60, 80), view(0).keypoints, torch.tensor([20.0, 10.0, 60.0, 40.0]), name="a")
    square = data.squared(whole, margin=0.05)
    pairs = data.attach_masks(data.Pairs([whole, square], [(0, 1)], ["cat"], [EYES]), "box")
    source, target = images.load_view(pairs[0].source), images.load_view(pairs[0].target)
    assert int(source.mask.sum()) == 40 * 30
    assert source.mask[10:40, 20:60].all()
    assert target.mask.shape == (44, 44)
    assert torch.equal(target.mask, geometry.cut(source.mask, square.window.box, beyond="zero"))
    assert torch.equal(pairs.views[1].mask, target.mask)


def test_a_view_without_a_box_is_named_at_once():
    boxless = replace(view(1), box=None)
    with pytest.raises(ValueError, match="1 has no box to take as its mask; make masks with `geco masks`"):
        data.attach_masks(data.Pairs([view(0), boxless], [(0, 1)], ["cat"], [EYES]), "box")
    shipped = replace(boxless, mask=torch.ones(8, 8, dtype=torch.bool))
    for source, keep_own in (("box", True), ("own-or-box", False)):
        pairs = data.attach_masks(data.Pairs([view(0), shipped], [(0, 1)], ["cat"], [EYES]), source, keep_own=keep_own)
        assert pairs[0].target.mask.all()
        assert int(pairs[0].source.mask.sum()) == 16, "its box"


def test_parts_take_masks_too():
    parts = PartViews(6)
    parts[:] = [replace(entry, box=torch.tensor([0.0, 0.0, 4.0, 2.0])) for entry in parts]
    masked = data.attach_masks(parts, "box")
    assert isinstance(masked, data.PartDataset)
    assert [int(entry.mask.sum()) for entry in masked] == [8] * 6
    assert (masked.categories, masked.skeletons, masked.listed) == (parts.categories, parts.skeletons, 4000)
