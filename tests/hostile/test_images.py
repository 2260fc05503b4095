"""Images that users have and images that they think they have: files of every kind and damage, arrays, tensors."""

import io
import os
import socket
import struct
import sys

import numpy as np
import pytest
import torch
from hostile.mutations import HTML, LFS, byte_mutants
from hostile.verdicts import check, refused, unchecked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, TiffImagePlugin

from geco import decoding, images
from geco.images import ImageLimits

read, size_of = unchecked(images.read), unchecked(images.size_of)


def noise(width=24, height=16):
    """Smooth colours, different at every corner."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 / width, y * 255 / height, (x + y) * 127 / (width + height)], -1).astype(np.uint8)


def encoded(kind, image=None, **options):
    content = io.BytesIO()
    (Image.fromarray(noise()) if image is None else image).save(content, kind, **options)
    return content.getvalue()


def is_image(size=None):
    def right(pixels):
        return (
            pixels.dtype == torch.uint8
            and pixels.ndim == 3
            and len(pixels) == 3
            and (size is None or tuple(pixels.shape[1:]) == size)
        )

    return right


# --- damaged files ----------------------------------------------------------------------------------------------------

GREY = Image.fromarray(noise()[..., 0])
KINDS = {
    "jpg": encoded("JPEG"),
    "progressive.jpg": encoded("JPEG", progressive=True),
    "cmyk.jpg": encoded("JPEG", Image.fromarray(noise()).convert("CMYK")),
    "png": encoded("PNG"),
    "palette.png": encoded("PNG", Image.fromarray(noise()).convert("P"), transparency=0),
    "deep.png": encoded("PNG", Image.fromarray(noise()[..., 0].astype(np.uint16) * 257)),
    "bilevel.png": encoded("PNG", GREY.convert("1")),
    "webp": encoded("WEBP", lossless=True),
    "tif": encoded("TIFF"),
    "lzw.tif": encoded("TIFF", compression="tiff_lzw"),
    "deflate.tif": encoded("TIFF", compression="tiff_deflate"),
    "bmp": encoded("BMP"),
    "gif": encoded("GIF", Image.fromarray(noise()).convert("P")),
    "animated.gif": encoded(
        "GIF",
        Image.fromarray(noise()).convert("P"),
        save_all=True,
        append_images=[GREY.convert("P"), GREY.rotate(180).convert("P")],
    ),
    "ppm": encoded("PPM"),
}
DAMAGED = [
    (f"{kind}: {label}", kind, content)
    for number, (kind, whole) in enumerate(KINDS.items())
    for label, content in byte_mutants(whole, flips=4, seed=number)
]


@pytest.mark.parametrize(("kind", "content"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED])
def test_a_damaged_file_is_refused_or_read(tmp_path, kind, content):
    """A flipped bit may leave a picture that can be decoded: then the pixels are whatever it says."""
    path = tmp_path / f"photo.{kind}"
    path.write_bytes(content)
    check(lambda: read(path), right=is_image(), names=(f"photo.{kind}",))
    check(lambda: size_of(path), right=lambda size: min(size) > 0, names=(f"photo.{kind}",))
    check(lambda: read(content), right=is_image(), names=("the bytes",))


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_file_is_read_and_its_size_foretold(tmp_path, kind):
    path = tmp_path / f"photo.{kind}"
    path.write_bytes(KINDS[kind])
    check(lambda: read(path), right=is_image((16, 24)))
    assert size_of(path) == (16, 24)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_any_bytes_in_any_place(kind, data):
    content = bytearray(KINDS[kind])
    place = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(min_size=1, max_size=8))
    content[place : place + data.draw(st.integers(0, 8))] = new
    check(lambda: read(bytes(content)), right=is_image(), names=("the bytes",))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (HTML, "web page"),
        (b"\n  <html><body>moved</body></html>", "web page"),
        (LFS, "Git LFS pointer"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n", "PostScript"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"PK\x03\x04" + bytes(100), "ZIP"),
        (b"\x1f\x8b" + bytes(100), "gzip"),
        (b"\x00\x00\x00\x18ftypheic" + bytes(100), "HEIC"),
        (b"DDS |\x00\x00\x00" + bytes(200), "not an image"),
        (b"8BPS" + bytes(100), "not an image"),
        (b"hello", "not an image"),
    ],
)
def test_what_is_no_image_is_called_what_it_is(tmp_path, content, word):
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    for call in (lambda: read(path), lambda: size_of(path)):
        refused(call, "photo.jpg", word)
    refused(lambda: read(content), "the bytes", word)


@pytest.mark.parametrize("kind", ["EPS", "DDS", "TGA", "ICO", "PCX", "SGI", "PDF"])
def test_formats_that_are_not_listed_are_not_tried(tmp_path, kind, monkeypatch):
    path = tmp_path / "photo.png"
    Image.fromarray(noise()).save(path, kind)
    monkeypatch.setattr("subprocess.check_call", lambda *a, **k: pytest.fail("a program was started"))
    monkeypatch.setattr("subprocess.Popen", lambda *a, **k: pytest.fail("a program was started"))
    refused(lambda: read(path), "photo.png")
    assert kind not in decoding.FORMATS


def test_an_eps_that_the_user_opened_is_not_run(tmp_path, monkeypatch):
    path = tmp_path / "drawing.eps"
    Image.fromarray(noise()).save(path, "EPS")
    monkeypatch.setattr("subprocess.check_call", lambda *a, **k: pytest.fail("a program was started"))
    with Image.open(path) as opened:
        refused(lambda: read(opened), "EPS")


# --- places that are no files -----------------------------------------------------------------------------------------


def special_places(folder):
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "gone.jpg")
    (folder / "file.txt").write_text("x")
    return {
        "a pipe": folder / "fifo",
        "a folder": folder / "folder",
        "a loop": folder / "loop",
        "a dangling link": folder / "dangling",
        "a file as a folder": folder / "file.txt" / "photo.jpg",
        "a missing file": folder / "none.jpg",
        "a device": "/dev/zero",
        "nothing": "/dev/null",
        "an empty name": "",
        "a name with NUL": "a\0b.jpg",
        "a long name": "x" * 5000,
        "a long path": "/".join(["x" * 200] * 30),
        "a line break": str(folder / "no\nsuch\n.jpg"),
        "an escape sequence": str(folder / "\x1b[31mred.jpg"),
        "undecodable bytes": str(folder / "\udcff.jpg"),
    }


PLACES = [
    "a pipe", "a folder", "a loop", "a dangling link", "a file as a folder", "a missing file", "a device", "nothing",
    "an empty name", "a name with NUL", "a long name", "a long path", "a line break", "an escape sequence",
    "undecodable bytes",
]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and links")
@pytest.mark.parametrize("place", PLACES)
def test_places_that_are_no_files(tmp_path, place):
    path = special_places(tmp_path)[place]
    for call in (lambda: read(path), lambda: size_of(path)):
        message = refused(call, seconds=3)
        assert message.isprintable()
        message.encode()


@pytest.mark.skipif(sys.platform == "win32", reason="sockets in the file system")
def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        refused(lambda: read("s"), "pipe or a device")


@pytest.mark.parametrize(
    "value",
    [None, 3, 2.5, True, [], [1, 2], ["a.jpg"], ("a.jpg",), {}, {"image": 1}, {"a.jpg"}, object(), io.BytesIO(b"x"),
     bytearray(b"x"), memoryview(b"x"), range(3), lambda: 1, np.float32(1), float("nan"), [[[0, 0, 0]]], type, ...],
    ids=lambda thing: repr(thing).partition(" at 0x")[0],
)  # fmt: skip
def test_things_that_are_no_image(value):
    refused(lambda: read(value), "an image must be a path, bytes, PIL image, array or tensor", type(value).__name__)


# --- EXIF -------------------------------------------------------------------------------------------------------------


def exif_of(value, kind):
    """A hand-made EXIF block with one entry: Orientation of any TIFF type, which Pillow would not write."""
    entry = struct.pack("<HHI", 0x0112, kind, len(value) if kind == 2 else 1)
    entry += value[:4].ljust(4, b"\0")
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 1) + entry + bytes(4)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_of_every_format(tmp_path, kind, orientation):
    """The oracle turns the array itself: rot90 and flips, by the EXIF standard's words."""
    pixels = noise()
    stored = {  # what is stored so that the upright image is `pixels`
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: pixels.transpose(1, 0, 2),
        6: np.rot90(pixels),
        7: np.rot90(pixels, 2).transpose(1, 0, 2),
        8: np.rot90(pixels, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{kind}"
    options = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(np.ascontiguousarray(stored)).save(path, kind, exif=exif, **options)
    found = read(path)
    assert tuple(found.shape[1:]) == size_of(path) == (16, 24)
    assert np.abs(found.permute(1, 2, 0).numpy().astype(int) - pixels).max() <= (6 if kind == "JPEG" else 0)


@pytest.mark.parametrize(
    "block",
    [
        exif_of(b"six", 2),
        exif_of(b"6", 2),
        exif_of(struct.pack("<H", 0), 3),
        exif_of(struct.pack("<H", 9), 3),
        exif_of(struct.pack("<H", 65535), 3),
        exif_of(struct.pack("<i", -6), 9),
        exif_of(struct.pack("<f", float("nan")), 11),
        exif_of(b"abcd", 7),
        exif_of(b"\xff\xff\xff\xff", 5),
        exif_of(b"abcd", 99),
        b"Exif\0\0",
        b"Exif\0\0II*\0",
        b"Exif\0\0" + bytes(20),
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0garbage",
        bytes(range(64)),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_an_orientation_that_makes_no_sense_is_none(tmp_path, kind, block):
    path = tmp_path / "photo.img"
    Image.fromarray(noise()).save(path, kind, exif=block)
    check(lambda: read(path), right=is_image((16, 24)))
    assert size_of(path) == (16, 24)


def test_a_tiff_with_an_orientation_as_text(tmp_path):
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags.tagtype[0x0112] = 2
    tags[0x0112] = "top-left"
    path = tmp_path / "photo.tif"
    Image.fromarray(noise()).save(path, tiffinfo=tags)
    check(lambda: read(path), right=is_image((16, 24)), names=("photo.tif",))


# --- values -----------------------------------------------------------------------------------------------------------

RAMP = np.tile(np.linspace(0, 1, 24), (16, 1))


@pytest.mark.parametrize(
    "values",
    [
        RAMP.astype(np.float32),
        (RAMP * 255).astype(np.float32),
        (RAMP * 1e6).astype(np.float32),
        (RAMP * 20 + 290).astype(np.float32),
        (RAMP * 2 - 1).astype(np.float32),
        (RAMP * 255).astype(np.int32),
        (RAMP * 1000).astype(np.int32),
        (RAMP * 2**30).astype(np.int32),
        (RAMP * 2e9 - 1e9).astype(np.int32),
        (RAMP * 65535).astype(np.uint16),
        (RAMP * 255).astype(np.uint8),
    ],
    ids=lambda values: f"{values.dtype} {values.min():g} to {values.max():g}",
)
def test_a_ramp_is_a_ramp_in_every_type(tmp_path, values):
    path = tmp_path / "ramp.tif"
    Image.fromarray(values).save(path)
    found = read(path)[0].numpy().astype(int)
    assert np.abs(found - np.round(RAMP * 255)).max() <= 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_file_of_nan_is_refused(tmp_path, bad):
    values = RAMP.astype(np.float32)
    values[3, 3] = bad
    Image.fromarray(values).save(tmp_path / "hole.tif")
    refused(lambda: read(tmp_path / "hole.tif"), "hole.tif", "NaN or infinity")


@pytest.mark.parametrize("value", [0, 1, 7, -7, 255, 70000])
@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_a_constant_file_is_a_constant_image(tmp_path, value, kind):
    Image.fromarray(np.full((16, 24), value, kind)).save(tmp_path / "flat.tif")
    check(lambda: read(tmp_path / "flat.tif"), right=lambda pixels: len(pixels.unique()) == 1)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA",
                                  "RGBX", "RGBa", "La", "I;16", "I;16L", "I;16B"])  # fmt: skip
def test_every_mode_of_pillow(mode):
    check(lambda: read(Image.new(mode, (24, 16))), right=is_image((16, 24)), names=("the image",))


def test_pictures_that_are_closed_or_damaged(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(KINDS["png"])
    opened = Image.open(path)
    opened.close()
    check(lambda: read(opened), right=is_image((16, 24)), names=("the image",))
    path.write_bytes(KINDS["png"][:60])
    with Image.open(path) as opened:
        refused(lambda: read(opened), "the image", "damaged")


def test_the_first_frame_of_an_animation():
    found = read(KINDS["animated.gif"])
    first = Image.open(io.BytesIO(KINDS["animated.gif"])).convert("RGB")
    assert found.permute(1, 2, 0).numpy().tolist() == np.array(first).tolist()


def test_a_bomb_is_refused_before_it_is_decoded():
    """A PNG header that promises 60,000 × 60,000 pixels, and hardly any content."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    import zlib

    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    refused(lambda: read(b"\x89PNG\r\n\x1a\n" + chunk + KINDS["png"][33:]), "the bytes", seconds=3)


# --- arrays and tensors -----------------------------------------------------------------------------------------------

PIXELS = noise()
RIGHT_ARRAYS = {
    "negative strides": PIXELS[::-1, ::-1],
    "Fortran order": np.asfortranarray(PIXELS),
    "every second column": np.repeat(PIXELS, 2, axis=1)[:, ::2],
    "read-only": np.frombuffer(PIXELS.tobytes(), np.uint8).reshape(PIXELS.shape),
    "big-endian floats": (PIXELS / 255).astype(">f4"),
    "big-endian 16-bit": (PIXELS.astype(">u2") * 257).astype(">u2"),
    "float16": (PIXELS / 255).astype(np.float16),
    "float64": PIXELS / 255,
    "masked": np.ma.array(PIXELS),
    "channels reversed": PIXELS[..., ::-1],
    "grey": PIXELS[..., 0],
    "one channel": PIXELS[..., :1],
    "opaque": np.dstack([PIXELS, np.full(PIXELS.shape[:2], 255, np.uint8)]),
    "opaque floats": np.dstack([PIXELS / 255, np.ones(PIXELS.shape[:2])]),
}


@pytest.mark.parametrize("name", RIGHT_ARRAYS)
def test_arrays_of_every_layout(name):
    """Compared with plain NumPy: values as 8 bits, three channels, opaque."""
    array = np.array(RIGHT_ARRAYS[name], dtype=np.float64)
    array = array[..., None] if array.ndim == 2 else array
    top = {"b": 255, "f": 1}.get(
        RIGHT_ARRAYS[name].dtype.kind, 255 if RIGHT_ARRAYS[name].dtype.itemsize == 1 else 65535
    )
    expected = np.broadcast_to(np.round(array[..., :3] / top * 255), (16, 24, 3))
    found = read(RIGHT_ARRAYS[name]).permute(1, 2, 0).numpy().astype(int)
    assert np.abs(found - expected).max() <= (1 if "float" in name or "16" in name else 0)


def test_a_clear_array_is_white_in_every_type():
    for top, kind in ((255, np.uint8), (1, np.float32), (65535, np.uint16)):
        clear = np.dstack([RAMP * top, RAMP * top, RAMP * top, RAMP * 0]).astype(kind)
        assert (read(clear) == 255).all()


WRONG_ARRAYS = {
    "object": np.full((16, 24, 3), None),
    "text": np.full((16, 24), "a"),
    "bool": np.zeros((16, 24, 3), bool),
    "complex": np.zeros((16, 24, 3), complex),
    "int64": np.zeros((16, 24, 3), np.int64),
    "int8": np.zeros((16, 24), np.int8),
    "dates": np.zeros((16, 24), "datetime64[s]"),
    "records": np.zeros((16, 24), [("r", "u1"), ("g", "u1")]),
    "long double": np.zeros((16, 24, 3), np.longdouble) if np.longdouble(0).itemsize > 8 else np.zeros(3),
    "empty": np.zeros((0, 0, 3), np.uint8),
    "no rows": np.zeros((0, 24, 4), np.uint8),
    "no dimension": np.uint8(3) * np.ones(()),
    "one dimension": np.zeros(9, np.uint8),
    "four dimensions": np.zeros((1, 16, 24, 3), np.uint8),
    "no channels": np.zeros((16, 24, 0), np.uint8),
    "two channels": np.zeros((16, 24, 2), np.uint8),
    "channels first": np.zeros((3, 16, 24), np.uint8),
    "tiny": np.zeros((3, 3, 3), np.uint8),
    "nan": np.full((16, 24), np.nan),
    "transparent nan": np.full((16, 24, 4), np.nan),
    "negative": np.full((16, 24, 3), -0.1),
    "to 255": np.full((16, 24, 3), 255.0),
    "transparent to 255": np.full((16, 24, 4), 255.0),
    "slightly above one": np.full((16, 24, 3), 1.01),
}


@pytest.mark.parametrize("name", WRONG_ARRAYS)
def test_arrays_that_are_no_images(name):
    refused(lambda: read(WRONG_ARRAYS[name]))


BASE = torch.from_numpy(PIXELS).permute(2, 0, 1) / 255
RIGHT_TENSORS = {
    "gradient": BASE.clone().requires_grad_(),
    "not contiguous": BASE.mT.contiguous().mT,
    "bfloat16": BASE.bfloat16(),
    "float16": BASE.half(),
    "float64": BASE.double(),
    "8-bit float": BASE.to(torch.float8_e4m3fn),
    "expanded": BASE[:1].expand(3, -1, -1),
    "grey": BASE[:1],
}
WRONG_TENSORS = {
    "meta": torch.zeros(3, 16, 24, device="meta"),
    "sparse": BASE.to_sparse(),
    "quantized": torch.zeros(3, 16, 24, dtype=torch.int8),
    "bool": BASE > 0.5,
    "complex": BASE * 1j,
    "int64": (BASE * 255).long(),
    "batch": BASE[None],
    "channels last": BASE.permute(1, 2, 0),
    "four channels": torch.zeros(4, 16, 24),
    "empty": torch.zeros(3, 0, 0),
    "scalar": torch.tensor(1.0),
    "nan": BASE * float("nan"),
    "infinite": BASE + float("inf"),
    "negative": BASE - 1,
    "normalised": (BASE - 0.5) / 0.2,
    "to 255": BASE * 255,
    "uint16": torch.zeros(3, 16, 24, dtype=torch.uint16),
}


@pytest.mark.parametrize("name", RIGHT_TENSORS)
def test_tensors_of_every_type(name):
    given = RIGHT_TENSORS[name]
    expected = (given.detach().double().expand(3, -1, -1) * 255).round()
    found = read(given)
    assert not found.requires_grad
    assert (found.double() - expected).abs().max() <= (0 if given.dtype.itemsize >= 4 else 1)


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_tensors_that_are_no_images(name):
    refused(lambda: read(WRONG_TENSORS[name]))


@pytest.mark.parametrize(
    "limits",
    [{"megapixels": value} for value in (0, -1, float("nan"), "80", None, True)]
    + [{"shortest_side": value} for value in (0, -1, 2.5, float("nan"), "8", None, True)],
    ids=str,
)
def test_limits_are_numbers(limits):
    refused(lambda: unchecked(ImageLimits)(**limits), next(iter(limits)))


@pytest.mark.parametrize("longest", [0, -518, 0.5, float("nan"), float("inf"), "518", True, 10**400])
def test_sizes_to_fit_are_positive(longest):
    refused(lambda: unchecked(images.fit)((100, 200), multiple=14, longest=longest), "longest side")
