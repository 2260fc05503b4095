"""Every kind of picture a user may have, and every kind of file that is not one."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from geco import images
from geco.images import ImageLimits
from geco.types import MaskFile, View


def gradient(width=20, height=10):
    x = np.linspace(0, 255, width).astype(np.uint8)
    return np.stack(
        [np.tile(x, (height, 1)), np.full((height, width), 40, np.uint8), np.tile(x[::-1], (height, 1))], -1
    )


@pytest.fixture
def save(tmp_path):
    def write(image, name, **options):
        path = tmp_path / name
        image.save(path, **options)
        return path

    return write


def test_a_path_bytes_picture_array_and_tensor_give_the_same_pixels(save):
    pixels = gradient()
    path = save(Image.fromarray(pixels), "a.png")
    expected = torch.from_numpy(pixels).permute(2, 0, 1)
    for given in (path, str(path), path.read_bytes(), Image.open(path), pixels, expected, pixels / 255.0):
        found = images.read(given)
        assert found.dtype == torch.uint8
        assert found.equal(expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_honoured(save, orientation):
    """Pillow's own transposition is the oracle for the pixels, our header reader must agree with it on the size."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(Image.fromarray(gradient()), "turned.png", exif=exif)
    from PIL import ImageOps

    expected = np.array(ImageOps.exif_transpose(Image.open(path)))
    found = images.read(path)
    assert np.array_equal(found.permute(1, 2, 0).numpy(), expected)
    assert images.size_of(path) == expected.shape[:2]


def test_grey_bilevel_palette_and_cmyk_become_rgb(save):
    grey = Image.fromarray(gradient()[..., 0])
    for mode, ending in (("L", "png"), ("1", "png"), ("P", "png"), ("CMYK", "jpg")):
        found = images.read(save(grey.convert("RGB").convert(mode), f"{mode}.{ending}"))
        assert found.shape == (3, 10, 20)
        assert found[:, :, 0].float().mean() < found[:, :, -1].float().mean(), "dark on the left, bright on the right"


def test_sixteen_bits_are_scaled_not_clipped(save):
    values = np.tile(np.linspace(0, 65535, 20).astype(np.uint16), (10, 1))
    found = images.read(save(Image.fromarray(values), "deep.png"))
    expected = np.round(values / 257).astype(int)
    assert np.abs(found[0].numpy().astype(int) - expected).max() <= 1
    assert images.read(values)[0].equal(found[0])


def test_transparency_is_laid_over_white(save):
    layered = np.dstack([gradient(), np.zeros((10, 20), np.uint8)])
    assert (images.read(save(Image.fromarray(layered), "clear.png")) == 255).all()
    assert (images.read(layered) == 255).all()
    palette = Image.fromarray(gradient()).convert("P")
    assert images.read(save(palette, "p.png", transparency=0)).shape == (3, 10, 20)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an image"),
        (b"hello, I am a text file", "is not an image"),
    ],
)
def test_what_is_not_an_image_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "notes.jpg"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        images.read(path)
    assert "notes.jpg" in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_files_and_folders_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.jpg: no such file"):
        images.read(tmp_path / "nothing.jpg")
    with pytest.raises(ValueError, match="is a folder"):
        images.read(tmp_path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_truncated_file_is_called_damaged(tmp_path, kind):
    data = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(data, kind)
    path = tmp_path / "half.img"
    path.write_bytes(data.getvalue()[: len(data.getvalue()) // 2])
    with pytest.raises(ValueError, match="damaged or cut short"):
        images.read(path)


def test_sizes_beyond_the_limits_are_refused_before_decoding(save):
    one = save(Image.new("RGB", (1, 1)), "one.png")
    with pytest.raises(ValueError, match="1×1 pixels; an image needs at least 8"):
        images.read(one)
    large = save(Image.new("L", (10_000, 10_000)), "large.png")
    with pytest.raises(ValueError, match="100 megapixels, above the limit of 80"):
        images.read(large)
    bomb = save(Image.new("1", (20_000, 20_000)), "bomb.png")
    with pytest.raises(ValueError, match=r"too large|megapixels"):
        images.read(bomb)
    with pytest.raises(ValueError, match="limit of 0"):
        images.read(gradient(), limits=ImageLimits(megapixels=0.0001))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.full((9, 9, 3), np.nan), "NaN or infinity"),
        (np.full((9, 9, 3), 200.0), r"must lie in \[0, 1\], got \[200, 200\]; divide by 255"),
        (np.zeros((9, 9, 5), np.uint8), r"got \(9, 9, 5\)"),
        (np.zeros((9, 9, 3), np.int64), "uint8 or floating point"),
        (torch.zeros(9, 9, 3, dtype=torch.uint8), r"must be \(3, height, width\), got \(9, 9, 3\)"),
        (torch.zeros(2, 3, 9, 9), r"got \(2, 3, 9, 9\)"),
    ],
)
def test_wrong_arrays_say_what_was_expected(value, message):
    with pytest.raises(ValueError, match=message):
        images.read(value)


