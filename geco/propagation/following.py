"""Following an animal: where a labelled one's window lies in a frame, and the way back from a frame to the labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from geco import geometry
from geco.propagation.references import Box, Reference, square

APART = 0.05  # of a reference's side: points nearer than this do not tell its scale
PATCH = 0.71  # of a patch's side: the way back ends at the centre of a patch, whose corners lie that far off


def way_back(reference: Reference, descriptors: Float[Tensor, "k m c"]) -> Float[Tensor, "k m"]:
    """How far from a reference's points the descriptors lead, as a share of its side; infinite where it shows none."""
    features = reference.features
    patches = functional.normalize(features.values, dim=0).flatten(1)
    back = (descriptors @ patches).argmax(-1)
    places = geometry.pixel_centres(back.flatten(), width=features.grid[1]).float()
    xy = geometry.resize_points(places, size=features.grid, to=features.size).unflatten(0, back.shape)
    distance = (xy - reference.points.to(xy.device)[:, None]).norm(dim=-1) / max(features.size)
    distance = (distance - PATCH / min(features.grid)).clamp(min=0)
    return distance.where(reference.visible.to(xy.device)[:, None], torch.inf)


def moved_window(reference: Reference, xy: Float[Tensor, "k 2"], sure: Bool[Tensor, "k"]) -> Box:
    """The window of a reference, moved and scaled as the points that it shares with a frame have been (by medians)."""
    both = reference.visible & sure
    then, now = reference.points[both], xy[both]
    height, width = reference.features.size
    distance = torch.pdist(then)
    far = distance > APART * max(height, width)
    scale = float((torch.pdist(now)[far] / distance[far]).median()) if bool(far.any()) else 1.0
    x, y = (now + scale * (torch.tensor([width / 2, height / 2]) - then)).median(0).values.tolist()
    half = scale * max(height, width) / 2
    return square((x - half, y - half, x + half, y + half), 0.0)


def inner_box(window: Box, margin: float) -> tuple[float, float, float, float]:
    """The box that a window was grown from."""
    x0, y0, x1, y1 = window
    grown = max(x1 - x0, y1 - y0) * margin / (1 + 2 * margin)
    return x0 + grown, y0 + grown, x1 - grown, y1 - grown


def shifted(window: Box, x: float, y: float) -> Box:
    """The window moved by this many pixels, but by no more than half its side."""
    x0, y0, x1, y1 = window
    most = (x1 - x0) / 2
    right, down = (round(min(max(step, -most), most)) for step in (x, y))
    return x0 + right, y0 + down, x1 + right, y1 + down
