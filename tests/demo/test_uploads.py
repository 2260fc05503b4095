"""Uploaded bytes: what becomes an image, what is refused in one line, and that names are never paths."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from geco import images
from geco.demo.settings import AppSettings
from geco.demo.uploads import NAME_LENGTH, admit, label_of
from geco.errors import InputError

SETTINGS = AppSettings(side=128, megapixels=1)


def encoded(width, height, kind="PNG"):
    noise = np.random.default_rng(0).integers(0, 255, (6, 8, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC).save(buffer, kind)
    return buffer.getvalue()


def claimed(width, height):
    """A PNG that claims a size and holds next to nothing: a decompression bomb before it is unpacked."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def test_a_small_image_is_kept_as_images_read_it():
    content = encoded(120, 90)
    image = admit(content, "a.png", SETTINGS)
    assert (image.size, image.shown) == ((90, 120), (90, 120))
    assert torch.equal(image.pixels, images.read(content))
    with Image.open(io.BytesIO(image.jpeg())) as shown:
        assert (shown.format, shown.size) == ("JPEG", (120, 90))
        difference = np.asarray(shown).astype(int) - image.pixels.permute(1, 2, 0).numpy()
        assert abs(difference).mean() < 5


def test_a_large_one_is_scaled_down_but_points_count_in_its_own_pixels():
    image = admit(encoded(512, 256), "a.png", SETTINGS)
    assert (image.size, image.shown) == ((256, 512), (64, 128))
    smaller = np.asarray(Image.open(io.BytesIO(encoded(512, 256))).resize((128, 64), Image.Resampling.BILINEAR))
    assert abs(image.pixels.permute(1, 2, 0).numpy().astype(int) - smaller).max() <= 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (encoded(120, 90, "JPEG")[:900], "cat.jpg is damaged or cut short"),
        (b"<!doctype html><html><body>hello</body></html>", "cat.jpg is not an image: it is"),
        (b"just some text", "cat.jpg is not an image that can be read"),
        (b"%PDF-1.7 and so on", "cat.jpg is not an image"),
        (b"", "cat.jpg is empty"),
        (claimed(10_000, 10_000), "cat.jpg is 10000×10000 = 100 megapixels, above the limit of 1; scale it down$"),
        (claimed(60_000, 60_000), "cat.jpg is"),
        (encoded(4, 4), "cat.jpg is 4×4 pixels; an image needs at least 8"),
        (bytes(21_000_000), "cat.jpg has 21 MB, above the limit of 20 MB"),
    ],
    ids=["truncated", "html", "text", "pdf", "empty", "100 MP", "bomb", "icon", "bytes"],
)
def test_what_is_refused_is_one_line_that_names_the_file(content, message):
    with pytest.raises(InputError, match=message) as refused:
        admit(content, "/home/somebody/cat.jpg", SETTINGS)
    assert "\n" not in str(refused.value)
    assert "somebody" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("cat.jpg", "cat.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\cat.jpg", "cat.jpg"),
        ("..", "image"),
        (".hidden", "hidden"),
        ("", "image"),
        ("a\nb\x00c.png", "a b c.png"),
        ("folder/", "image"),
    ],
)
def test_a_name_is_a_label_and_never_a_path(name, label):
    assert label_of(name) == label


def test_a_long_name_is_shortened_in_the_middle():
    label = label_of("x" * 5000 + ".jpg")
    assert len(label) == NAME_LENGTH
    assert label.endswith(".jpg")
