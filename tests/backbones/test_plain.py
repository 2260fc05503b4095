"""The vision transformer by torch alone gives what transformers gives, for every family and size it covers."""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import (
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    ViTConfig,
    ViTModel,
)

from geco.backbones import dino, dinov2
from geco.backbones._plain import load_plain
from geco.errors import InputError

SMALL = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}


def folder_of(model, path):
    """A random model whose every weight matters, saved as transformers does."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.2)
    model.save_pretrained(path)
    return str(path)


FAMILIES = {
    "dinov2": lambda: Dinov2Model(Dinov2Config(**SMALL, image_size=56, patch_size=14, layer_norm_eps=1e-3)),
    "swiglu": lambda: Dinov2Model(Dinov2Config(**SMALL, image_size=56, patch_size=14, use_swiglu_ffn=True)),
    "no-bias": lambda: Dinov2Model(Dinov2Config(**SMALL, image_size=56, patch_size=14, qkv_bias=False)),
    "registers": lambda: Dinov2WithRegistersModel(
        Dinov2WithRegistersConfig(**SMALL, image_size=56, patch_size=14, num_register_tokens=3)
    ),
    "dino": lambda: ViTModel(
        ViTConfig(**SMALL, image_size=32, patch_size=8, intermediate_size=50), add_pooling_layer=False
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return folder_of(FAMILIES[request.param](), tmp_path_factory.mktemp(request.param))


def both(folder, **options):
    family = dino if json.loads(Path(folder, "config.json").read_text())["model_type"] == "vit" else dinov2
    return family.load(folder, **options), load_plain(folder, from_last=3 if family is dino else 0, **options)


@pytest.mark.parametrize("sides", [(4, 4), (7, 7), (3, 5), (1, 2)])
@pytest.mark.parametrize("options", [{"layer": None, "norm": True}, {"layer": 2, "norm": False}])
def test_features_are_those_of_transformers(folder, sides, options):
    theirs, ours = both(folder, **options)
    patch = theirs.stride
    pixels = torch.randn(2, 3, sides[0] * patch, sides[1] * patch, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, values = theirs(pixels), ours(pixels)
    assert values.shape == (2, 24, *sides)
    assert_close(values, expected, atol=1e-5, rtol=1e-5)
    assert (ours.dim, ours.stride, ours.multiple, ours.options) == (
        theirs.dim,
        theirs.stride,
        theirs.multiple,
        theirs.options,
    )


def test_the_traceable_network_has_the_same_features_at_every_size(folder):
    """Its positions come from products of matrices; torch's come from its own interpolation."""
    ours = load_plain(folder, layer=2, norm=True)
    traceable = ours.traceable()
    for sides in ((4, 4), (7, 7), (3, 5), (1, 2), (9, 2)):
        size = (sides[0] * ours.stride, sides[1] * ours.stride)
        pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
        with torch.inference_mode():
            expected = ours(pixels)
            assert_close(traceable.positions(sides), ours.encoder.positions(sides), atol=1e-6, rtol=1e-5)
            assert_close(traceable(pixels), expected, atol=1e-5, rtol=1e-5)
            assert torch.equal(ours.traceable(size)(pixels), expected)


def test_what_it_saves_is_opened_by_transformers_and_is_the_same(folder, tmp_path):
    theirs, ours = both(folder, layer=2, norm=True)
    ours.encoder.save_pretrained(str(tmp_path))
    again, _ = both(str(tmp_path), layer=2, norm=True)
    pixels = torch.randn(1, 3, 3 * theirs.stride, 4 * theirs.stride, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(again(pixels), theirs(pixels))


def test_other_networks_are_left_to_transformers(tmp_path):
    place = folder_of(Dinov2Model(Dinov2Config(**SMALL, hidden_act="relu", image_size=28, patch_size=14)), tmp_path)
    assert load_plain(place, layer=None, norm=True) is None


def test_weights_of_another_shape_are_named(tmp_path):
    place = folder_of(Dinov2Model(Dinov2Config(**SMALL, image_size=28, patch_size=14)), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 4}))
    with pytest.raises(InputError, match=r"the weights do not fit config.json: 18 of them, first .blocks.3"):
        load_plain(place, layer=None, norm=True)
    (tmp_path / "config.json").write_text(json.dumps({**config, "patch_size": 7}))
    with pytest.raises(InputError, match=r"the weights do not fit config.json: 2 of them, first .patches.weight"):
        load_plain(place, layer=None, norm=True)
