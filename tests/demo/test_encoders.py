"""The models that the page offers: the one it was started with, its bare backbone, the packaged ones; loaded once."""

from dataclasses import replace

import pytest
import torch
from tiny_model import fresh

import geco
from geco import models
from geco.demo import Encoders, of_model
from geco.errors import InputError
from geco.models import weights


def test_a_trained_model_comes_with_its_backbone_read_alike(tiny_folder, tmp_path):
    folder = fresh(tiny_folder).save_pretrained(tmp_path / "mine")
    model = geco.load(folder, device="cpu")
    encoders = of_model(model, device="cpu")
    bare = f"{tiny_folder.name} (bare backbone)"
    assert encoders.names == ["mine", bare, *models.packaged()]
    assert encoders.named("mine") is model
    backbone = encoders.named(bare)
    assert encoders.named(bare) is backbone, "loaded once"
    assert (backbone.adapted, backbone.input_size) == (False, model.input_size)
    picture = torch.zeros(3, 56, 56, dtype=torch.uint8)
    # An adapter that has not been trained changes nothing.
    torch.testing.assert_close(backbone.extract(picture).values, model.extract(picture).values)


def test_a_bare_backbone_comes_with_the_packaged_models(tiny_folder):
    encoders = of_model(geco.load(tiny_folder, size=56, device="cpu"))
    assert encoders.names == [tiny_folder.name, *models.packaged()]


def test_the_backbone_of_a_whole_model_is_offered_where_it_is_installed(tiny_folder, tmp_path, monkeypatch):
    folder = fresh(tiny_folder).merge().save_pretrained(tmp_path / "whole")
    model = geco.load(folder, size=56, device="cpu")
    encoders = of_model(model, device="cpu")
    assert encoders.names == ["whole", f"{tiny_folder.name} (bare backbone)", *models.packaged()]
    assert encoders.missing == ""
    model.config = replace(model.config, base="focus-small")
    monkeypatch.setattr(weights, "is_available", lambda name: False)
    encoders = of_model(model, device="cpu")
    assert encoders.names == ["whole", *models.packaged()]
    assert encoders.missing.endswith("to compare with it: pip install 'geco-features[backbone]'")


def test_a_model_that_is_not_offered_is_refused(tiny_encoder):
    for name in ("../x", "", None, 3):
        with pytest.raises(InputError, match=r"there is no model .* here; choose one of tiny"):
            Encoders(tiny_encoder).named(name)
