"""Small datasets on disk for tables of several: birds in the layout of CUB, coloured squares, animals with parts."""

import shutil

import numpy as np
from dataset_trees import write_lines
from PIL import Image
from scipy.io import savemat
from training_data import write_spair

SIDE = 60
PLACES = {"head": (5, 25, 5, 25), "leye": (10, 16, 8, 14), "reye": (10, 16, 17, 23), "torso": (25, 50, 10, 50)}


def write_squares(root, *, pairs=3):
    """Coloured squares in the layout of SPair-71k, with a test split."""
    write_spair(root, train=1, val=pairs)
    shutil.copy(root / "Layout" / "large" / "val.txt", root / "Layout" / "large" / "test.txt")
    return root


def write_animals(root, *, train=3, test=2, copied=()):
    """Cats with parts in the layout of PASCAL-Part; the first test images are copies of `copied`."""
    random = np.random.default_rng(1)
    main = root / "VOCdevkit" / "VOC2010"
    (main / "JPEGImages").mkdir(parents=True)
    (root / "Parts" / "Annotations_Part").mkdir(parents=True)
    names = [f"2009_{number:06d}" for number in range(train + test)]
    for name in names:
        noise = Image.fromarray(random.integers(0, 255, (6, 6, 3), dtype=np.uint8))
        noise.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(main / "JPEGImages" / f"{name}.jpg")
    for name, image in zip(names[train:], copied, strict=False):
        shutil.copy(image, main / "JPEGImages" / f"{name}.jpg")
    for name in names:
        _annotate(root, name)
    write_lines(main / "ImageSets" / "Main" / "train.txt", names[:train])
    write_lines(main / "ImageSets" / "Main" / "val.txt", names[train:])
    return root


def _annotate(root, name):
    with Image.open(root / "VOCdevkit" / "VOC2010" / "JPEGImages" / f"{name}.jpg") as image:
        size = image.size[::-1]

    def mask(y0, y1, x0, x1):
        covered = np.zeros(size, dtype=np.uint8)
        covered[y0:y1, x0:x1] = 1
        return covered

    parts = struct([(part, mask(*place)) for part, place in PLACES.items()], ("part_name", "mask"))
    cat = struct([("cat", 8, mask(5, 50, 5, 50), parts)], ("class", "class_ind", "mask", "parts"))
    path = root / "Parts" / "Annotations_Part" / f"{name}.mat"
    savemat(path, {"anno": struct([(name, cat)], ("imname", "objects"))})


def struct(rows, fields):
    """A MATLAB structure with these rows, for `savemat`."""
    array = np.zeros((1, len(rows)), dtype=[(field, object) for field in fields])
    for position, row in enumerate(rows):
        array[0, position] = row
    return array
