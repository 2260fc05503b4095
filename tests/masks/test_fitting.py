"""Masks that hold their keypoints: laws on random maps, and the cases that each rule is for."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage
from segmented import bright_disc, brightness_network, disc

from geco import masks
from geco.masks.fitting import fit
from geco.masks.settings import MaskSettings
from geco.types import Keypoints, View

SETTINGS = MaskSettings(hold_keypoints=True)
SIZE = (40, 60)


def view(*points: tuple[float, float], hidden: tuple[tuple[float, float], ...] = ()) -> View:
    xy = torch.tensor([*points, *hidden], dtype=torch.float32)
    visible = torch.tensor([True] * len(points) + [False] * len(hidden))
    image = torch.zeros(3, *SIZE, dtype=torch.uint8)
    return View(image, SIZE, Keypoints(xy, visible), torch.tensor([5.0, 5.0, 55.0, 35.0]), name="made up")


def holds(mask: torch.Tensor, x: float, y: float) -> bool:
    return bool(mask[min(int(y), SIZE[0] - 1), min(int(x), SIZE[1] - 1)])


def pieces(mask: torch.Tensor) -> int:
    return ndimage.label(mask.numpy(), structure=[[1, 1, 1]] * 3)[1]


@given(
    seed=st.integers(0, 10_000),
    points=st.lists(st.tuples(st.floats(0, 60, width=32), st.floats(0, 40, width=32)), min_size=1, max_size=6),
)
def test_every_visible_keypoint_is_on_the_mask(seed, points):
    coarse = torch.rand(1, 1, 5, 7, generator=torch.Generator().manual_seed(seed))
    salient = torch.nn.functional.interpolate(coarse, SIZE, mode="bilinear")[0, 0]
    mask = fit(salient, view(*points), SETTINGS)
    assert mask.shape == SIZE
    assert all(holds(mask, x, y) for x, y in points)


def test_where_the_plain_threshold_holds_all_keypoints_nothing_changes():
    salient = disc(*SIZE, (30, 20), 12).float()
    assert torch.equal(fit(salient, view((30, 20), (35, 22), hidden=((2, 2),)), SETTINGS), salient > 0.5)


def test_the_threshold_is_lowered_until_the_keypoints_are_in_but_not_below_the_lowest():
    salient = 0.3 * disc(*SIZE, (30, 20), 12).float()
    salient[disc(*SIZE, (30, 20), 4)] = 1.0
    assert torch.equal(fit(salient, view((30, 20), (39, 20)), SETTINGS), disc(*SIZE, (30, 20), 12))
    faint = salient.where(salient > 0.5, salient / 10)  # 0.03 is background: the keypoint is reached by a stroke
    mask = fit(faint, view((30, 20), (39, 20)), SETTINGS)
    assert holds(mask, 39, 20)
    assert mask.sum() < 2 * disc(*SIZE, (30, 20), 4).sum()


def test_pieces_without_a_keypoint_are_left_out():
    animal, other = disc(*SIZE, (15, 20), 8), disc(*SIZE, (45, 20), 8)
    mask = fit((animal | other).float(), view((15, 20), (18, 22)), SETTINGS)
    assert torch.equal(mask, animal)


def test_where_nothing_stands_out_the_keypoints_are_joined_by_strokes():
    points = ((10, 10), (50, 10), (30, 30), (12, 12))
    mask = fit(torch.zeros(SIZE), view(*points), SETTINGS)
    assert all(holds(mask, *point) for point in points)
    assert pieces(mask) == 1
    assert mask.float().mean() < 0.15  # a tree of strokes, not a hull
    assert holds(mask, 30, 10) or holds(mask, 40, 20)  # one of the ways between the far points


def test_without_visible_keypoints_it_is_the_plain_threshold():
    salient = torch.rand(SIZE, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fit(salient, view(hidden=((3.0, 3.0),)), SETTINGS), salient > 0.5)
    assert torch.equal(fit(salient, replace(view((3, 3)), keypoints=None), SETTINGS), salient > 0.5)


def test_a_saliency_network_may_be_asked_to_hold_the_keypoints(tmp_path: Path) -> None:
    seen = bright_disc()
    far = replace(seen.keypoints, xy=torch.tensor([[50.0, 25.0], [70.0, 25.0], [3.0, 3.0]]))
    path = brightness_network(tmp_path / "net.onnx")
    plain = masks.Saliency(path, MaskSettings())(replace(seen, keypoints=far))
    holding = masks.Saliency(path, SETTINGS)(replace(seen, keypoints=far))
    assert not plain[25, 70]
    assert holding[25, 70]
    assert not holding[3, 3]  # hidden
    assert (holding | plain).sum() < 1.3 * plain.sum()


@pytest.mark.parametrize("name", ["lowest", "stroke"])
def test_nonsense_is_refused(name):
    with pytest.raises(ValueError, match=name):
        MaskSettings(**{name: -1})
