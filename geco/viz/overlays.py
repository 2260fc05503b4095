"""Small PNG files that a page lays over an image: similarities, parts, principal components."""

import io

import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib import colormaps
from PIL import Image as Pillow
from torch import Tensor

from geco.viz.palette import PALETTE

SIDE = 192  # pixels of the longer side: patches are coarser than that
FULL = 255
OPAQUE = 0.8  # of the highest similarity
VIRIDIS = (colormaps["viridis"](np.linspace(0, 1, 256))[:, :3] * FULL).round().astype(np.uint8)


def heat_png(scores: Float[Tensor, "h w"], *, low: float = 0.0, high: float = 1.0) -> bytes:
    """Similarities in viridis from `low` to `high`; the lower, the more transparent, so that the image shows."""
    step = max(1, -(-max(scores.shape) // SIDE))
    values = scores[step // 2 :: step, step // 2 :: step].float().cpu().numpy()
    share = ((values - low) / max(high - low, 1e-6)).clip(0, 1)
    colours = VIRIDIS[(share * FULL).round().astype(np.uint8)]
    return _png(np.dstack([colours, (FULL * OPAQUE * share).round().astype(np.uint8)]))


def labels_png(labels: Int[Tensor, "h w"]) -> bytes:
    """Part i in colour i - 1 of the palette, background (0) transparent."""
    step = max(1, -(-max(labels.shape) // (2 * SIDE)))
    parts = labels[step // 2 :: step, step // 2 :: step].cpu().numpy()
    colours = [tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in PALETTE]
    table = np.array([(0, 0, 0, 0), *((*colour, FULL) for colour in colours)], dtype=np.uint8)
    return _png(table[parts])


def components_png(colours: Float[Tensor, "h w 3"]) -> bytes:
    """Three components in [0, 1] as red, green and blue, one pixel for each patch."""
    return _png((colours * FULL).round().clamp(0, FULL).byte().cpu().numpy())


def _png(pixels: UInt8[np.ndarray, "_ _ _"]) -> bytes:
    buffer = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
