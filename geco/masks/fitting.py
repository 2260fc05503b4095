"""Masks that hold their keypoints: a threshold chosen by them, pieces without one left out, strokes to the rest."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry
from geco.errors import MissingPackageError
from geco.masks.settings import MaskSettings
from geco.types import View

THINNEST = 1.0  # pixels: the radius of a stroke whose pixels are connected


def fit(salient: Float[Tensor, "h w"], view: View, settings: MaskSettings) -> Bool[Tensor, "h w"]:
    """The pixels of an object from a map of saliency in [0, 1] and the object's visible keypoints.

    The threshold is lowered, at most to `settings.lowest`, until nine in ten keypoints are above it. Of the pieces
    above it those that hold a keypoint stay, if there are any. A stroke joins each keypoint that is still outside to
    the nearest pixel of the mask, the nearest keypoint first. Without visible keypoints it is the plain threshold.
    """
    if view.keypoints is None or not view.keypoints.visible.any():
        return salient > settings.threshold
    points = view.keypoints.xy[view.keypoints.visible].float()
    pixels = geometry.cells(points, size=view.size, grid=view.size)
    points = geometry.pixel_centres(pixels, width=view.size[1])
    threshold = float(salient.flatten()[pixels].quantile(0.1, interpolation="lower"))
    mask = salient >= min(settings.threshold, max(settings.lowest, threshold))
    return _joined(_with_keypoints(mask, pixels), points, max(THINNEST, settings.stroke * _extent(view)))


def _with_keypoints(mask: Bool[Tensor, "h w"], pixels: Tensor) -> Bool[Tensor, "h w"]:
    """The connected pieces that hold one of these pixels; all of them if none does."""
    try:
        from scipy import ndimage
    except ImportError:
        raise MissingPackageError.of_extra("masks", "SciPy", what="--hold-keypoints") from None
    pieces = torch.from_numpy(ndimage.label(mask.numpy())[0])
    held = pieces.flatten()[pixels].unique()
    held = held[held > 0]
    return torch.isin(pieces, held) if len(held) else mask


def _joined(mask: Bool[Tensor, "h w"], points: Float[Tensor, "k 2"], radius: float) -> Bool[Tensor, "h w"]:
    """The mask with strokes to the points outside it: Prim's algorithm, which starts with the mask.

    An empty mask starts as the disc around the first point, so that what comes back is one piece.
    """
    size = (mask.shape[0], mask.shape[1])
    centres = geometry.pixel_centres(torch.arange(mask.numel()), width=size[1])
    mask = mask.flatten()
    if not mask.any():
        mask = _stroke(centres, points[0], points[0], radius)
    outside = [point for point in points if not mask[geometry.cells(point, size=size, grid=size)]]
    while outside:
        inside = centres[mask]
        distances = torch.stack([(inside - point).norm(dim=1).min() for point in outside])
        point = outside.pop(int(distances.argmin()))
        nearest = inside[(inside - point).norm(dim=1).argmin()]
        mask = mask | _stroke(centres, point, nearest, radius)
    return mask.unflatten(0, size)


def _stroke(
    centres: Float[Tensor, "n 2"], start: Float[Tensor, "2"], end: Float[Tensor, "2"], radius: float
) -> Bool[Tensor, "n"]:
    """The pixels within the radius of a segment."""
    along = end - start
    share = ((centres - start) @ along / (along @ along).clamp(min=1e-9)).clamp(0, 1)
    return (centres - (start + share[:, None] * along)).norm(dim=1) <= radius


def _extent(view: View) -> float:
    """The longer side of the view's box, or of the view, in pixels."""
    return float((view.box[2:] - view.box[:2]).max()) if view.box is not None else float(max(view.size))
