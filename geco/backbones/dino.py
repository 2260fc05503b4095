"""DINO (Caron et al. 2021), the paper's baseline row: ViT-B/8 at 224 pixels, fourth-to-last layer."""

from geco.backbones import PlainBackbone, Source, ViT, load_encoder, load_plain
from geco.backbones._contract import Converted, State
from geco.backbones._original_vit import LAYER_SCALE, PROBES, renamed, shape

MODEL_TYPES = ("vit",)
LICENCE = "Apache-2.0"
DEFAULT = Source(size=224)
SOURCES = {
    f"dino-{size}": Source(hub=f"facebook/dino-{size}", size=224, licence=LICENCE)
    for size in ("vits8", "vits16", "vitb8", "vitb16")
}
# The fourth-to-last block is best for correspondence (GECO supplement, feature encoder settings).
FROM_LAST = 3
HEAD_WIDTH = 64  # of the small and the base model

RENAMED = (
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"encoder.layer.\1.attention.output.dense."),
    (r"^blocks\.(\d+)\.norm1\.", r"encoder.layer.\1.layernorm_before."),
    (r"^blocks\.(\d+)\.norm2\.", r"encoder.layer.\1.layernorm_after."),
    (r"^blocks\.(\d+)\.mlp\.fc1\.", r"encoder.layer.\1.intermediate.dense."),
    (r"^blocks\.(\d+)\.mlp\.fc2\.", r"encoder.layer.\1.output.dense."),
    (r"^norm\.", "layernorm."),
)
PROJECTIONS = "encoder.layer.{block}.attention.attention.{projection}.{kind}"


def convert(state: State) -> Converted | None:
    """Weights and configuration in Hugging Face form of an original `dino_vitbase8_pretrain.pth` or a sibling."""
    if not PROBES | {"pos_embed"} <= set(state) or LAYER_SCALE in state:
        return None
    given = shape(state)
    config = {
        "architectures": ["ViTModel"],
        "model_type": "vit",
        **given,
        "num_attention_heads": max(1, given["hidden_size"] // HEAD_WIDTH),
        "intermediate_size": state["blocks.0.mlp.fc1.weight"].shape[0],
        "layer_norm_eps": 1e-6,  # the original's; transformers' own default is smaller
    }
    return renamed(state, RENAMED, projections=PROJECTIONS, what="DINO"), config


def load(location: str, *, layer: int | None = None, norm: bool = True) -> ViT:
    """The DINO in a Hugging Face folder; the fourth-to-last layer unless another is asked for."""
    from transformers import ViTModel

    encoder = load_encoder(ViTModel, location, add_pooling_layer=False)
    depth = encoder.config.num_hidden_layers
    layer = max(1, depth - FROM_LAST) if layer is None else layer
    return ViT(encoder, layer=layer, norm=norm, prefix_tokens=1, arguments={"interpolate_pos_encoding": True})


def load_light(location: str, *, layer: int | None = None, norm: bool = True) -> PlainBackbone | None:
    """The same for inference, without transformers."""
    return load_plain(location, layer=layer, norm=norm, from_last=FROM_LAST)
