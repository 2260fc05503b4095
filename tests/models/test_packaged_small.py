"""geco-xs, the packaged adapter for small images: it loads on geco-s alone, is small, and stays near its teacher."""

import pytest
import torch

import geco
from geco import models
from geco.models import packages, shipped, weights

NAME, TEACHER = "geco-xs", "geco-s"
FOLDER = models.folder_named(NAME)
LIMIT = 25_000_000  # bytes


@pytest.fixture(scope="module")
def model():
    return geco.load(NAME, device="cpu")


def test_it_is_a_small_adapter_of_the_packaged_model_and_not_the_default():
    assert {path.name for path in FOLDER.iterdir()} == {*weights.ADAPTER_FILES, "README.md"}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LIMIT
    config = weights.adapter_config(FOLDER)
    assert config.backbone == models.release_name(TEACHER)
    assert (config.size, config.options["layer"]) == (168, 11)
    assert models.packaged() == [TEACHER, NAME]
    assert weights.default_model() == TEACHER


def test_it_needs_neither_a_network_nor_a_cache(monkeypatch, tmp_path):
    def unavailable(*_, **__):
        raise AssertionError("another backbone was looked for")

    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "converted", unavailable)
    model = geco.load(NAME, device="cpu")
    assert (model.name, model.adapted, model.config.size) == (NAME, True, 168)
    assert not (tmp_path / "cache").exists()


def test_its_licence_is_that_of_the_model_it_adapts():
    assert models.licence_of(NAME) == models.licence_of(TEACHER)
    assert "its backbone focus-small: MIT" in models.licence_of(NAME)


def test_on_its_small_images_it_is_nearer_to_its_teacher_on_large_ones_than_the_teacher_itself(model):
    """What distillation is for; on images of smooth noise, which it was not trained on."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(4, 3, 9, 9, generator=generator)
    pictures = torch.nn.functional.interpolate(noise, size=(280, 280), mode="bicubic", align_corners=False).clamp(0, 1)
    whole = geco.load(TEACHER, device="cpu")
    small = geco.load(TEACHER, size=168, device="cpu")
    targets = [resampled(whole.extract(picture), 12) for picture in pictures]

    def nearness(encoder):
        near = [
            (encoder.extract(picture).unit().values * target).sum(0).mean()
            for picture, target in zip(pictures, targets, strict=True)
        ]
        return float(torch.stack(near).mean())

    assert nearness(model) > nearness(small)


def resampled(features, cells):
    """Unit descriptors on a grid of this many cells a side."""
    values = torch.nn.functional.interpolate(
        features.unit().values[None], size=(cells, cells), mode="bilinear", antialias=True, align_corners=False
    )[0]
    return torch.nn.functional.normalize(values, dim=0)


def test_an_adapter_of_another_release_is_refused(monkeypatch):
    monkeypatch.setattr(shipped, "release_name", lambda name: f"{name}@00000000")
    with pytest.raises(geco.GecoError, match="is not the geco-s of this release"):
        geco.load(NAME, device="cpu")
