"""Geo without a captioner: the empty caption instead of ODISE's, whose weights are for non-commercial use only.

It is not the paper's row: the head was trained on features with the captioner, and the loss has not been published.
"""

from collections.abc import Mapping
from dataclasses import replace

from geco.backbones.geo import HEAD, HOME, LICENCE, SHARED, Geo, load_shared
from geco.backbones.geo import SOURCES as WITH_CAPTIONER

SOURCES = {
    "geo-empty": replace(
        WITH_CAPTIONER["geo"],
        note=f"Geo with the empty caption, not the paper's row: the head of {HOME}, Stable Diffusion 1.5, DINOv2-B",
        licence=LICENCE,
        home=f"results_spair/best_856.PTH of {HOME}",
    ),
}
# The head's file alone is taken for Geo; here a manifest names it.
PARTS = {"head": replace(HEAD, recognise=None), **SHARED}


def load(parts: Mapping[str, str], *, t: int = 50, seed: int = 42, freeu: bool = True) -> Geo:
    """Geo with the empty caption, of its parts; options are those of geo."""
    diffusion, dinov2, head = load_shared(parts, what="the backbone geo-empty")
    return Geo(diffusion, dinov2, head, None, t=t, seed=seed, freeu=freeu)
