"""Labels to write and read again: images on disk, animals with visible, hidden and unlabelled keypoints."""

import math

import torch
from PIL import Image

from geco.data import named
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet

NAMES = ("snout", "left ear", "right ear", "tail base")
SIZES = {"a.png": (90, 120), "b.png": (64, 80), "c.png": (90, 120)}  # height, width
NOWHERE = (math.nan, math.nan)


def write_images(folder, names=SIZES):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        height, width = SIZES[name]
        Image.new("RGB", (width, height), (90, 120, 60)).save(folder / name)
    return folder


def animal(*points, **about):
    """An animal of (x, y, state) for each keypoint."""
    xy = torch.tensor([point[:2] for point in points])
    return Animal(xy, torch.tensor([point[2] for point in points]), **about)


FIRST = animal((10.25, 20.75, VISIBLE), (33.5, 12.125, VISIBLE), (*NOWHERE, UNKNOWN), (60.0, 40.0, HIDDEN))
SECOND = animal((100.5, 80.5, VISIBLE), (*NOWHERE, UNKNOWN), (0.5, 0.5, VISIBLE), (*NOWHERE, HIDDEN))


def label_set(folder, *, boxes=False, tracks=False, scores=False, edges=()):
    """Two animals on a.png, one on b.png, none on c.png."""
    animals = [FIRST, SECOND, FIRST]
    extra = [{}, {}, {}]
    for i, about in enumerate(extra):
        about |= {"box": (1.5, 2.0, 50.25 + i, 60.0)} if boxes else {}
        about |= {"track": f"mouse {i % 2}"} if tracks else {}
        if scores:
            about["score"] = torch.tensor([0.9, 0.5 + i / 10, 0.25, 0.125])
            about["uncertainty"] = torch.tensor([0.01, 0.2, 0.5, 0.75])
    animals = [Animal(one.xy, one.state, **about) for one, about in zip(animals, extra, strict=True)]
    images = [
        LabelledImage(folder / "a.png", tuple(animals[:2]), size=SIZES["a.png"]),
        LabelledImage(folder / "b.png", (animals[2],), size=SIZES["b.png"]),
        LabelledImage(folder / "c.png", size=SIZES["c.png"]),
    ]
    return LabelSet(named(NAMES), images, edges=tuple(edges), category="mouse")


def alone(folder):
    """One animal without a name on each image."""
    images = [LabelledImage(folder / name, (FIRST,), size=SIZES[name]) for name in ("a.png", "b.png")]
    return LabelSet(named(NAMES), images, category="mouse")


def same_points(one, other, *, within=0.01):
    """Whether two animals have the same places and states."""
    placed = torch.isfinite(one.xy) | torch.isfinite(other.xy)
    near = torch.allclose(one.xy[placed], other.xy[placed], atol=within, rtol=0)
    return near and one.state.tolist() == other.state.tolist()


def check_same(one, other, *, within=0.01):
    """Assert that labels are equal in images, animals, places and states."""
    assert other.skeleton == one.skeleton
    assert [(image.path, image.frame) for image in other.images] == [(image.path, image.frame) for image in one.images]
    for before, after in zip(one.images, other.images, strict=True):
        assert len(after.animals) == len(before.animals), after.path
        for left, right in zip(before.animals, after.animals, strict=True):
            assert same_points(left, right, within=within), (left, right)


def close(one, other, within):
    return (one is None) == (other is None) and (one is None or torch.allclose(one, other, atol=within, equal_nan=True))
