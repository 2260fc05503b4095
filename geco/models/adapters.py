"""Low-rank adapters: put into a backbone, filled from PEFT's layout or from the reference implementation's."""

import re
from typing import Any

import torch
from torch import Tensor

from geco.backbones import Backbone, PlainBackbone
from geco.errors import InputError, needing
from geco.models.settings import LoraSettings
from geco.system import documents, tensors


def add_lora(backbone: Backbone, lora: LoraSettings, *, base: str) -> Any:
    """The backbone's network with an adapter of these settings, which starts as the identity; `base` is its name."""
    with needing("training an adapter, or keeping it apart from its backbone,"):
        from peft import LoraConfig, get_peft_model
    if not backbone.adaptable:
        raise InputError(f"{base} has no projections to adapt; use it as it is, with lora=None")
    unknown = sorted(set(lora.projections) - set(backbone.adaptable))
    if unknown:
        known = documents.listed(backbone.adaptable)
        raise InputError(f"projections must be among {known}, got {documents.listed(unknown)}")
    if lora.rank > backbone.dim:
        raise InputError(f"rank must be at most {backbone.dim}, the width of {base}, got {lora.rank}")
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules=[backbone.adaptable[name] for name in lora.projections],
    )
    adapted = get_peft_model(backbone.encoder, settings)
    adapted.peft_config["default"].base_model_name_or_path = base
    return adapted


def fill(encoder: Any, state: dict[str, Tensor], *, name: str, base: str) -> None:
    """Take an adapter's weights, all of them and of the right shapes, or an error that names the first that is not."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    expected = get_peft_model_state_dict(encoder, save_embedding_layers=False)
    wrong = sorted(set(expected) ^ set(state)) or sorted(
        key for key in expected if expected[key].shape != state[key].shape
    )
    if wrong:
        raise InputError(f"{name} does not fit its backbone {base}: {len(wrong)} weights, first {wrong[0]}")
    tensors.check_floating(state, name)
    tensors.check_finite(state, name)
    set_peft_model_state_dict(encoder, state)


@torch.no_grad()
def merge_into(backbone: PlainBackbone, state: dict[str, Tensor], lora: LoraSettings, *, name: str, base: str) -> None:
    """Add an adapter, all of it and of the right shapes, to the weights it adapts: what PEFT does, without PEFT."""
    unknown = sorted(set(lora.projections) - set(backbone.adaptable))
    targets = backbone.projections([word for word in lora.projections if word in backbone.adaptable])
    found: dict[tuple[str, str], Tensor] = {}
    for key, value in state.items():
        part = re.fullmatch(r"base_model\.model\.(.+)\.lora_([AB])\.weight", key)
        found[(backbone.name_of(part[1]), part[2]) if part else (key, "")] = value
    shapes = {
        (module, side): (lora.rank, layer.in_features) if side == "A" else (layer.out_features, lora.rank)
        for module, layer in targets.items()
        for side in "AB"
    }
    wrong = unknown or sorted(" ".join(key) for key in found.keys() ^ shapes.keys())
    wrong = wrong or sorted(" ".join(key) for key, shape in shapes.items() if tuple(found[key].shape) != shape)
    if wrong:
        raise InputError(f"{name} does not fit its backbone {base}: {len(wrong)} weights, first {wrong[0]}")
    tensors.check_floating(state, name)
    tensors.check_finite(state, name)
    for module, layer in targets.items():
        layer.weight += found[module, "B"].float() @ found[module, "A"].float() * (lora.alpha / lora.rank)


def reference_lora(
    state: dict[str, Tensor], *, name: str = "the checkpoint"
) -> dict[tuple[int, str], tuple[Tensor, Tensor]]:
    """(block, projection) → (A (rank, dim), B (dim, rank)) of `w_a_000…`/`w_b_000…`: even query, odd value."""
    downs = sorted(key for key in state if re.fullmatch(r"w_a_\d{3}", key))
    if not downs:
        raise InputError(f"{name}: expected a LoRA checkpoint with keys w_a_000, w_b_000, …, found none of them")
    adapters = {}
    for position, key in enumerate(downs):
        up = key.replace("w_a_", "w_b_")
        if key != f"w_a_{position:03d}" or up not in state:
            raise InputError(
                f"{name}: the LoRA checkpoint is incomplete: expected w_a_{position:03d} with its w_b, found {key}"
            )
        down, rank = state[key], state[downs[0]].shape[0] if state[downs[0]].ndim == 2 else 0
        if not rank or down.ndim != 2 or down.shape[0] != rank or state[up].shape != (state[up].shape[0], rank):
            shapes = f"{tuple(down.shape)} and {tuple(state[up].shape)}"
            raise InputError(f"{name}: {key} and {up} must be (rank, dim) and (dim, rank), got {shapes}")
        adapters[position // 2, ("query", "value")[position % 2]] = (state[key], state[up])
    return adapters


def as_peft(adapters: dict[tuple[int, str], tuple[Tensor, Tensor]], backbone: Backbone) -> dict[str, Tensor]:
    """What `reference_lora` read, under the names that PEFT gives the same matrices in this backbone."""
    prefixes = _prefixes(backbone.encoder)
    state: dict[str, Tensor] = {}
    for (block, projection), (down, up) in adapters.items():
        prefix = prefixes[block, backbone.adaptable[projection]]
        state |= {f"{prefix}.lora_A.weight": down, f"{prefix}.lora_B.weight": up}
    return state


def _prefixes(encoder: Any) -> dict[tuple[int, str], str]:
    """(block, projection module) → prefix of its adapter weights in a PEFT state dict."""
    from peft import get_peft_model_state_dict

    prefixes = {}
    for key in get_peft_model_state_dict(encoder, save_embedding_layers=False):
        prefix, matrix, _ = key.rsplit(".", 2)
        if matrix == "lora_A":
            block = next(int(part) for part in prefix.split(".") if part.isdigit())
            prefixes[block, prefix.rsplit(".", 1)[1]] = prefix
    return prefixes
