"""DINO (Caron et al. 2021), the paper's baseline row: ViT-B/8 at 224 pixels, fourth-to-last layer."""

from geco.backbones import PlainBackbone, Source, ViT, load_encoder, load_plain

MODEL_TYPES = ("vit",)
DEFAULT = Source(size=224)
SOURCES = {
    f"dino-{size}": Source(hub=f"facebook/dino-{size}", size=224) for size in ("vits8", "vits16", "vitb8", "vitb16")
}
# The fourth-to-last block is best for correspondence (GECO supplement, feature encoder settings).
FROM_LAST = 3


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
