"""GECO (Hartwig et al. 2025) as its authors released it: their LoRA file on DINOv2-B."""

from collections.abc import Mapping

from torch import Tensor

from geco.backbones import Part, Source, ViT, read_part
from geco.backbones.dinov2 import load as load_dinov2

HOME = "github.com/reginehartwig/geco"
FIRST = ("w_a_000", "w_b_000")  # the matrices of the first block's queries
SOURCES = {
    "geco": Source(
        note=f"the authors' adapter on DINOv2-B, from {HOME}",
        licence=f"see {HOME} (adapter), Apache-2.0 (DINOv2)",
        home=f"the LoRA file of {HOME}",
    ),
}


def _is_lora(state: Mapping[str, Tensor]) -> bool:
    return any(key in state for key in FIRST)


PARTS = {
    "dinov2": Part("DINOv2-B", default="dinov2-base", backbone=True),
    "lora": Part("a LoRA file of GECO's authors (w_a_000, w_b_000, …)", recognise=_is_lora, home=HOME),
}


def load(parts: Mapping[str, str]) -> ViT:
    """DINOv2 with the last block and the final norm, and `adapter`: the weights that belong into it."""
    state = read_part(parts["lora"], PARTS["lora"])
    backbone = load_dinov2(parts["dinov2"])
    backbone.adapter = state  # put in place, as an adapter that can be trained further, by `geco.models`
    return backbone
