"""Vision transformers as Meta's repositories save them (blocks.0.attn.qkv.weight, …), under Hugging Face's names."""

import math
import re
from collections.abc import Sequence
from typing import Any

from geco.backbones._contract import State
from geco.errors import InputError

PROBES = {"cls_token", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "norm.weight"}  # all of them have these
LAYER_SCALE = "blocks.0.ls1.gamma"  # DINOv2 and DINOv3 have it, DINO has not
FUSED = re.compile(r"^blocks\.(\d+)\.attn\.qkv\.(weight|bias)$")

Table = Sequence[tuple[str, str]]  # patterns and what replaces them; the first that fits is taken


def renamed(
    state: State, table: Table, *, projections: str, names: Sequence[str] = ("query", "key", "value"), what: str
) -> State:
    """The state dict under other names; query, key and value apart, called `names` in `projections` (block, kind)."""
    converted: State = {}
    for key, value in state.items():
        fused = FUSED.match(key)
        if fused:
            block, kind = fused.groups()
            for name, part in zip(names, value.chunk(3), strict=True):
                converted[projections.format(block=block, projection=name, kind=kind)] = part.contiguous()
        else:
            converted[_renamed(key, table, what)] = value
    return converted


def _renamed(key: str, table: Table, what: str) -> str:
    for pattern, replacement in table:
        new, count = re.subn(pattern, replacement, key)
        if count:
            return new
    raise InputError(f"an original {what} state dict has no {key!r}")


def shape(state: State) -> dict[str, Any]:
    """What the weights say of their configuration: width, depth, patch, and the side of the images if they tell."""
    width, _, patch, _ = state["patch_embed.proj.weight"].shape
    sides = {}
    if "pos_embed" in state:
        sides = {"image_size": math.isqrt(state["pos_embed"].shape[1] - 1) * patch}
    return {
        "hidden_size": width,
        "num_hidden_layers": 1 + max(int(key.split(".")[1]) for key in state if key.startswith("blocks.")),
        "patch_size": patch,
        **sides,
    }
