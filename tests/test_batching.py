"""Batches: stacked, joined, picked from and moved without losing a field."""

import pytest
import torch

from geco import batching
from geco.types import Keypoints, Pair, Skeleton, View

EYES = Skeleton(("left", "right"), (1, 0), (1, 0))


def view(name, k=2, size=(4, 6)):
    generator = torch.Generator().manual_seed(len(name))
    points = Keypoints(torch.rand(k, 2, generator=generator), torch.ones(k, dtype=torch.bool))
    return View(torch.rand(3, *size, generator=generator), size, points, name=name)


def pair(name):
    return Pair(view(f"{name} source"), view(f"{name} target!"), EYES, name)


def test_picking_undoes_stacking():
    pairs = [pair("cat"), pair("horse"), pair("cow")]
    batch = batching.stack(pairs)
    again = batching.pick(batch, torch.tensor([2, 0]))
    assert again.category == ("cow", "cat")
    assert again.source.name == ("cow source", "cat source")
    assert again.target.pixels[0].equal(pairs[2].target.pixels)
    assert again.source.points.xy[1].equal(pairs[0].source.points.xy)


def test_joining_is_stacking_all():
    first, second = [pair("cat"), pair("horse")], [pair("cow")]
    joined = batching.join(batching.stack(first), batching.stack(second))
    whole = batching.stack([*first, *second])
    assert joined.category == whole.category
    assert joined.skeletons == (EYES,) * 3
    assert joined.source.pixels.equal(whole.source.pixels)
    assert joined.target.points.xy.equal(whole.target.points.xy)


def test_moving_keeps_what_is_no_tensor():
    moved = batching.move(batching.stack([pair("cat")]), "cpu")
    assert moved.category == ("cat",)
    assert moved.source.size == (4, 6)


def test_collating_leaves_out_what_some_views_lack():
    boxed = pair("cat")
    with_box = Pair(View(**{**vars(boxed.source), "box": torch.zeros(4)}), boxed.target, EYES, "cat")
    assert batching.collate([with_box, pair("horse")]).source.box is None


def test_views_of_different_size_cannot_be_stacked():
    with pytest.raises((ValueError, RuntimeError), match="size"):
        batching.stack([view("a", size=(4, 6)), view("b", size=(6, 4))])
