"""DIY-SC (Dünkel et al. 2025): an aggregation head on DINOv2-B, trained on pseudo-labels instead of keypoints."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco.backbones import Letterboxed, Part, Source, ViT, read_part
from geco.backbones._aggregation import Aggregation, input_widths
from geco.backbones.dinov2 import load as load_dinov2
from geco.errors import InputError

HOME = "github.com/odunkel/DIY-SC-torchhub"
SOURCES = {
    "diy-sc": Source(
        size=840,
        resize="lanczos",
        note=f"DIY-SC's head on DINOv2-B, from {HOME}; its code descends from GeoAware-SC, which states no licence",
        licence="CC0-1.0 (head), Apache-2.0 (DINOv2)",
        home=f"file best.pth of {HOME}",
    ),
}


def _is_head(state: Mapping[str, Tensor]) -> bool:
    """Whether this is a head of one branch; those of several take maps of a diffusion model too."""
    return len(input_widths(state) or ()) == 1


PARTS = {
    "dinov2": Part("DINOv2-B", default="dinov2-base", backbone=True),
    "head": Part(
        "a DIY-SC head (one aggregation branch)", recognise=_is_head, home=f"ckpts/0300_dino_spair/best.pth of {HOME}"
    ),
}


def load(parts: Mapping[str, str]) -> "DiySc":
    """The encoder with the head of a file: 768, 384 or 128 channels, whichever the file has."""
    head = Aggregation.from_state(read_part(parts["head"], PARTS["head"]), name=parts["head"])
    encoder = load_dinov2(parts["dinov2"], norm=False)
    if head.widths != (encoder.dim,):
        raise InputError(
            f"{parts['head']} takes features of {head.widths[0]} channels, {parts['dinov2']} has {encoder.dim}; "
            "expected a head and the DINOv2 it was trained on"
        )
    return DiySc(encoder, head)


class DiySc(Letterboxed):
    """Patch tokens before the final norm → head → descriptors of length one."""

    def __init__(self, encoder: ViT, head: Aggregation) -> None:
        parts = nn.ModuleDict({"dinov2": encoder, "head": head})
        super().__init__(parts, dim=head.dim, stride=encoder.stride)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Unit descriptors of images on their canvas."""
        tokens = self.encoder["dinov2"](pixels=pixels)
        return functional.normalize(self.encoder["head"]([tokens]), dim=1)
