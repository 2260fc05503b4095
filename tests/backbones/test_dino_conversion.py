"""Original files of DINO and DINOv3 against forward passes written by hand; and who takes which file."""

import math

import pytest
import torch
from original_dinov2 import original
from original_vits import original_dino, original_dinov3
from torch.nn import functional

from geco.models import weights
from geco.models.geco import Geco
from geco.system import plugins

HEAD = 64


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))


def attention(p, h, turn):
    width = h.shape[-1]
    bias = p["attn.qkv.bias"] * p.get("attn.qkv.bias_mask", 1)
    q, k, v = functional.linear(h, p["attn.qkv.weight"], bias).unflatten(-1, (3, width // HEAD, HEAD)).unbind(2)
    share = torch.einsum("bnhd,bmhd->bhnm", turn(q), turn(k)).div(8).softmax(-1)
    h = torch.einsum("bhnm,bmhd->bnhd", share, v).flatten(2)
    return functional.linear(h, p["attn.proj.weight"], p["attn.proj.bias"])


def mlp(p, h):
    if "mlp.w1.weight" in p:
        gate, up = (functional.linear(h, p[f"mlp.w{n}.weight"], p[f"mlp.w{n}.bias"]) for n in (1, 2))
        return functional.linear(functional.silu(gate) * up, p["mlp.w3.weight"], p["mlp.w3.bias"])
    h = functional.gelu(functional.linear(h, p["mlp.fc1.weight"], p["mlp.fc1.bias"]))
    return functional.linear(h, p["mlp.fc2.weight"], p["mlp.fc2.bias"])


def by_hand(state, images, *, eps, turn=lambda x: x):
    """A ViT's forward pass from original weights, one line per step; no position interpolation."""
    width, _, patch, _ = state["patch_embed.proj.weight"].shape
    x = functional.conv2d(images, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=patch)
    grid = x.shape[-2:]
    prefix = [state[name].expand(len(x), -1, -1) for name in ("cls_token", "storage_tokens") if name in state]
    x = torch.cat([*prefix, x.flatten(2).mT], 1) + state.get("pos_embed", 0)
    depth = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("blocks."))
    for i in range(depth):
        p = {k.removeprefix(f"blocks.{i}."): v for k, v in state.items() if k.startswith(f"blocks.{i}.")}
        h = functional.layer_norm(x, (width,), p["norm1.weight"], p["norm1.bias"], eps)
        x = x + p.get("ls1.gamma", 1) * attention(p, h, turn)
        h = functional.layer_norm(x, (width,), p["norm2.weight"], p["norm2.bias"], eps)
        x = x + p.get("ls2.gamma", 1) * mlp(p, h)
    x = functional.layer_norm(x, (width,), state["norm.weight"], state["norm.bias"], eps)
    return x[:, sum(t.shape[1] for t in prefix) :].mT.unflatten(-1, grid)


def rotation(state, rows, columns):
    """Rotary positions: channel c of a half is turned against c of the other by 2π · coordinate / period."""
    periods = state["rope_embed.periods"]
    y, x = ((torch.arange(n) + 0.5) / n * 2 - 1 for n in (rows, columns))
    y, x = y[:, None].expand(rows, columns).flatten(), x.expand(rows, columns).flatten()
    angle = 2 * math.pi * torch.cat([y[:, None] / periods, x[:, None] / periods], 1)  # (n, 32)

    def turn(tokens):
        head, patches = tokens[:, : -len(angle)], tokens[:, -len(angle) :]
        a, b = patches.chunk(2, -1)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        return torch.cat([head, torch.cat([a * cos - b * sin, b * cos + a * sin], -1)], 1)

    return turn


def loaded(tmp_path, state, **options):
    torch.save(state, tmp_path / "original.pth")
    return Geco.from_pretrained(tmp_path / "original.pth", device="cpu", **options).backbone


def test_an_original_dino_gives_the_same_features(tmp_path):
    state = original_dino()
    backbone = loaded(tmp_path, state, layer=2)
    assert weights.locate(str(tmp_path / "original.pth")).family == "dino"
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(backbone(pixels=images), by_hand(state, images, eps=1e-6), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_an_original_dinov3_gives_the_same_features(tmp_path, gated):
    state = original_dinov3(gated=gated)
    backbone = loaded(tmp_path, state)
    assert weights.locate(str(tmp_path / "original.pth")).family == "dinov3"
    images = torch.randn(2, 3, 48, 80)
    with torch.no_grad():
        expected = by_hand(state, images, eps=1e-5, turn=rotation(state, 3, 5))
        torch.testing.assert_close(backbone(pixels=images), expected, rtol=1e-4, atol=1e-5)


def convert(family, state):
    return plugins.find("backbones", family).convert(state)


def test_the_file_of_the_paper_s_baseline():
    """`dino_vitbase8_pretrain.pth` by its 150 names and shapes: 85.8 M numbers, each of which transformers has."""
    from transformers import ViTConfig, ViTModel

    state = original_dino(width=768, depth=12, patch=8, grid=28, device="meta")
    assert len(state) == 150
    converted, config = convert("dino", state)
    assert (config["image_size"], config["num_attention_heads"], config["intermediate_size"]) == (224, 12, 3072)
    with torch.device("meta"):
        model = ViTModel(ViTConfig(**config), add_pooling_layer=False)
    assert (
        sum(value.numel() for value in converted.values()) == sum(p.numel() for p in model.parameters()) == 85_807_872
    )
    assert len(converted) == 150 + 2 * 2 * 12
    attention_names = {
        f"encoder.layer.{i}.attention.attention.{n}.{k}"
        for i in range(12)
        for n in ("query", "key", "value")
        for k in ("weight", "bias")
    }
    assert attention_names < set(converted)
    assert converted["encoder.layer.11.attention.attention.value.weight"].shape == (768, 768)


@pytest.mark.parametrize(
    ("state", "family"),
    [(original_dino, "dino"), (original, "dinov2"), (original_dinov3, "dinov3")],
)
def test_one_family_takes_each_file(state, family):
    takers = [name for name in ("dino", "dinov2", "dinov3") if convert(name, state()) is not None]
    assert takers == [family]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: {k: v for k, v in s.items() if not k.startswith("blocks.1.mlp")},
            "does not hold a complete ViTModel",
        ),
        (lambda s: s | {"head.weight": torch.zeros(2)}, r"no whole checkpoint of dino: .* has no 'head\.weight'"),
        (lambda s: {f"module.{k}": v for k, v in s.items()}, "no original checkpoint of .* its keys begin with module"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        loaded(tmp_path, change(original_dino()))
