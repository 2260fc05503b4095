"""DINOv3 (Siméoni et al. 2025): rotary positions, 16-pixel patches, four registers."""

from geco.backbones import Source, ViT, load_encoder
from geco.backbones._contract import Converted, State
from geco.backbones._original_vit import LAYER_SCALE, PROBES, renamed, shape

MODEL_TYPES = ("dinov3_vit",)
SIDE = 37 * 16  # as many patches as DINOv2 has at 518
DEFAULT = Source(size=SIDE)
SOURCES = {
    f"dinov3-{name}": Source(
        hub=f"facebook/dinov3-{size}-pretrain-lvd1689m",
        size=SIDE,
        licence="DINOv3 License, to be accepted on the hub",
    )
    for name, size in {
        "small": "vits16",
        "small-plus": "vits16plus",
        "base": "vitb16",
        "large": "vitl16",
        "huge": "vith16plus",
    }.items()
}
PERIODS = "rope_embed.periods"  # one for each quarter of a head's channels
MASK = "_mask"  # of a bias
UNUSED = ("local_cls_norm.", PERIODS)  # of training; made again from the configuration

ADAPTABLE = {**ViT.adaptable, "fc1": "up_proj", "fc2": "down_proj"}

RENAMED = (
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."),
    (r"^storage_tokens$", "embeddings.register_tokens"),
    (r"^(cls_token|mask_token)$", r"embeddings.\1"),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"layer.\1.attention.o_proj."),
    (r"^blocks\.(\d+)\.ls([12])\.gamma$", r"layer.\1.layer_scale\2.lambda1"),
    (r"^blocks\.(\d+)\.mlp\.(?:fc1|w2)\.", r"layer.\1.mlp.up_proj."),
    (r"^blocks\.(\d+)\.mlp\.(?:fc2|w3)\.", r"layer.\1.mlp.down_proj."),
    (r"^blocks\.(\d+)\.mlp\.w1\.", r"layer.\1.mlp.gate_proj."),
    (r"^blocks\.(\d+)\.(norm[12])\.", r"layer.\1.\2."),
    (r"^norm\.", "norm."),
)
PROJECTIONS = "layer.{block}.attention.{projection}.{kind}"
NAMES = ("q_proj", "k_proj", "v_proj")


def convert(state: State) -> Converted | None:
    """Weights and configuration in Hugging Face form of an original `dinov3_vit*16_pretrain_*.pth`; None of another."""
    if not PROBES | {PERIODS, LAYER_SCALE} <= set(state):
        return None
    given = shape(state)
    gated = "blocks.0.mlp.w1.weight" in state
    biased = "blocks.0.attn.qkv.bias" in state
    config = {
        "architectures": ["DINOv3ViTModel"],
        "model_type": "dinov3_vit",
        **given,
        "num_attention_heads": given["hidden_size"] // (4 * len(state[PERIODS])),
        "image_size": 14 * given["patch_size"],
        "intermediate_size": state["blocks.0.mlp.w1.weight" if gated else "blocks.0.mlp.fc1.weight"].shape[0],
        "use_gated_mlp": gated,
        "hidden_act": "silu" if gated else "gelu",
        "query_bias": biased,
        "key_bias": False,
        "value_bias": biased,
        "num_register_tokens": state["storage_tokens"].shape[1],
    }
    converted = renamed(_without_masks(state), RENAMED, projections=PROJECTIONS, names=NAMES, what="DINOv3")
    # Keys have no bias: its mask is zero there.
    return {key: value for key, value in converted.items() if not key.endswith("k_proj.bias")}, config


def _without_masks(state: State) -> State:
    """The state dict with the masks of the biases applied, and without what is not read."""
    kept = {key: value for key, value in state.items() if not key.startswith(UNUSED) and not key.endswith(MASK)}
    for key, value in state.items():
        if key.endswith(MASK):
            kept[key.removesuffix(MASK)] = kept[key.removesuffix(MASK)] * value
    if "mask_token" in kept:
        kept["mask_token"] = kept["mask_token"].reshape(1, 1, -1)
    return kept


def load(location: str, *, layer: int | None = None, norm: bool = True) -> ViT:
    """The DINOv3 in a Hugging Face folder; the last layer unless another is asked for."""
    from transformers import DINOv3ViTModel

    encoder = load_encoder(DINOv3ViTModel, location)
    registers = encoder.config.num_register_tokens
    return ViT(encoder, layer=layer, norm=norm, prefix_tokens=1 + registers, adaptable=ADAPTABLE)
