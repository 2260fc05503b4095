"""Label maps and label images that parts cannot be learned from."""

import io

import numpy as np
import pytest
import torch
from hostile.mutations import byte_mutants
from hostile.verdicts import check, refused, unchecked
from PIL import Image

from geco import propagation
from geco.types import FeatureMap

SIZE = (24, 36)  # height, width


class Colours:
    """An encoder whose features are the mean colours of patches of 6 × 6 pixels."""

    name, threshold, dim, stride, device = "colours", 0.3, 3, 6, torch.device("cpu")

    def extract_stream(self, pictures, *, batch_size=8):
        from geco import images

        for picture in pictures:
            pixels = unchecked(images.read)(picture)
            values = torch.nn.functional.avg_pool2d(pixels.float(), self.stride) / 255 + 0.01
            yield FeatureMap(values, (pixels.shape[1], pixels.shape[2]))

    def fingerprint(self):
        return "colours"


def noise():
    """Red on the left, blue on the right."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[:, :18, 0] = image[:, 18:, 2] = 255
    return image


def labels():
    halves = torch.zeros(SIZE, dtype=torch.long)
    halves[:, 18:] = 1
    return halves


def label(labelled, pictures):
    return list(unchecked(propagation.label)(Colours(), labelled, pictures))


def is_right(maps):
    return [found.tolist() for found in maps] == [labels().tolist()]


RIGHT = {
    "whole numbers": labels(),
    "uint8": labels().to(torch.uint8),
    "truth values": labels().bool(),
    "an array": labels().numpy(),
    "a big-endian array": labels().numpy().astype(">i4"),
    "a reversed array": labels().numpy()[::-1],
    "not contiguous": labels().T.contiguous().T,
}
WRONG = {
    "all zero": labels() * 0,
    "floats": labels().float(),
    "an array of floats": labels().numpy() / 1.0,
    "NaN": labels() * float("nan"),
    "complex": labels() * 1j,
    "negative": labels() - 1,
    "huge": labels() * 10**9,
    "beyond 16 bits": labels() * 65536,
    "three dimensions": labels()[None],
    "colours": labels()[..., None].expand(*SIZE, 3),
    "one dimension": labels().flatten(),
    "empty": torch.zeros(0, 0, dtype=torch.long),
    "turned": labels().T,
    "of another size": labels()[:-1],
    "a scalar": torch.tensor(1),
    "a list": labels().tolist(),
    "nothing": None,
    "a path": "labels.png",
    "objects": np.full(SIZE, None),
    "text": np.full(SIZE, "1"),
    "meta": torch.zeros(SIZE, dtype=torch.long, device="meta"),
    "sparse": labels().to_sparse(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_label_maps_of_every_type(name):
    check(lambda: label([(noise(), RIGHT[name])], [noise()]), right=is_right)


@pytest.mark.parametrize("name", WRONG)
def test_label_maps_that_are_none(name):
    refused(lambda: label([(noise(), WRONG[name])], [noise()]), "label map")


def test_one_empty_map_beside_a_full_one_is_background():
    maps = label([(noise(), labels()), (noise(), labels() * 0)], [noise()])
    assert set(maps[0].unique().tolist()) <= {0, 1}


LABELLED = {
    "nothing": [],
    "None": None,
    "a number": 3,
    "a path": "photo.jpg",
    "an array": noise(),
    "images without labels": [noise()],
    "three in a row": [(noise(), labels(), 1)],
    "one in a row": [(noise(),)],
    "a mapping": {"photo.jpg": labels()},
    "numbers": [1, 2],
    "None inside": [None],
    "no image": [(None, labels())],
    "a missing image": [("gone.jpg", labels())],
    "a generator of nothing": iter([]),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labelled_images_that_are_none(name):
    refused(lambda: label(LABELLED[name], [noise()]))


@pytest.mark.parametrize("pictures", [[], (), None, 3, "photo.jpg", b"x", noise(), torch.zeros(3, 9, 9), {}], ids=type)
def test_no_pictures(pictures):
    refused(lambda: label([(noise(), labels())], pictures), "pictures")


@pytest.mark.parametrize("picture", [None, 3, "gone.jpg", [], b"", np.zeros((2, 2))], ids=repr)
def test_a_picture_that_is_none(picture):
    refused(lambda: label([(noise(), labels())], [picture]))


def test_one_image_labelled_twice(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(noise()).save(path)
    (tmp_path / "same.png").symlink_to(path)
    for other in (path, str(path), tmp_path / "." / "photo.png", tmp_path / "same.png"):
        refused(lambda other=other: label([(path, labels()), (other, labels())], [path]), "labelled twice", "1 and 2")
    assert is_right(label([(path, labels())], [path]))


# --- label images -----------------------------------------------------------------------------------------------------


def stored(values, kind="PNG", mode=None):
    content = io.BytesIO()
    image = Image.fromarray(values)
    (image if mode is None else image.convert(mode)).save(content, kind)
    return content.getvalue()


PARTS = labels().numpy().astype(np.uint8)
READABLE = {
    "grey": stored(PARTS),
    "palette": stored(PARTS, mode="P"),
    "16-bit": stored(PARTS.astype(np.uint16)),
    "32-bit": stored(PARTS.astype(np.int32), "TIFF"),
    "bilevel": stored(PARTS.astype(bool)),
}
UNREADABLE = {
    "colours": stored(noise()),
    "with alpha": stored(PARTS, mode="LA"),
    "floats": stored(PARTS.astype(np.float32), "TIFF"),
    "negative": stored(PARTS.astype(np.int32) - 5, "TIFF"),
    "huge": stored(PARTS.astype(np.int32) * 2**30, "TIFF"),
    "another size": stored(PARTS[:-2]),
    "turned": stored(np.ascontiguousarray(PARTS.T)),
    "one pixel": stored(PARTS[:1, :1]),
    "bomb": stored(np.zeros((10_000, 9_000), np.uint8)),
}
DAMAGED = byte_mutants(READABLE["grey"], flips=12, seed=3) + byte_mutants(READABLE["palette"], flips=12, seed=4)


@pytest.mark.parametrize("name", READABLE)
def test_label_images_of_every_type(tmp_path, name):
    (tmp_path / "parts.png").write_bytes(READABLE[name])
    check(lambda: propagation.read_labels(tmp_path / "parts.png", SIZE), right=lambda found: found.equal(labels()))


@pytest.mark.parametrize("name", UNREADABLE)
def test_label_images_that_are_none(tmp_path, name):
    (tmp_path / "parts.png").write_bytes(UNREADABLE[name])
    refused(lambda: propagation.read_labels(tmp_path / "parts.png", SIZE), "parts.png")


@pytest.mark.parametrize(
    "content", [content for _, content in DAMAGED], ids=[f"{i} {a}" for i, (a, _) in enumerate(DAMAGED)]
)
def test_damaged_label_images(tmp_path, content):
    (tmp_path / "parts.png").write_bytes(content)

    def right(found):
        return tuple(found.shape) == SIZE and found.dtype == torch.int64 and int(found.min()) >= 0

    check(lambda: propagation.read_labels(tmp_path / "parts.png", SIZE), right=right, names=("parts.png",))


@pytest.mark.parametrize("path", [None, 3, [], b"parts.png", "", "gone.png", "."], ids=repr)
def test_places_of_label_images(path):
    refused(lambda: unchecked(propagation.read_labels)(path, SIZE))
