"""Streams of images: what one at a time gives, read ahead; sizes that keep the ratio; drafts of large JPEG files."""

import threading
import warnings
from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

import geco
from geco import geometry, images
from geco.errors import InputError
from geco.models import Geco
from geco.models.settings import EncoderConfig


@pytest.fixture(scope="module")
def model(tiny_folder):
    return geco.load(tiny_folder, size=56, device="cpu")


@pytest.fixture(scope="module")
def fitting(tiny_folder):
    return geco.load(tiny_folder, size=56, resize="fit", device="cpu")


@pytest.fixture
def image_files(image_file):
    return [image_file(f"{n}.jpg", (60 + 9 * n, 90 - 7 * n), seed=n) for n in range(5)]


@pytest.mark.parametrize("name", ["model", "fitting"])
@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_a_stream_gives_what_each_image_gives_alone(request, image_files, name, batch_size):
    encoder = request.getfixturevalue(name)
    for path, found in zip(image_files, encoder.extract_stream(image_files, batch_size=batch_size), strict=True):
        pixels = images.read(path)
        size = encoder.seen_at((pixels.shape[-2], pixels.shape[-1]))
        with torch.inference_mode():
            expected = encoder(pixels=images.prepare(pixels, size)[None])[0]
        assert_close(found.values, expected, atol=1e-5, rtol=1e-5)
        assert found.size == images.size_of(path)
        assert not found.values.is_inference()


def test_images_before_a_damaged_one_are_given(model, image_files):
    image_files[3].write_bytes(image_files[3].read_bytes()[:200])
    stream = model.extract_stream(image_files, batch_size=1)
    assert len(list(islice(stream, 3))) == 3
    with pytest.raises(InputError, match="damaged"):
        next(stream)


def test_reading_ahead_leaves_neither_threads_nor_filters(model, image_files):
    before = list(warnings.filters)
    stream = model.extract_stream(image_files * 3, batch_size=2)
    next(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(stream)
        with pytest.raises(UserWarning, match="heard"):
            warnings.warn("heard", UserWarning, stacklevel=1)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("geco-ahead")]
    assert list(warnings.filters) == before


# --- drafts -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path, image_file):
    path = tmp_path / "large.jpg"
    Image.open(image_file(size=(60, 40))).resize((1200, 800), Image.Resampling.BICUBIC).save(path, quality=95)
    return path


def test_a_draft_is_a_fraction_of_the_size_and_no_smaller_than_asked(large, tmp_path):
    whole = images.read(large)
    assert images.read_reduced(large, least=(112, 112)).shape == (3, 100 * 2, 150 * 2)
    assert images.read_reduced(large, least=(801, 801)).equal(whole)
    for least in (50, 101, 250):
        reduced = images.read_reduced(large, least=(least, least))
        assert min(reduced.shape[1:]) >= least
        nearest = geometry.resize_image(whole, (reduced.shape[1], reduced.shape[2]))
        assert (reduced.float() - nearest).abs().mean() < 2
    Image.open(large).save(tmp_path / "large.png")
    assert images.read_reduced(tmp_path / "large.png", least=(50, 50)).equal(images.read(tmp_path / "large.png"))


def test_features_of_a_draft_are_near_and_have_the_images_size(model, large):
    whole, draft = model.extract(large), model.extract_batch([large], draft=True)[0]
    assert draft.size == whole.size == (800, 1200)
    assert not draft.values.equal(whole.values)
    assert (draft.unit().values * whole.unit().values).sum(0).min() > 0.99
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.open(large).save(large, exif=turned, quality=95)
    assert model.extract_batch([large], draft=True)[0].size == (1200, 800)


def test_small_images_arrays_and_bytes_are_no_drafts(model, image_files):
    for given_as in (image_files[0], images.read(image_files[0]), image_files[0].read_bytes()):
        assert model.extract_batch([given_as], draft=True)[0].values.equal(model.extract(given_as).values)


# --- the ratio of the sides -------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    height=st.integers(8, 5000),
    width=st.integers(8, 5000),
    side=st.sampled_from([56, 280, 518]),
    multiple=st.sampled_from([8, 14, 16]),
)
def test_sides_that_keep_the_ratio(height, width, side, multiple):
    rows, columns = (edge // multiple for edge in images.keep_aspect((height, width), side=side, multiple=multiple))
    cells = (side / multiple) ** 2
    assert images.keep_aspect((width, height), side=side, multiple=multiple) == (columns * multiple, rows * multiple)
    assert rows * columns >= 1
    exact = (cells * height / width) ** 0.5, (cells * width / height) ** 0.5
    if min(exact) >= 1:  # not longer than what can be kept
        assert abs(rows - exact[0]) <= 0.5
        assert abs(columns - exact[1]) <= 0.5
        assert rows * columns <= cells + 0.5 * sum(exact) + 0.25
    else:
        assert min(rows, columns) == 1
        assert max(rows, columns) <= round(cells)


@settings(max_examples=100, deadline=None)
@given(height=st.integers(8, 900), width=st.integers(8, 900), seed=st.integers(0, 99))
def test_points_map_exactly_both_ways(height, width, seed):
    """Image → input → image is the identity, and cells of the grid are where the input's patches are."""
    to = images.keep_aspect((height, width), side=280, multiple=14)
    xy = torch.rand(6, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    xy = xy * torch.tensor([width, height], dtype=torch.float64)
    there = geometry.resize_points(xy, size=(height, width), to=to)
    assert_close(geometry.resize_points(there, size=to, to=(height, width)), xy)
    grid = (to[0] // 14, to[1] // 14)
    assert geometry.cells(xy, size=(height, width), grid=grid).equal(geometry.cells(there, size=to, grid=grid))


def test_a_fitted_image_finds_itself(fitting, image_files):
    points = [(10.5, 20.5), (40.5, 30.5)]
    found = geco.transfer(image_files[4], image_files[4], points, model=fitting)
    assert_close(found.score, torch.ones(2))
    assert ((found.target - found.source).abs() <= 1).all()
    rows, columns = fitting.extract(image_files[4]).grid
    assert rows < columns


def test_the_ratio_is_part_of_the_configuration_and_of_the_fingerprint(model, fitting, tiny_folder, tmp_path):
    assert model.fingerprint() != fitting.fingerprint()
    assert EncoderConfig.from_json(fitting.config.to_json()) == fitting.config
    saved = fitting.save_pretrained(tmp_path / "fitting")
    again = Geco.from_pretrained(saved, device="cpu")
    assert again.config.aspect == "fit"
    assert geco.load(saved, device="cpu", resize="squash").config.aspect == "squash"
    with pytest.raises(InputError, match="resize must be squash or fit, got 'stretch'"):
        geco.load(tiny_folder, resize="stretch")
    with pytest.raises(InputError, match="aspect must be squash or fit"):
        EncoderConfig(aspect="stretch")
