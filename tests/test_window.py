"""A view of a part of an image: annotations are the window's at once, pixels when the file is read."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from dataset_trees import write_image, write_mask
from hypothesis import given, settings
from hypothesis import strategies as st

from geco import geometry, images
from geco.batching import stack
from geco.types import Keypoints, MaskFile, View, Window

SIZE = (40, 60)


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    folder = tmp_path_factory.mktemp("window")
    mask = np.zeros(SIZE)
    mask[10:30, 20:50] = 255
    return View(
        write_image(folder / "photo.png", SIZE),
        SIZE,
        Keypoints(torch.tensor([[25.5, 15.5], [59.5, 39.5], [1.0, 1.0]]), torch.tensor([True, True, False])),
        torch.tensor([20.0, 10.0, 50.0, 30.0]),
        MaskFile(write_mask(folder / "mask.png", mask)),
        name="photo",
    )


windows = st.tuples(st.integers(-20, 55), st.integers(-20, 35), st.integers(1, 50), st.integers(1, 50))


@settings(max_examples=60, deadline=None)
@given(windows)
def test_framing_then_reading_is_reading_then_cropping(view, window):
    x0, y0, width, height = window
    box = (x0, y0, x0 + width, y0 + height)
    framed = geometry.frame(view, box)
    late, early = images.load_view(framed), geometry.crop(images.load_view(view), box)
    assert framed.size == late.size == early.size == (height, width)
    for one, other in ((late.image, early.image), (late.mask, early.mask), (late.box, early.box)):
        assert torch.equal(one, other)
    assert torch.equal(framed.keypoints.xy, early.keypoints.xy)
    assert torch.equal(framed.keypoints.visible, early.keypoints.visible)
    assert late.window is None


@settings(max_examples=40, deadline=None)
@given(windows)
def test_cut_against_numpy_padding(view, window):
    x0, y0, width, height = window
    whole = images.load_view(view)
    wide = 120
    for pixels, beyond, mode in ((whole.image, "edge", "edge"), (whole.mask, "zero", "constant")):
        padded = np.pad(pixels.numpy(), [(0, 0)] * (pixels.ndim - 2) + [(wide, wide)] * 2, mode=mode)
        expected = padded[..., wide + y0 : wide + y0 + height, wide + x0 : wide + x0 + width]
        found = geometry.cut(pixels, (x0, y0, x0 + width, y0 + height), beyond=beyond)
        assert found.dtype == pixels.dtype
        assert np.array_equal(found.numpy(), expected)


def test_a_flipped_window_counts_in_the_mirrored_image(view):
    flipped = replace(view, window=Window((0, 0, 60, 40), SIZE, flipped=True))
    whole = images.load_view(view)
    assert torch.equal(images.load_view(flipped).image, whole.image.flip(-1))
    assert torch.equal(images.load_view(flipped).mask, whole.mask.flip(-1))
    corner = replace(view, size=(10, 20), mask=None, window=Window((0, 0, 20, 10), SIZE, flipped=True))
    assert torch.equal(images.load_view(corner).image, whole.image.flip(-1)[:, :10, :20])


def test_a_mask_of_the_window_alone(view, tmp_path):
    framed = geometry.frame(view, (10, 5, 40, 35))
    small = np.zeros((30, 30))
    small[:7] = 255
    path = write_mask(tmp_path / "small.png", small)
    loaded = images.load_view(replace(framed, mask=MaskFile(path, whole=False)))
    assert torch.equal(loaded.mask, torch.from_numpy(small > 0))
    with pytest.raises(ValueError, match=r"small.png: the mask is 30×30 .*its annotation says 40×60"):
        images.load_view(replace(framed, mask=MaskFile(path)))


def test_a_file_of_another_size_is_noticed(view):
    framed = geometry.frame(replace(view, size=(41, 60)), (0, 0, 10, 10))
    with pytest.raises(ValueError, match=r"photo.png: the image is 40×60 .*but its annotation says 41×60"):
        images.load_view(framed)


def test_views_with_windows_stack_once_read_and_pickle(view):
    framed = [pickle.loads(pickle.dumps(geometry.frame(view, (x, 0, x + 20, 20)))) for x in (0, 9)]
    batch = stack([images.load_view(one) for one in framed])
    assert batch.image.shape == (2, 3, 20, 20)
    with pytest.raises(ValueError, match="cannot stack items whose"):
        stack(framed)


def test_an_empty_window_is_refused(view):
    with pytest.raises(ValueError, match=r"a crop window needs x0 < x1 and y0 < y1, got \(5, 5, 5, 9\)"):
        geometry.frame(view, (5, 5, 5, 9))
