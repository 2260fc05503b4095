"""Mask files of every kind that tools write, masks that show nothing, and where both are found out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dataset_trees import write_image
from hostile.mutations import byte_mutants, json_mutants
from hostile.verdicts import check, refused, unchecked
from PIL import Image

from geco import data, images, masks
from geco.data import audit
from geco.masks.settings import MaskSettings
from geco.types import Keypoints, MaskFile, Skeleton, View

SHAPE = (12, 20)
OBJECT = np.zeros(SHAPE, bool)
OBJECT[3:9, 5:14] = True


def is_the_object(mask):
    return mask.dtype == torch.bool and mask.numpy().tolist() == OBJECT.tolist()


def palette(image, colours):
    image.putpalette([value for colour in colours for value in colour] + [9] * 3 * (256 - len(colours)))
    return image


def indices(foreground, background=0):
    return Image.fromarray(np.where(OBJECT, foreground, background).astype(np.uint8)).convert("L")


def as_palette(foreground, background, colours):
    image = Image.new("P", SHAPE[::-1])
    image.putdata([foreground if value else background for value in OBJECT.flatten()])
    return palette(image, colours)


def alpha(mode, colour):
    image = Image.new(mode, SHAPE[::-1], colour)
    image.putalpha(indices(255))
    return image


NOISE = np.random.default_rng(0).integers(0, 255, (*SHAPE, 3), dtype=np.uint8)
RIGHT = {
    "0 and 255": indices(255),
    "0 and 1": indices(1),
    "bilevel": Image.fromarray(OBJECT),
    "RGB 0 and 255": indices(255).convert("RGB"),
    "RGB 0 and 1": indices(1).convert("RGB"),
    "red on black": Image.merge("RGB", (indices(255), indices(0), indices(0))),
    "soft edges": Image.fromarray(np.where(OBJECT, 200, 60).astype(np.uint8)),
    "16-bit 0 and 65535": Image.fromarray(OBJECT.astype(np.uint16) * 65535),
    "16-bit 0 and 255": Image.fromarray(OBJECT.astype(np.uint16) * 255),
    "16-bit 0 and 1": Image.fromarray(OBJECT.astype(np.uint16)),
    "16-bit soft": Image.fromarray(np.where(OBJECT, 50000, 9000).astype(np.uint16)),
    "grey and opaque": Image.merge("LA", (indices(255), Image.new("L", SHAPE[::-1], 255))),
    "cut out of black": alpha("RGB", (0, 0, 0)),
    "cut out of white": alpha("RGB", (255, 255, 255)),
    "cut out of grey": alpha("L", 7),
    "palette white on black": as_palette(1, 0, [(0, 0, 0), (255, 255, 255)]),
    "palette black first": as_palette(0, 1, [(255, 255, 255), (0, 0, 0)]),
    "palette 0 and 255": as_palette(255, 0, [(i, i, i) for i in range(256)]),
    "palette of VOC": as_palette(1, 0, [(0, 0, 0), (128, 0, 0)]),
}
cut_out = Image.fromarray(NOISE)
cut_out.putalpha(indices(255))
RIGHT["cut out of an image"] = cut_out


@pytest.mark.parametrize("name", RIGHT)
def test_a_mask_is_read_as_what_it_is(tmp_path, name):
    RIGHT[name].save(tmp_path / "mask.png")
    check(lambda: images.read_mask(MaskFile(tmp_path / "mask.png")), right=is_the_object)


@pytest.mark.parametrize(("values", "kind"), [((0, 1), np.float32), ((0, 255), np.float32), ((0, 1), np.int32)])
def test_a_tiff_mask(tmp_path, values, kind):
    Image.fromarray(np.where(OBJECT, values[1], values[0]).astype(kind)).save(tmp_path / "mask.tif")
    check(lambda: images.read_mask(MaskFile(tmp_path / "mask.tif")), right=is_the_object)


def test_a_mask_of_nan_is_refused(tmp_path):
    Image.fromarray(np.where(OBJECT, np.nan, 0).astype(np.float32)).save(tmp_path / "mask.tif")
    refused(lambda: images.read_mask(MaskFile(tmp_path / "mask.tif")), "mask.tif", "NaN")


@pytest.mark.parametrize("label", [1, 2, 8, 20, 127, 128, 255])
@pytest.mark.parametrize("mode", ["L", "P"])
def test_class_masks_stay_exact(tmp_path, label, mode):
    other = (label + 1) % 256
    if mode == "L":
        Image.fromarray(np.where(OBJECT, label, other).astype(np.uint8)).save(tmp_path / "mask.png")
    else:
        as_palette(label, other, [(0, 0, 0), (255, 255, 255)]).save(tmp_path / "mask.png")
    check(lambda: images.read_mask(MaskFile(tmp_path / "mask.png", label=label)), right=is_the_object)
    absent = images.read_mask(MaskFile(tmp_path / "mask.png", label=(label + 2) % 256))
    assert not absent.any()


def test_a_coloured_class_mask_is_refused(tmp_path):
    Image.fromarray(NOISE).save(tmp_path / "mask.png")
    refused(lambda: images.read_mask(MaskFile(tmp_path / "mask.png", label=1)), "mask.png", "one channel")


@pytest.mark.parametrize("label", [-1, 1.5, "1", True, float("nan"), [1]])
def test_a_label_is_a_whole_number(label):
    refused(lambda: unchecked(MaskFile)(Path("mask.png"), label=label), "label of a mask")


def mask_bytes():
    path = Path("mask.png")
    import io

    content = io.BytesIO()
    indices(255).save(content, path.suffix[1:])
    return content.getvalue()


DAMAGED = byte_mutants(mask_bytes(), flips=10, seed=5)


@pytest.mark.parametrize("content", [content for _, content in DAMAGED], ids=[label for label, _ in DAMAGED])
@pytest.mark.parametrize("label", [None, 1])
def test_a_damaged_mask_is_refused_or_read(tmp_path, content, label):
    path = tmp_path / "mask.png"
    path.write_bytes(content)
    right = lambda mask: mask.dtype == torch.bool and mask.ndim == 2  # noqa: E731
    check(lambda: images.read_mask(MaskFile(path, label)), right=right, names=("mask.png",))
    view = View(torch.zeros(3, *SHAPE), SHAPE, mask=MaskFile(path, label), name="gecko")
    check(lambda: images.load_view(view), right=lambda loaded: loaded.mask.shape == SHAPE, names=("mask.png",))


# --- masks that show nothing ------------------------------------------------------------------------------------------

BOTH = Skeleton(("a", "b"), (0, 1), None)


def a_view(folder, name, mask):
    write_image(folder / f"{name}.png", SHAPE)
    if mask is not None:
        mask.save(folder / f"{name}-mask.png")
    points = Keypoints(torch.tensor([[6.0, 4.0], [9.0, 6.0]]), torch.tensor([True, True]))
    file = None if mask is None else MaskFile(folder / f"{name}-mask.png")
    return View(folder / f"{name}.png", SHAPE, points, torch.tensor([1.0, 1.0, 9.0, 9.0]), file, name=name)


@pytest.mark.parametrize(("present", "empty"), [((0, 0), 2), ((255, 0), 1), ((1, 1), 0), ((1, 0), 1), ((255, 255), 0)])
def test_the_audit_counts_masks_without_foreground(tmp_path, present, empty):
    views = [a_view(tmp_path, f"gecko {i}", indices(value)) for i, value in enumerate(present)]
    pairs = data.Pairs(views, [(0, 1)], ["gecko"], [BOTH])
    geckos = replace(
        data.find("coco"), name="geckos", splits=("train",), options={}, load=lambda root, split, *, faults=None: pairs
    )
    count, _ = audit.count_split(geckos, tmp_path, "train")
    assert (count.masks, count.empty_masks, len(count.faults)) == (2, empty, empty)
    assert all("-mask.png: the mask has no foreground" in fault for fault in count.faults)
    unread, _ = audit.count_split(geckos, tmp_path, "train", decode=False)
    assert (unread.empty_masks, unread.faults) == (0, [])


# --- folders of masks -------------------------------------------------------------------------------------------------

RECORD = {"maker": "u2net", "weights": "u2netp.onnx", "margin": 0.1}
RECORDS = json_mutants(RECORD, count=25, seed=2)


@pytest.mark.parametrize("content", [content for _, content in RECORDS], ids=[label[:60] for label, _ in RECORDS])
def test_a_folder_whose_record_is_damaged_is_refused(tmp_path, content):
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "masks.json").write_bytes(content)
    view = a_view(tmp_path, "gecko", None)
    try:
        same = json.loads(content) == RECORD
    except (ValueError, RecursionError):
        same = False

    def right(summary):
        return same and summary.made == 1

    check(lambda: masks.make([view], masks.box, folder, record=RECORD), right=right, names=("masks",))
    if not same:
        assert not list(folder.glob("*.png"))


@pytest.mark.parametrize(
    "name", ["../../gecko", "/etc/passwd", "..", "a\nb", "\udcff", "[/b]", "a" * 150, "gécko", "%2F"]
)
def test_a_mask_stays_in_its_folder(tmp_path, name):
    path = (tmp_path / "masks" / masks.file_name(replace(a_view(tmp_path, "gecko", None), name=name))).resolve()
    assert path.parent == tmp_path / "masks"
    path.name.encode()


@pytest.mark.parametrize(
    "change",
    [{"margin": value} for value in (-0.1, float("nan"), float("inf"), "0.1", None, True)]
    + [{"threshold": value} for value in (-0.1, 1.1, float("nan"), "half", None, True)]
    + [{"sam": value} for value in ("", None, 3, Path("sam"))],
    ids=str,
)
def test_settings_of_masks(change):
    refused(lambda: MaskSettings(**change), next(iter(change)))
