"""OpenAI's ADM (guided-diffusion, unconditional, 256 × 256) as diffusers' UNet2DModel: names, and the order of qkv.

diffusers' own scripts are for other networks: they split qkv into three equal parts, which runs and is wrong here.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from geco.backbones._contract import Converted, State
from geco.backbones._diffusion import library
from geco.errors import InputError

FILE = "256x256_diffusion_uncond.pt"
WIDTHS = (1, 1, 2, 2, 4, 4)  # of the levels, in multiples of the first
PER_LEVEL = 2  # residual blocks on the way down; one more on the way up
ATTENTION_FROM = 3  # the first level with attention: 32 × 32 cells of a 256-pixel image
HEAD_WIDTH = 64
OUTPUTS = 6  # mean and variance of the noise in three colours

Module = tuple[str, str, str]  # its kind, its name in the original, its name in diffusers

RESIDUAL = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
SHORTCUT = "skip_connection"  # only where the number of channels changes
RECOGNISED_BY = {"time_embed.0.weight", "input_blocks.0.0.weight", "middle_block.1.qkv.weight"}


def from_original(state: State) -> Converted | None:
    """Weights and configuration of the UNet2DModel that an original checkpoint is; None of another family's."""
    if not set(state) >= RECOGNISED_BY:
        return None
    _check_kind(state)
    config = configuration([state["input_blocks.0.0.weight"].shape[0] * width for width in WIDTHS])
    converted: State = {}
    remaining = dict(state)
    for kind, original, name in _modules():
        for key, value in _converted(kind, original, remaining).items():
            converted[f"{name}.{key}"] = value
    if remaining:
        raise InputError(f"has {len(remaining)} weights that {FILE} has not, first {min(remaining)}")
    wanted = network(config).state_dict()
    missing = sorted(set(wanted) - set(converted))
    if missing:  # a shortcut, which is not in every block
        raise InputError(f"lacks {len(missing)} weights of {FILE}, first {missing[0]} (in diffusers)")
    for key, value in wanted.items():
        if converted[key].shape != value.shape:
            shapes = f"{tuple(converted[key].shape)}, expected {tuple(value.shape)}"
            raise InputError(f"{key} (in diffusers) has shape {shapes}")
    return converted, config


def configuration(widths: list[int]) -> dict[str, Any]:
    """config.json of an ADM whose levels have these widths."""
    attended = len(WIDTHS) - ATTENTION_FROM
    return {
        "_class_name": "UNet2DModel",
        "in_channels": 3,
        "out_channels": OUTPUTS,
        "block_out_channels": widths,
        "layers_per_block": PER_LEVEL,
        "attention_head_dim": HEAD_WIDTH,
        "down_block_types": ["ResnetDownsampleBlock2D"] * ATTENTION_FROM + ["AttnDownBlock2D"] * attended,
        "up_block_types": ["AttnUpBlock2D"] * attended + ["ResnetUpsampleBlock2D"] * ATTENTION_FROM,
        "resnet_time_scale_shift": "scale_shift",
        "attn_norm_num_groups": 32,
        "downsample_type": "resnet",
        "upsample_type": "resnet",
    }


def network(config: dict[str, Any]) -> Any:
    """The UNet2DModel of a configuration, on the meta device: it has shapes and no numbers yet."""
    diffusers = library("the backbone dift-adm")
    with torch.device("meta"):
        return diffusers.UNet2DModel(**{key: value for key, value in config.items() if key != "_class_name"})


def _check_kind(state: State) -> None:
    """Refuse other networks of the same release, saying which it is."""
    colours = state["input_blocks.0.0.weight"].shape[1]
    if "label_emb.weight" in state:
        looks = "a class-conditional network, such as 256x256_diffusion.pt"
    elif not any(key.startswith("output_blocks.") for key in state):
        looks = "a classifier, such as 256x256_classifier.pt"
    elif colours != 3:
        looks = f"a network with {colours} input channels, such as an upsampler"
    else:
        return
    raise InputError(f"looks like {looks}; expected {FILE}")


def _modules() -> Iterator[Module]:
    """Every part of the network, in the order of the original."""
    yield "plain", "time_embed.0", "time_embedding.linear_1"
    yield "plain", "time_embed.2", "time_embedding.linear_2"
    yield "plain", "input_blocks.0.0", "conv_in"
    number, last = 1, len(WIDTHS) - 1
    for level in range(len(WIDTHS)):
        for place in range(PER_LEVEL):
            yield "residual", f"input_blocks.{number}.0", f"down_blocks.{level}.resnets.{place}"
            if level >= ATTENTION_FROM:
                yield "attention", f"input_blocks.{number}.1", f"down_blocks.{level}.attentions.{place}"
            number += 1
        if level < last:
            yield "residual", f"input_blocks.{number}.0", f"down_blocks.{level}.downsamplers.0"
            number += 1
    yield "residual", "middle_block.0", "mid_block.resnets.0"
    yield "attention", "middle_block.1", "mid_block.attentions.0"
    yield "residual", "middle_block.2", "mid_block.resnets.1"
    for level in range(len(WIDTHS)):  # from the coarsest
        attended = level < len(WIDTHS) - ATTENTION_FROM
        for place in range(PER_LEVEL + 1):
            block = f"output_blocks.{level * (PER_LEVEL + 1) + place}"
            yield "residual", f"{block}.0", f"up_blocks.{level}.resnets.{place}"
            if attended:
                yield "attention", f"{block}.1", f"up_blocks.{level}.attentions.{place}"
            if place == PER_LEVEL and level < last:  # it comes after the attention, if there is one
                yield "residual", f"{block}.{2 if attended else 1}", f"up_blocks.{level}.upsamplers.0"
    yield "plain", "out.0", "conv_norm_out"
    yield "plain", "out.2", "conv_out"


def _converted(kind: str, prefix: str, remaining: State) -> State:
    """The weights of one part under diffusers' names, taken out of those that remain."""

    def take(name: str) -> Tensor:
        key = f"{prefix}.{name}" if name else prefix
        if key not in remaining:
            raise InputError(f"lacks {key}; expected the whole {FILE}")
        return remaining.pop(key)

    both = ("weight", "bias")
    if kind == "plain":
        return {part: take(part) for part in both}
    if kind == "residual":
        present = {
            old: new for old, new in RESIDUAL.items() if old != SHORTCUT or f"{prefix}.{old}.weight" in remaining
        }
        return {f"{new}.{part}": take(f"{old}.{part}") for old, new in present.items() for part in both}
    state = {f"group_norm.{part}": take(f"norm.{part}") for part in both}
    for part in both:
        for name, rows in zip("qkv", split_qkv(take(f"qkv.{part}")), strict=True):
            state[f"to_{name}.{part}"] = rows
    weight, bias = take("proj_out.weight"), take("proj_out.bias")
    return {**state, "to_out.0.weight": weight.flatten(1), "to_out.0.bias": bias}


def split_qkv(fused: Tensor) -> tuple[Tensor, ...]:
    """Query, key and value of a fused projection (3 c, c, 1) or its bias, whose rows are ordered (head, q | k | v, 64).

    Weights of convolutions over one cell become those of linear layers.
    """
    heads = fused.unflatten(0, (-1, 3, HEAD_WIDTH))
    return tuple(rows.flatten(0, 1).flatten(1) if fused.ndim > 1 else rows.flatten() for rows in heads.unbind(1))
