"""DINOv2 (Oquab et al. 2023), with and without registers: the backbone of GECO."""

from transformers import AutoConfig, Dinov2Model, Dinov2WithRegistersModel

from geco.backbones._vit import Backbone, load_encoder


def load(location: str, *, layer: int | None = None, norm: bool = True) -> Backbone:
    """The DINOv2 in a Hugging Face folder or hub repository; the last layer unless another is asked for."""
    config = AutoConfig.from_pretrained(location)
    registers = getattr(config, "num_register_tokens", 0) if config.model_type == "dinov2_with_registers" else 0
    encoder = load_encoder(Dinov2WithRegistersModel if registers else Dinov2Model, location)
    return Backbone(encoder, layer=layer, norm=norm, prefix_tokens=1 + registers, options={})