def test_masks_are_read_by_threshold_or_label(save):
    votes = np.zeros((10, 10), np.uint8)
    votes[2:5] = 153
    votes[5:7] = 102
    assert images.read_mask(MaskFile(save(Image.fromarray(votes), "v.png"))).sum() == 30
    with_alpha = Image.merge("LA", (Image.fromarray(votes), Image.new("L", (10, 10), 255)))
    assert images.read_mask(MaskFile(save(with_alpha, "la.png"))).sum() == 30
    classes = Image.fromarray((votes == 102).astype(np.uint8) * 8).convert("P")
    classes.putpalette([0, 0, 0] * 256)
    labels = save(Image.fromarray(np.where(votes == 102, 8, 0).astype(np.uint8)), "c.png")
    assert images.read_mask(MaskFile(labels, label=8)).sum() == 20
    assert images.read_mask(MaskFile(save(Image.fromarray(votes > 0), "b.png"))).sum() == 50


def test_load_view_reads_once_and_checks_sizes(save):
    path = save(Image.fromarray(gradient()), "a.png")
    mask = save(Image.new("L", (20, 10), 255), "m.png")
    loaded = images.load_view(View(path, (10, 20), mask=MaskFile(mask), name="a"))
    assert loaded.image.shape == (3, 10, 20)
    assert loaded.mask.all()
    assert images.load_view(loaded).image is loaded.image
    with pytest.raises(ValueError, match=r"a\.png: the image is 10×20 .* annotation says 20×10"):
        images.load_view(View(path, (20, 10), name="a"))
    with pytest.raises(ValueError, match=r"m\.png: the mask is 10×20"):
        images.load_view(View(torch.zeros(3, 12, 20), (12, 20), mask=MaskFile(mask), name="a"))


def test_fit_gives_multiples_of_the_patch():
    assert images.fit((375, 500), multiple=14) == (378, 504)
    assert images.fit((375, 500), multiple=14, longest=518) == (392, 518)
    assert images.fit((3, 500), multiple=14) == (14, 504)


def test_prepare_squashes_and_normalises():
    image = torch.full((3, 30, 50), 124, dtype=torch.uint8)
    ready = images.prepare(image, (28, 28))
    expected = (124 / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    torch.testing.assert_close(ready, expected[:, None, None].expand(3, 28, 28), rtol=1e-4, atol=1e-5)


def test_prepare_is_antialiased_like_pillow():
    """Pillow's bilinear reduction is antialiased too; both compute in different precision."""
    noise = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
    reduced = np.array(Image.fromarray(noise).resize((28, 28), Image.Resampling.BILINEAR)) / 255
    ready = images.prepare(torch.from_numpy(noise).permute(2, 0, 1), (28, 28))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    ours = (ready * std[:, None, None] + mean[:, None, None]).permute(1, 2, 0).numpy()
    assert np.abs(ours - reduced).max() < 1.5 / 255
