"""Foreign weights: synthetic state dicts with the originals' key names, against a forward pass written by hand."""

import json

import pytest
import torch
from original_dinov2 import DEPTH, GRID, HEADS, PATCH, WIDTH, original
from safetensors.torch import save_file
from torch.nn import functional
from transformers import AutoConfig

from geco.backbones.dinov2 import conversion
from geco.models import adapters
from geco.system import plugins


def by_hand(state, images):
    """DINOv2's forward pass from its original weights, one line per step; no position interpolation."""
    x = functional.conv2d(images, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=PATCH)
    x = x.flatten(2).mT
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], 1) + state["pos_embed"]
    if "register_tokens" in state:
        x = torch.cat([x[:, :1], state["register_tokens"].expand(len(x), -1, -1), x[:, 1:]], 1)
    for i in range(DEPTH):
        p = {k.removeprefix(f"blocks.{i}."): v for k, v in state.items() if k.startswith(f"blocks.{i}.")}
        h = functional.layer_norm(x, (WIDTH,), p["norm1.weight"], p["norm1.bias"], 1e-6)
        q, k, v = functional.linear(h, p["attn.qkv.weight"], p["attn.qkv.bias"]).unflatten(-1, (3, HEADS, 64)).unbind(2)
        weight = torch.einsum("bnhd,bmhd->bhnm", q, k).div(8).softmax(-1)
        h = torch.einsum("bhnm,bmhd->bnhd", weight, v).flatten(2)
        x = x + p["ls1.gamma"] * functional.linear(h, p["attn.proj.weight"], p["attn.proj.bias"])
        h = functional.layer_norm(x, (WIDTH,), p["norm2.weight"], p["norm2.bias"], 1e-6)
        if "mlp.w12.weight" in p:
            gate, up = functional.linear(h, p["mlp.w12.weight"], p["mlp.w12.bias"]).chunk(2, -1)
            h = functional.linear(functional.silu(gate) * up, p["mlp.w3.weight"], p["mlp.w3.bias"])
        else:
            h = functional.gelu(functional.linear(h, p["mlp.fc1.weight"], p["mlp.fc1.bias"]))
            h = functional.linear(h, p["mlp.fc2.weight"], p["mlp.fc2.bias"])
        x = x + p["ls2.gamma"] * h
    x = functional.layer_norm(x, (WIDTH,), state["norm.weight"], state["norm.bias"], 1e-6)
    registers = state["register_tokens"].shape[1] if "register_tokens" in state else 0
    return x[:, 1 + registers :].mT.unflatten(-1, (GRID, GRID))


@pytest.mark.parametrize("options", [{}, {"registers": 4}, {"swiglu": True}], ids=["plain", "registers", "giant"])
def test_an_original_checkpoint_gives_the_same_features(tmp_path, options):
    state = original(**options)
    converted, config = conversion.from_original(state)
    save_file(converted, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    backbone = plugins.find("backbones", "dinov2").load(str(tmp_path))
    images = torch.randn(2, 3, PATCH * GRID, PATCH * GRID)
    with torch.no_grad():
        torch.testing.assert_close(backbone(pixels=images), by_hand(state, images), rtol=1e-4, atol=1e-5)


def test_the_configuration_is_read_off_the_weights():
    _, config = conversion.from_original(original(registers=4, swiglu=True))
    assert config["model_type"] == "dinov2_with_registers"
    assert (config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]) == (
        WIDTH,
        DEPTH,
        HEADS,
    )
    assert (config["patch_size"], config["image_size"], config["num_register_tokens"]) == (
        PATCH,
        PATCH * GRID,
        4,
    )
    assert config["use_swiglu_ffn"]
    assert AutoConfig.for_model(**config).hidden_size == WIDTH


def test_other_state_dicts_are_refused():
    assert conversion.from_original({"weight": torch.zeros(1)}) is None
    with pytest.raises(ValueError, match=r"has no 'head\.weight'"):
        conversion.from_original({**original(), "head.weight": torch.zeros(1)})


def test_reference_lora_is_even_query_odd_value():
    state = {f"w_{m}_{i:03d}": torch.full((1, 1), float(i)) for i in range(4) for m in "ab"}
    matrices = adapters.reference_lora(state)
    assert {key: float(down) for key, (down, _) in matrices.items()} == {
        (0, "query"): 0.0,
        (0, "value"): 1.0,
        (1, "query"): 2.0,
        (1, "value"): 3.0,
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["fc.weight"], "found none"),
        (["w_a_000"], "incomplete"),
        (["w_a_001", "w_b_001"], "expected w_a_000"),
    ],
)
def test_incomplete_reference_checkpoints_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        adapters.reference_lora({key: torch.zeros(1) for key in keys})
