"""Answers against the one-line functions, mirror twins against a mirrored image, strokes against distances."""

import pytest
import torch
from tiny_model import fresh

import geco
from geco import api
from geco.demo import answers
from geco.demo.answers import Stroke
from geco.demo.board import Spot
from geco.demo.settings import AppSettings
from geco.demo.uploads import of_pixels
from geco.errors import InputError

SPOTS = [Spot(1, "a", 30.0, 40.0), Spot(2, "b", 100.5, 12.25)]


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return fresh(tiny_folder)


def smooth(seed, height=90, width=120):
    noise = torch.rand(1, 3, 9, 12, generator=torch.Generator().manual_seed(seed))
    return (torch.nn.functional.interpolate(noise, (height, width), mode="bicubic").clamp(0, 1) * 255).byte()[0]


@pytest.fixture(scope="module")
def pair():
    return tuple(of_pixels(smooth(seed), f"{seed}.jpg", AppSettings()) for seed in (0, 1))


def test_answers_are_those_of_transfer_and_heatmap(encoder, pair):
    settings = answers.settings_of(encoder, 0.9)
    found = answers.locate(encoder, settings, pair, SPOTS)
    places = [(spot.x, spot.y) for spot in SPOTS]
    expected = geco.transfer(pair[0].pixels, pair[1].pixels, places, model=encoder, settings=settings)
    for answer, match in zip(found, expected, strict=True):
        assert (answer.x, answer.y) == pytest.approx(match.target)
        assert (answer.score, answer.visible) == (pytest.approx(match.score, abs=1e-6), match.visible)
    heat = answers.heat(encoder, settings, pair, SPOTS[0])
    torch.testing.assert_close(
        heat, geco.heatmap(pair[0].pixels, pair[1].pixels, places[0], model=encoder, settings=settings)
    )
    assert answers.locate(encoder, settings, pair, []) == []


def test_an_image_that_was_scaled_down_answers_in_its_own_pixels(encoder, pair):
    settings = answers.settings_of(encoder)
    small = of_pixels(pair[1].pixels, "small", AppSettings(side=64))
    assert small.shown == (48, 64)
    (answer,) = answers.locate(encoder, settings, (small, small), [SPOTS[0]])
    assert (answer.x, answer.y) == pytest.approx((SPOTS[0].x, SPOTS[0].y), abs=2)
    assert answer.score == pytest.approx(1, abs=0.02)


def test_the_twin_of_a_point_is_the_point_itself_in_the_mirrored_image(encoder, pair):
    mirrored = of_pixels(pair[0].pixels.flip(-1), "mirrored", AppSettings())
    found = answers.locate(encoder, answers.settings_of(encoder), (pair[0], mirrored), SPOTS, twins=True)
    for answer, spot in zip(found, SPOTS, strict=True):
        assert answer.score == pytest.approx(1, abs=1e-2)
        assert (answer.x, answer.y) == pytest.approx((120 - spot.x, spot.y), abs=1.1)


def test_matches_for_pictures_are_in_the_pixels_that_are_kept(encoder, pair):
    small = of_pixels(pair[1].pixels, "small", AppSettings(side=64))
    found = answers.locate(encoder, answers.settings_of(encoder), (pair[0], small), SPOTS)
    matches = answers.as_matches((pair[0], small), SPOTS, found)
    assert matches.source.tolist() == [[spot.x, spot.y] for spot in SPOTS]
    assert matches.target[0].tolist() == pytest.approx([found[0].x * 64 / 120, found[0].y * 48 / 90], rel=1e-5)


def test_strokes_cover_what_is_near_their_line(pair):
    line = ((20.0, 20.0), (80.0, 60.0))
    labels = answers.painted(pair[0], [Stroke(2, 6.0, line), Stroke(1, 4.0, ((100.0, 70.0),))])
    y, x = torch.meshgrid(torch.arange(90) + 0.5, torch.arange(120) + 0.5, indexing="ij")
    (x0, y0), (x1, y1) = line
    along = (((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2)).clamp(0, 1)
    distance = torch.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0))
    assert (labels[distance < 5] == 2).all()
    around = torch.hypot(x - 100, y - 70)
    assert (labels[around < 3] == 1).all()
    assert (labels[(distance > 8) & (around > 6)] == -1).all()


def test_parts_are_those_of_label(encoder, pair):
    strokes = [Stroke(1, 8.0, ((20.0, 20.0), (50.0, 20.0))), Stroke(2, 8.0, ((90.0, 70.0),))]
    found = answers.parts(encoder, pair[0], strokes, pair)
    labels = answers.painted(pair[0], strokes).clamp_min(0)
    expected = api.label([(pair[0].pixels, labels)], [image.pixels for image in pair], model=encoder)
    for own, other in zip(found, expected, strict=True):
        assert torch.equal(own, other)
    assert set(found[0].unique().tolist()) == {0, 1, 2}


def test_painted_background_is_the_only_background(encoder, pair):
    strokes = [Stroke(1, 8.0, ((20.0, 20.0),)), Stroke(0, 8.0, ((90.0, 70.0),))]
    (painted,) = answers.parts(encoder, pair[0], strokes, pair[:1])
    assert painted[20, 20] == 1
    assert painted[70, 90] == 0
    with pytest.raises(InputError, match="no part is painted yet"):
        answers.parts(encoder, pair[0], strokes[1:], pair)
