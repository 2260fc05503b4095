"""Outlines of COCO annotations: run lengths come back, polygons cover the pixels whose centres they hold."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geco.data import OutlinedViews
from geco.data.outlines import decode
from geco.types import View


def encode_runs(mask):
    """Run lengths down the columns, by walking."""
    counts, value = [0], False
    for pixel in mask.T.flatten().tolist():
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


def encode_text(counts):
    """COCO's text of run lengths, from its description: 5 bits a character, differences from the fourth on."""
    text = ""
    for i, count in enumerate(counts):
        value = count - (counts[i - 2] if i > 2 else 0)
        while True:
            bits = value & 0x1F
            value >>= 5
            more = value != (-1 if bits & 0x10 else 0)
            text += chr(48 + (bits | (0x20 if more else 0)))
            if not more:
                break
    return text


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_run_lengths_come_back(height, width, seed, share):
    mask = np.random.default_rng(seed).random((height, width)) < share
    counts = encode_runs(mask)
    for written in (counts, encode_text(counts)):
        mask_again = decode({"size": [height, width], "counts": written}, (height, width), "here")
        assert torch.equal(mask_again, torch.from_numpy(mask))


def test_polygons_cover_the_pixels_whose_centres_they_hold():
    triangle = [4.3, 2.1, 30.7, 11.9, 9.2, 27.6]
    x, y = np.meshgrid(np.arange(40) + 0.5, np.arange(30) + 0.5)
    inner = []  # pixels from each side, positive inside
    for i in range(3):
        ax, ay, bx, by = (triangle * 2)[2 * i : 2 * i + 4]
        inner.append(((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / np.hypot(bx - ax, by - ay))
    depth = np.minimum.reduce(inner)
    covered = decode([triangle], (30, 40), "here").numpy()
    assert covered[depth > 0.2].all()
    assert not covered[depth < -0.2].any()
    assert covered.sum() > 200


@pytest.mark.parametrize(
    ("outline", "message"),
    [
        ([[1, 2, 3]], "here: a polygon needs at least three points"),
        ({"counts": [3]}, "here: the run lengths cover 3 pixels, the image 2×2"),
        ("box", "here: segmentation should be a list of polygons or {size, counts}"),
    ],
)
def test_a_wrong_outline_is_explained(outline, message):
    with pytest.raises(ValueError, match=message):
        decode(outline, (2, 2), "here")


def test_views_decode_their_outline_when_they_are_needed():
    views = [View(Path(f"{i}.jpg"), (4, 6), name=str(i)) for i in range(5)]
    square = [[1, 1, 4, 1, 4, 3, 1, 3]]
    outlined = pickle.loads(pickle.dumps(OutlinedViews(views, {1: (square, "here"), 4: (square, "here")})))
    expected = torch.zeros(4, 6, dtype=torch.bool)
    expected[1:3, 1:4] = True
    assert [view.mask is not None for view in outlined] == [False, True, False, False, True]
    assert torch.equal(outlined[1].mask, expected)
    assert torch.equal(outlined[-1].mask, expected)
    assert [view.mask is not None for view in outlined[1:3]] == [True, False]
    with pytest.raises(IndexError):
        outlined[5]
