"""Geo (GeoAware-SC, Zhang et al. 2024), the paper's strongest baseline: Stable Diffusion and DINOv2, joined by a head.

The image lies in the middle of a black square, 960 pixels for Stable Diffusion and 840 for DINOv2, both 60 × 60
cells. Stable Diffusion sees it through four windows of 512 pixels, each with what ODISE's captioner says about it.
"""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco import checks, images
from geco.backbones import FrozenBackbone, Part, Source, ViT, read_part
from geco.backbones import _letterbox as letterbox
from geco.backbones import _stable_diffusion as stable_diffusion
from geco.backbones._aggregation import Aggregation, input_widths
from geco.backbones._diffusion import STEPS, noise, noisy
from geco.backbones._stable_diffusion import BETAS, MULTIPLE, StableDiffusion
from geco.backbones.dinov2 import load as load_dinov2
from geco.backbones.geo.captioner import Captioner, is_captioner, load_captioner, read_captioner
from geco.backbones.geo.windows import slide
from geco.errors import InputError
from geco.types import Image, Size

HOME = "github.com/Junyi42/GeoAware-SC"
LICENCE = "none stated (head), CreativeML OpenRAIL-M (Stable Diffusion), Apache-2.0 (DINOv2)"
SOURCES = {
    "geo": Source(
        size=960,
        resize="lanczos",
        note=f"Geo: the head of {HOME} on Stable Diffusion 1.5, ODISE's captioner and DINOv2-B",
        licence=f"{LICENCE}, NVIDIA non-commercial (ODISE's captioner), MIT (CLIP)",
        home=f"results_spair/best_856.PTH of {HOME}, and ODISE's captioner",
    ),
}
WINDOW = 512  # pixels of Stable Diffusion's input
STRIDE = 16  # of a cell of the map
ENTERING = (8, 5, 2)  # blocks of the decoder whose input is read: s3, s4 and s5 of the original
FREE_U = (1.2, 0.9), (1.4, 0.2)  # of the widest hidden states, and of those half as wide


def _is_head(state: Mapping[str, Tensor]) -> bool:
    """Whether this is a head of four branches."""
    return len(input_widths(state) or ()) == len(ENTERING) + 1


HEAD = Part("Geo's head (four aggregation branches)", recognise=_is_head, home=f"results_spair/best_856.PTH of {HOME}")
SHARED = {
    "diffusion": Part(
        "Stable Diffusion 1.5", default="stable-diffusion-v1-5/stable-diffusion-v1-5", files=stable_diffusion.FILES
    ),
    "dinov2": Part("DINOv2-B", default="dinov2-base", backbone=True),
}
PARTS = {
    "head": HEAD,
    "captioner": Part(
        "ODISE's captioner",
        recognise=is_captioner,
        home="odise_label_coco_50e-b67d2efc.pth of github.com/NVlabs/ODISE; geo-empty does without",
    ),
    "clip": Part(
        "CLIP ViT-L/14 at 336 pixels",
        default="openai/clip-vit-large-patch14-336",
        files=("config.json", "pytorch_model.bin"),
    ),
    **SHARED,
}


def load(parts: Mapping[str, str], *, t: int = 50, seed: int = 42, freeu: bool = True) -> "Geo":
    """Geo of its parts; `t` is the step of the noise and `seed` its seed; FreeU is on, as the authors have it."""
    weights = read_captioner(parts["captioner"], expected=PARTS["captioner"].what)  # before the larger files
    diffusion, dinov2, head = load_shared(parts, what="the backbone geo")
    captioner = captioner_for(diffusion, weights, parts)
    return Geo(diffusion, dinov2, head, captioner, t=t, seed=seed, freeu=freeu)


def captioner_for(diffusion: StableDiffusion, weights: Mapping[str, Tensor], parts: Mapping[str, str]) -> Captioner:
    """The captioner of these weights, whose captions and steps are as wide as Stable Diffusion's."""
    return load_captioner(
        weights,
        parts["clip"],
        width=diffusion.caption.shape[-1],
        time=diffusion.unet.time_embedding.linear_2.out_features,
        name=parts["captioner"],
    )


def load_shared(parts: Mapping[str, str], *, what: str) -> tuple[StableDiffusion, ViT, Aggregation]:
    """What Geo has with a captioner and without one."""
    head = Aggregation.from_state(read_part(parts["head"], HEAD), name=parts["head"])
    dinov2 = load_dinov2(parts["dinov2"], norm=False)
    diffusion = stable_diffusion.load(parts["diffusion"], block=ENTERING[0] - 1, what=what)
    widths = diffusion.widths[::-1]
    given = (widths[2], widths[1], widths[0], dinov2.dim)
    if head.widths != given:
        raise InputError(
            f"{parts['head']} takes maps of {head.widths} channels, {parts['diffusion']} and {parts['dinov2']} give "
            f"{given}; expected a head and the networks it was trained on"
        )
    check_patches(dinov2, parts["dinov2"])
    return diffusion, dinov2, head


