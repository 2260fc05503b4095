"""Any backbone of transformers: its own maps, at the strides and sizes that the network has."""

import json

import pytest
import torch
from small_rows import AUTO, write_auto
from transformers import BeitBackbone, ConvNextBackbone, HieraBackbone, ResNetBackbone, SwinBackbone

from geco.models import weights
from geco.models.geco import Geco

KINDS = {
    "swin": SwinBackbone,
    "convnext": ConvNextBackbone,
    "resnet": ResNetBackbone,
    "hiera": HieraBackbone,
    "beit": BeitBackbone,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("auto")
    torch.manual_seed(0)
    for name in AUTO:
        (root / name).mkdir()
        write_auto(name, root / name)
    return root


def load(folder, **options):
    return Geco.from_pretrained(folder, device="cpu", **options)


@pytest.mark.parametrize(
    ("name", "layer", "dim", "stride", "multiple"),
    [
        ("swin", 3, 48, 16, 32),
        ("convnext", 3, 16, 16, 32),
        ("resnet", 3, 16, 16, 32),
        ("hiera", 3, 32, 16, 64),  # it has a position for each cell of one size
        ("beit", 3, 24, 16, 16),
    ],
)
@torch.no_grad()
def test_the_map_is_transformers_own(folders, name, layer, dim, stride, multiple):
    model = load(folders / name, size=64)
    backbone = model.backbone
    assert weights.locate(str(folders / name)).family == "auto"
    assert (backbone.dim, backbone.stride, backbone.multiple) == (dim, stride, multiple)
    assert backbone.options["layer"] == layer
    pixels = torch.randn(2, 3, 64, 64)
    theirs = KINDS[name].from_pretrained(folders / name, out_features=[f"stage{layer}"]).eval()
    torch.testing.assert_close(model(pixels=pixels), theirs(pixels).feature_maps[0], rtol=1e-4, atol=1e-5)


def test_every_stage_can_be_read(folders):
    grids = [load(folders / "swin", layer=n, size=96).extract(torch.zeros(3, 9, 9)).grid for n in (1, 4)]
    assert grids == [(24, 24), (3, 3)]
    with pytest.raises(ValueError, match="layer must be between 1 and 4 for this backbone, got 5"):
        load(folders / "swin", layer=5)
    with pytest.raises(ValueError, match="auto backbones have no option norm"):
        load(folders / "swin", norm=False)


def test_the_size_is_that_of_its_training(folders):
    assert load(folders / "hiera").input_size == 64
    assert load(folders / "resnet").input_size == 224
    with pytest.raises(ValueError, match="takes images of 64 pixels only, got 128×128"):
        load(folders / "hiera", size=128).extract(torch.zeros(3, 9, 9))


def test_colours_are_normalised_as_the_folder_says(folders):
    assert load(folders / "beit").backbone.options["mean"] == [0.485, 0.456, 0.406]
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_resize": True}
    (folders / "beit" / "preprocessor_config.json").write_text(json.dumps(half))
    model = load(folders / "beit")
    assert (model.backbone.options["mean"], model.backbone.options["std"]) == ([0.5] * 3, [0.5] * 3)
    white = model.prepare(torch.full((3, 8, 8), 255, dtype=torch.uint8))["pixels"]
    torch.testing.assert_close(white, torch.ones_like(white))
    other = load(folders / "beit", mean=[0.0] * 3, std=[1.0] * 3)
    assert other.prepare(torch.full((3, 8, 8), 255, dtype=torch.uint8))["pixels"].max() == 1
    assert other.fingerprint() != model.fingerprint()
    with pytest.raises(ValueError, match="std must be three numbers from 0 to 1"):
        load(folders / "beit", std=[0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"depths": [1, 1, 1, 10**9]}, "depths: expected at most 512"),
        ({"embed_dim": 10**7}, "embed_dim: expected at most 65536"),
        ({"embed_dim": "wide"}, "is no configuration of a swin"),
        ({"embed_dim": 24}, "the weights do not fit|does not hold a complete SwinBackbone"),
        ({"depths": [1, 1, 2, 1]}, "does not hold a complete SwinBackbone"),
        ({"num_channels": 1}, "cannot be used as a backbone|the weights do not fit"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "asks for code"),
    ],
)
def test_a_configuration_that_is_not_the_weights_is_refused(folders, tmp_path, change, words):
    values = json.loads((folders / "swin" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | change))
    (tmp_path / "model.safetensors").symlink_to(folders / "swin" / "model.safetensors")
    with pytest.raises(ValueError, match=words):
        load(tmp_path)
