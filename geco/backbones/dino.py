"""DINO (Caron et al. 2021), the paper's baseline row: ViT-B/8 at 224 pixels, fourth-to-last layer."""

from transformers import ViTModel

from geco.backbones._vit import Backbone, load_encoder

FROM_LAST = 3  # the fourth-to-last block is best for correspondence (GECO supplement, feature encoder settings)


def load(location: str, *, layer: int | None = None, norm: bool = True) -> Backbone:
    """The DINO in a Hugging Face folder or hub repository; the fourth-to-last layer unless another is asked for."""
    encoder = load_encoder(ViTModel, location, add_pooling_layer=False)
    depth = encoder.config.num_hidden_layers
    layer = max(1, depth - FROM_LAST) if layer is None else layer
    return Backbone(encoder, layer=layer, norm=norm, prefix_tokens=1, options={"interpolate_pos_encoding": True})
