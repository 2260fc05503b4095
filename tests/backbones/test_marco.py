"""MARCO: its file's keys and size, and its network one line per step."""

import pytest
import torch
from small_rows import marco_state, write_marco
from torch.nn import functional
from transformers import Dinov2WithRegistersModel

from geco import images
from geco.backbones import marco
from geco.models.geco import Geco


def by_hand(vit, state, pixels):
    x = vit.embeddings(pixels)
    for i, layer in enumerate(vit.encoder.layer):
        x = x + layer.layer_scale1(layer.attention(layer.norm1(x))[0])
        added = layer.layer_scale2(layer.mlp(layer.norm2(x)))
        p = {k.removeprefix(f"dino.blocks.{i}.adapter."): v for k, v in state.items() if f".{i}.adapter." in k}
        if p:
            h = functional.layer_norm(
                x, x.shape[-1:], p["adapter_layer_norm_before.weight"], p["adapter_layer_norm_before.bias"], 1e-5
            )
            h = (h @ p["down_proj.weight"].T + p["down_proj.bias"]).clamp_min(0)
            added = added + 0.1 * (h @ p["up_proj.weight"].T + p["up_proj.bias"])
        x = x + added
    x = vit.layernorm(x)[:, 5:].mT.unflatten(-1, (pixels.shape[-2] // 14, pixels.shape[-1] // 14))
    for i in (0, 1):
        p = {k.removeprefix(f"upscale.{i}."): v for k, v in state.items()}
        x = functional.gelu(functional.conv_transpose2d(x, p["conv1.weight"], p["conv1.bias"], stride=2))
        x = functional.conv2d(x, p["conv2.weight"], padding=1, groups=x.shape[1])
        mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
        x = (x - mean) / (var + 1e-6).sqrt() * p["norm.weight"][:, None, None] + p["norm.bias"][:, None, None]
    return x


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    return write_marco(tmp_path)


@torch.no_grad()
def test_the_map_is_that_of_the_published_network_over_the_root_of_its_width(folder):
    model = Geco.from_pretrained(folder, size=84, device="cpu")
    pixels = torch.randn(2, 3, 42, 70)
    expected = by_hand(Dinov2WithRegistersModel.from_pretrained(folder / "vit").eval(), marco_state(), pixels)
    torch.testing.assert_close(model(pixels=pixels) * 32**0.5, expected, rtol=1e-4, atol=1e-4)
    assert (model.similarity, model.dim, model.stride) == ("dot", 32, 14)


def test_the_image_lies_in_the_upper_left_and_the_border_is_zero(folder):
    model = Geco.from_pretrained(folder, size=84, device="cpu")
    picture = torch.full((3, 40, 60), 200, dtype=torch.uint8)
    canvas = model.prepare(picture)["pixels"]
    assert canvas.shape == (3, 84, 84)
    assert canvas[:, 56:].abs().max() < 1e-6
    red = (200 / 255 - images.IMAGENET_MEAN[0]) / images.IMAGENET_STD[0]
    torch.testing.assert_close(canvas[0, :56], torch.full((56, 84), red))
    assert model.extract(picture).values.shape == (32, 16, 24)  # four rows of six patches, each four times finer


def test_the_released_file_has_these_keys_and_this_size():
    with torch.device("meta"):
        adapters = {i: marco._Adapter(1024, 512) for i in range(15, 24)}
        named = marco._Named(adapters, torch.nn.Sequential(*(marco._Upsampling(1024) for _ in range(2))))
    shapes = {key: tuple(value.shape) for key, value in named.state_dict().items()}
    small = marco_state(width=2, inner=1, blocks=range(15, 24))
    assert set(shapes) == set(small)
    assert len(shapes) == 64
    # With DINOv2-L's 304.4 M this is the 323 M that its authors state.
    assert sum(value.numel() for value in named.parameters()) == 17_882_624


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: {k: v for k, v in s.items() if "conv2" not in k}, r"MARCO's file needs 'upscale\.0\.conv2\.weight'"),
        (lambda s: s | {"head.weight": torch.zeros(2)}, r"MARCO's file has no 'head\.weight'"),
        (lambda s: marco_state(blocks=(1, 9)), "adapts block 9, .* has 3"),
        (lambda s: marco_state(width=48), "was not trained on .* 32 channels"),
        (lambda s: {"sphere_mapper.0.weight": torch.zeros(2, 2)}, "is a mapper of SphericalMaps; expected MARCO's"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder, change, words):
    torch.save({"model": change(marco_state())}, folder / "marco_release.pth")
    with pytest.raises(ValueError, match=words):
        Geco.from_pretrained(folder)
