"""Sphere as it was published: with Stable Diffusion's features, which are reduced for each pair of images together.

Its map of one image holds what a pair needs, on the whole canvas: tokens, points on the sphere, and three hidden states
of Stable Diffusion, the coarser ones repeated. `pair` makes of two such maps what is compared.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco import checks
from geco.backbones import Part, Source, ViT, cut
from geco.backbones import _stable_diffusion as stable_diffusion
from geco.backbones._stable_diffusion import StableDiffusion
from geco.backbones.geo import ENTERING, Geo, captioner_for, check_patches
from geco.backbones.geo import PARTS as GEO
from geco.backbones.geo.captioner import Captioner, read_captioner
from geco.backbones.sphere import PARTS as COSINE
from geco.backbones.sphere import SOURCES as COSINE_SOURCES
from geco.backbones.sphere import load_both, on_sphere
from geco.backbones.sphere.pairs import REDUCED, fused, reduced_together, similarities
from geco.types import FeatureMap, Size

SOURCES = {
    "sphere-pairs": Source(
        size=960,
        resize="lanczos",
        threshold=-1.0,  # not calibrated: distances say less than cosines about what is hidden
        note="SphericalMaps as published: Stable Diffusion 1.5, ODISE's captioner, DINOv2-B and a mapper, pair by pair",
        licence="CC BY-NC-SA 4.0 (mapper), NVIDIA non-commercial (ODISE's captioner), CreativeML OpenRAIL-M (Stable "
        "Diffusion), MIT (CLIP), Apache-2.0 (DINOv2)",
        home=f"{COSINE_SOURCES['sphere'].home}, and ODISE's captioner",
    ),
}
# A mapper's file alone is taken for Sphere's cosine form, and a captioner's for Geo's; here a manifest names them.
PARTS: dict[str, Part] = {
    "mapper": replace(COSINE["mapper"], recognise=None),
    **{name: replace(GEO[name], recognise=None) for name in ("captioner", "clip", "diffusion", "dinov2")},
}


def load(parts: Mapping[str, str], *, share: float = 0.2, t: int = 100, seed: int = 42) -> "SpherePairs":
    """Sphere of its parts; `share` is how much the sphere decides, `t` the step of the noise and `seed` its seed."""
    checks.number(share, "share", least=0, most=1)
    weights = read_captioner(parts["captioner"], expected=GEO["captioner"].what)  # before the larger files
    dinov2, mapper = load_both(parts)
    check_patches(dinov2, parts["dinov2"])
    diffusion = stable_diffusion.load(parts["diffusion"], block=ENTERING[0] - 1, what="the backbone sphere-pairs")
    captioner = captioner_for(diffusion, weights, parts)
    return SpherePairs(diffusion, dinov2, mapper, captioner, share=share, t=t, seed=seed)


class SpherePairs(Geo):
    """Geo's encoders without its head and without FreeU; the similarity is the published one, plus one."""

    similarity = "dot"

    def __init__(
        self,
        diffusion: StableDiffusion,
        dinov2: ViT,
        mapper: nn.Sequential,
        captioner: Captioner,
        *,
        share: float,
        t: int,
        seed: int,
    ) -> None:
        widths = diffusion.widths[::-1]  # from the coarsest level
        channels = (dinov2.dim, 3, widths[2], widths[1], widths[0])
        head = _Sphere(mapper, dim=sum(channels))
        super().__init__(diffusion, dinov2, head, captioner, t=t, seed=seed, freeu=False)
        self.options = {"share": share, "t": t, "seed": seed}
        self._channels = channels

    def forward(
        self, diffusion: Float[Tensor, "b 3 h w"], dinov2: Float[Tensor, "b 3 h2 w2"]
    ) -> Float[Tensor, "b c h3 w3"]:
        """Everything a pair needs, at the resolution of the finest map."""
        states = self.states(diffusion)
        tokens = self.encoder["dinov2"](pixels=dinov2)
        points = on_sphere(self.encoder["head"].mapper, tokens)
        grid = tokens.shape[-2:]
        repeated = [functional.interpolate(values, grid, mode="nearest") for values in states]
        return torch.cat([tokens, points, *repeated], dim=1)

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h w"]:
        """The whole canvas: its border takes part in the reduction, and `pair` cuts it off."""
        return values

    def pair(self, first: FeatureMap, second: FeatureMap) -> tuple[FeatureMap, FeatureMap]:
        """Maps whose dot products are the similarities of the cells that show the two images."""
        both = [features.values.split(self._channels) for features in (first, second)]
        states = [_at_own_resolution(parts[2:]) for parts in both]
        reduced = [reduced_together(*pair, dim=REDUCED) for pair in zip(*states, strict=True)]
        shown = []
        for image, (features, parts) in enumerate(zip((first, second), both, strict=True)):
            whole = fused([pair[image] for pair in reduced], parts[0]), parts[1]
            descriptors, points = (cut(values, features.size, grid=features.grid) for values in whole)
            shown.append((descriptors, points))
        source, target = similarities(*shown, share=self.options["share"])
        return FeatureMap(source, first.size), FeatureMap(target, second.size)


def _at_own_resolution(states: tuple[Float[Tensor, "_ h w"], ...]) -> list[Float[Tensor, "_ _ _"]]:
    """The hidden states without the repetitions: each level has half the resolution of the finer one."""
    return [values[:, :: 2**level, :: 2**level] for level, values in enumerate(states)]


class _Sphere(nn.Module):
    """The mapper in the place of Geo's head."""

    def __init__(self, mapper: nn.Sequential, *, dim: int) -> None:
        super().__init__()
        self.mapper, self.dim = mapper, dim