def check_patches(dinov2: ViT, name: str) -> None:
    """Refuse an encoder whose canvas would not have the cells of Stable Diffusion's at the sizes of the original."""
    if dinov2.stride != round(STRIDE * 840 / 960):
        raise InputError(f"{name} has patches of {dinov2.stride} pixels; expected 14")


class Geo(FrozenBackbone):
    """Maps of Stable Diffusion and DINOv2 → head → descriptors of length one, on the cells that show the image."""

    def __init__(
        self,
        diffusion: StableDiffusion,
        dinov2: ViT,
        head: Any,  # what makes `dim` channels of the maps
        captioner: Captioner | None,
        *,
        t: int,
        seed: int,
        freeu: bool,
    ) -> None:
        checks.whole(t, "t", least=0, most=STEPS - 1)
        checks.whole(seed, "seed", least=0, most=2**63 - 1)
        checks.flag(freeu, "freeu")
        parts = {"diffusion": diffusion, "dinov2": dinov2, "head": head}
        networks = nn.ModuleDict({**parts, "captioner": captioner} if captioner is not None else parts)
        super().__init__(networks, dim=head.dim, stride=STRIDE, multiple=MULTIPLE)
        self.options = {"t": t, "seed": seed, "freeu": freeu}
        widths = diffusion.widths
        self._factors = dict(zip((widths[-1], widths[1]), FREE_U, strict=True)) if freeu else {}

    def prepare(self, pixels: Image, size: Size, *, resize: str = "lanczos") -> dict[str, Tensor]:
        """`diffusion`, in [0, 1], and `dinov2`, normalised as ImageNet: the image on a canvas of each one's size."""
        grid = size[0] // STRIDE, size[1] // STRIDE
        patches = letterbox.paste(pixels, grid, cell=self.encoder["dinov2"].stride, mode=resize)
        return {
            "diffusion": letterbox.paste(pixels, grid, cell=STRIDE, mode=resize),
            "dinov2": images.normalise(patches),
        }

    def forward(
        self, diffusion: Float[Tensor, "b 3 h w"], dinov2: Float[Tensor, "b 3 h2 w2"]
    ) -> Float[Tensor, "b c h3 w3"]:
        """Unit descriptors of images on their canvases."""
        maps = self.states(diffusion)
        grid = maps[0].shape[-2:]
        maps = [functional.interpolate(m, grid, mode="bilinear", align_corners=False) for m in maps]
        tokens = self.encoder["dinov2"](pixels=dinov2)
        return functional.normalize(self.encoder["head"]([*maps, tokens]), dim=1)

    def states(self, diffusion: Float[Tensor, "b 3 h w"]) -> list[Float[Tensor, "b _ _ _"]]:
        """Three hidden states of Stable Diffusion for whole canvases, from the finest, each at its own resolution."""
        height, width = diffusion.shape[-2:]
        most = 2 * WINDOW
        if height % self.multiple or width % self.multiple or not 0 < height <= most or not 0 < width <= most:
            raise InputError(
                f"image sides must be multiples of {self.multiple} up to {most}, got {height}×{width}; "
                "Geo was trained at 960"
            )
        return slide(diffusion, self._window, window=WINDOW)

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h2 w2"]:
        """The part of a map that shows the image of `size`."""
        return letterbox.cut(values, size, grid=(values.shape[-2], values.shape[-1]))

    def _window(self, pixels: Float[Tensor, "b 3 h w"]) -> list[Float[Tensor, "b _ _ _"]]:
        """Three hidden states of Stable Diffusion, from the finest; all windows and images get the same noise."""
        diffusion: Any = self.encoder["diffusion"]
        latents = diffusion.latents(2 * pixels - 1)
        drawn = noise((1, *latents.shape[1:]), seed=self.options["seed"])[0]
        caption, time = None, None
        if "captioner" in self.encoder:
            words, time = self.encoder["captioner"](pixels)
            caption = diffusion.caption + words
        states = diffusion.hidden(
            noisy(latents, drawn, BETAS, self.options["t"]),
            self.options["t"],
            entering=ENTERING,
            caption=caption,
            time=time,
            factors=self._factors,
        )
        return [states[block] for block in ENTERING]
