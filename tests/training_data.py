"""A training set made of coloured squares, in memory or in the layout of SPair-71k; recipes that take seconds."""

import json
from colorsys import hsv_to_rgb
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image as Pillow

from geco.batching import collate
from geco.losses.settings import LossSettings
from geco.models.settings import EncoderConfig, LoraSettings
from geco.training import RunFolder, augment
from geco.training.settings import AugmentSettings, TrainConfig
from geco.types import Keypoints, Pair, Skeleton, View

SIDE, PATCH, COUNT = 98, 14, 5
GRID = SIDE // PATCH
SKELETON = Skeleton(
    ("nose", "left eye", "right eye", "left paw", "right paw"), twin=(0, 2, 1, 4, 3), mirror=(0, 2, 1, 4, 3)
)


def tiny_vit(folder):
    """A random ViT of 24 channels whose features differ enough for an adapter to work with."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    settings = Dinov2Config(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        image_size=56,
        patch_size=PATCH,
        layerscale_value=0.5,
        initializer_range=0.3,
    )
    Dinov2Model(settings).save_pretrained(folder)
    return folder


def view(number, *, hidden=()):
    """Five squares, each a keypoint, on grey; they and a sixth are the object.

    Even views have bright squares and odd ones dark squares whose colours are those of the *next but one* keypoint:
    by colour alone an even and an odd view are matched wrongly.
    """
    random = np.random.default_rng(number)
    shift, value = (0, 1.0) if number % 2 == 0 else (2, 0.6)
    apart = [GRID * y + x for y in range(1, GRID, 2) for x in range(1, GRID, 2)]  # else peaks blur or are flat
    spots = random.permutation(apart)[: COUNT + 1]
    pixels = torch.from_numpy(random.integers(90, 110, (3, SIDE, SIDE), dtype=np.uint8))
    mask = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    for index, spot in enumerate(spots.tolist()):
        y, x = (PATCH * place for place in divmod(spot, GRID))
        hue = (index + shift) % COUNT / COUNT
        colour = torch.tensor(hsv_to_rgb(hue, 1.0 if index < COUNT else 0.0, value)).mul(255).byte()
        if index not in hidden:
            pixels[:, y : y + PATCH, x : x + PATCH] = colour[:, None, None]
            mask[y : y + PATCH, x : x + PATCH] = True
    xy = torch.tensor([[spot % GRID, spot // GRID] for spot in spots[:COUNT].tolist()])
    visible = torch.tensor([index not in hidden for index in range(COUNT)])
    keypoints = Keypoints((xy + 0.5) * PATCH, visible)
    return View(pixels, (SIDE, SIDE), keypoints, torch.tensor([0.0, 0.0, SIDE, SIDE]), mask, name=f"view {number}")


def pairs(count, *, first=0):
    """Pairs of two categories, no view twice; one keypoint of every source and target is hidden."""
    drawn = []
    for number in range(first, first + count):
        source = view(2 * number, hidden=(1 + number % 4,))
        target = view(2 * number + 1, hidden=(1 + (number + 1) % 4,))
        drawn.append(Pair(source, target, SKELETON, ("cat", "dog")[number % 2]))
    return drawn


def without_masks(pair):
    """The pair with neither mask."""
    return replace(pair, source=replace(pair.source, mask=None), target=replace(pair.target, mask=None))


def batch(drawn):
    """The pairs stacked, as a loader without augmentation hands them over."""
    return collate([augment.plain(pair, AugmentSettings(size=SIDE)) for pair in drawn])


def config(backbone, **changes):
    """A recipe that takes seconds."""
    values = {
        "encoder": EncoderConfig(backbone=str(backbone), size=SIDE, lora=LoraSettings(rank=10, alpha=40.0)),
        "augment": AugmentSettings(size=SIDE),
        "loss": LossSettings(reduction="conditional"),
        "learning_rate": 1e-2,
        "batch_size": 4,
        "workers": 0,
        "save_every": 3,
        "cpu": True,
        **changes,
    }
    return TrainConfig(**values)


def plain_config(backbone, **changes):
    """The same without augmentation."""
    return config(backbone, augment=AugmentSettings(size=SIDE, plain=("squares",)), **changes)


def logged(folder, key="loss", kind="step"):
    """What the log of a run says about this key, step by step or validation by validation."""
    return [record[key] for record in RunFolder(folder).records() if record["kind"] == kind]


def record_gradients(monkeypatch):
    """A list that gets the gradient of every step from here on."""
    gradients = []
    step = torch.optim.Adam.step

    def recording(self, *args, **options):
        gradients.append(torch.cat([p.grad.flatten().clone() for p in self.param_groups[0]["params"]]))
        return step(self, *args, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", recording)
    return gradients


def write_spair(root: Path, *, train: int = 6, val: int = 2):
    """Views and pairs as files of SPair-71k; keypoints are the first five of a cat."""
    names = {}
    for split, count, first in (("trn", train, 0), ("val", val, 100)):
        lines = []
        for number, pair in enumerate(pairs(count, first=first)):
            source, target = (_write_view(root, end, names) for end in (pair.source, pair.target))
            lines.append(f"{number:06d}-{source}-{target}:cat")
        (root / "Layout" / "large").mkdir(parents=True, exist_ok=True)
        (root / "Layout" / "large" / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return root


def _write_view(root, squares, names):
    name = names.setdefault(squares.name, f"2008_9{len(names):05d}")  # no id of VOC
    folders = {kind: root / kind / "cat" for kind in ("JPEGImages", "ImageAnnotation", "Segmentation")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(squares.image.permute(1, 2, 0).numpy()).save(folders["JPEGImages"] / f"{name}.jpg")
    Pillow.fromarray(squares.mask.numpy().astype(np.uint8) * 8).save(folders["Segmentation"] / f"{name}.png")
    marks = {str(i): None for i in range(30)}
    points = squares.keypoints
    for i, (point, visible) in enumerate(zip(points.xy.tolist(), points.visible.tolist(), strict=True)):
        marks[str(i)] = [int(value) for value in point] if visible else None
    record = {"kps": marks, "bndbox": [0, 0, SIDE, SIDE], "image_height": SIDE, "image_width": SIDE}
    (folders["ImageAnnotation"] / f"{name}.json").write_text(json.dumps(record))
    return name
