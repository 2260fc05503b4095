"""Warped images: their points are where they are said to be."""

import pytest
import torch

from geco.errors import InputError
from geco.export import share_found, warped_pairs
from geco.export.settings import WarpSettings
from geco.types import FeatureMap


def gradient(height=200, width=240):
    """An image whose red is x and whose green is y of each pixel's centre, in pixels."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([x, y, torch.zeros_like(x)]).to(torch.uint8)


def test_colours_at_the_places_tell_the_points_they_came_from():
    """Light and contrast change colours by one affine map, which is fitted; the rest is where each colour came from."""
    for pair in warped_pairs([gradient()], WarpSettings(warps=5, seed=1)):
        column, row = pair.places.floor().long().unbind(-1)
        inner = (pair.points > 3).all(-1) & (pair.points < torch.tensor([237.0, 197.0])).all(-1)
        for channel in (0, 1):
            seen = pair.target[channel, row, column].float()
            clear = inner & (seen > 2) & (seen < 253)
            known = torch.stack([pair.points[clear, channel], torch.ones(int(clear.sum()))], 1)
            fitted = torch.linalg.lstsq(known, seen[clear, None]).solution
            assert clear.sum() > 20
            assert float((known @ fitted - seen[clear, None]).abs().max()) < 2  # of a slope of a few pixels
        assert not torch.equal(pair.source, pair.target)


def test_without_a_warp_every_point_stays():
    still = WarpSettings(warps=1, rotation=0.0, shift=0.0)
    (pair,) = warped_pairs([gradient()], still)
    assert torch.allclose(pair.points, pair.places, atol=1e-3)
    assert len(pair.points) == still.points**2
    assert len(warped_pairs([gradient(40, 50)] * 9, WarpSettings(images=2, warps=3, points=2))) == 2 * 3


class Still:
    """An encoder that takes every image for the same: a descriptor is where it is, so no point seems to move."""

    name, threshold, dim, stride, device = "still", 0.0, 20 * 24, 16, torch.device("cpu")

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            yield FeatureMap(torch.eye(20 * 24).reshape(-1, 20, 24), tuple(picture.shape[-2:]))

    def fingerprint(self):
        return "still"


def test_the_share_that_is_found_is_that_of_points_near_their_places():
    settings = WarpSettings(warps=3, radii=(0.15, 0.05))
    pairs = warped_pairs([gradient()], settings)
    moved = torch.cat([(pair.points - pair.places).norm(dim=-1) for pair in pairs]) / 240
    shares = share_found(Still(), pairs, settings)
    assert list(shares) == ["PCK@0.15", "PCK@0.05"]
    for radius in settings.radii:
        low, high = (100 * float((moved <= radius + slack).float().mean()) for slack in (-0.01, 0.01))  # 2 pixels
        assert low <= shares[f"PCK@{radius:g}"] <= high
    assert 10 < shares["PCK@0.15"] < 99
    with pytest.raises(InputError, match="no points"):
        share_found(Still(), [], settings)
