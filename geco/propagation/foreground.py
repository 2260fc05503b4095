"""Where the animals of an image are, told from the labelled ones: a linear rule between their patches and the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry
from geco.propagation import references
from geco.propagation.annotations import UNKNOWN, Animal, LabelSet
from geco.propagation.references import Box
from geco.types import Encoder, FeatureMap, Size

NEAR = 0.12  # of an animal's longer side: what is closer to one of its points or lines is the animal
BEYOND = 0.15  # … and what is further outside its box than this is background
FEWEST = 10  # patches of either kind that a rule is found on
STRENGTH = 1.0  # of the penalty on the rule's coefficients, beside patches that weigh 1 together
SMALLEST = 0.15  # of the largest animal's patches: what is smaller is no animal
MOST = 20  # animals of an image
STEPS = 8  # places along a line of the skeleton


@dataclass(frozen=True)
class Foreground:
    """The rule: a patch with unit descriptor x belongs to an animal if weight · x + bias > 0."""

    weight: Float[Tensor, "c"]
    bias: float

    @classmethod
    def of(cls, encoder: Encoder, labels: LabelSet) -> "Foreground | None":
        """The rule that labelled images teach; None if they show next to nothing but animals."""
        inside, outside = [], []
        told = [
            image for image in labels.images if any(bool((animal.state != UNKNOWN).any()) for animal in image.animals)
        ]
        for image, pixels in references.opened(told):
            (features,) = encoder.extract_stream([pixels])
            animal, background = patches_of(image.animals, labels.edges, features)
            values = features.unit().values
            inside.append(values[:, animal].T)
            outside.append(values[:, background].T)
        near, far = torch.cat(inside), torch.cat(outside)
        if min(len(near), len(far)) < FEWEST:
            return None
        return cls(*linear_rule(near, far))

    def score(self, features: FeatureMap) -> Float[Tensor, "h w"]:
        """How much each patch looks like the animals, above 0 for those that do."""
        return torch.einsum("chw,c->hw", features.unit().values, self.weight) + self.bias

    def windows(self, features: FeatureMap, margin: float) -> list[Box]:
        """A square around each animal, the largest first; none if there is nothing like them."""
        found = sorted(_groups((self.score(features) > 0).tolist()), key=len, reverse=True)[:MOST]
        height, width = features.size
        rows, columns = features.grid
        boxes = []
        for group in found:
            if len(group) < max(2, SMALLEST * len(found[0])):
                continue
            down, across = [row for row, _ in group], [column for _, column in group]
            corners = (min(across) * width / columns, min(down) * height / rows)
            ends = ((max(across) + 1) * width / columns, (max(down) + 1) * height / rows)
            boxes.append(references.square((*corners, *ends), margin / 2))  # patches reach beyond the animal already
        return boxes


def linear_rule(near: Float[Tensor, "n c"], far: Float[Tensor, "m c"]) -> tuple[Float[Tensor, "c"], float]:
    """Coefficients and constant of the ridge regression of +1 and −1, either kind weighing one half."""
    x = torch.cat([near, far]).double()
    y = torch.cat([torch.ones(len(near)), -torch.ones(len(far))]).double().to(x.device)
    share = torch.where(y > 0, 0.5 / len(near), 0.5 / len(far)).to(y)
    centre, level = share @ x, float(share @ y)
    shifted = x - centre
    penalty = STRENGTH * torch.eye(x.shape[1], dtype=x.dtype, device=x.device) / x.shape[1]
    weight = torch.linalg.solve((shifted * share[:, None]).T @ shifted + penalty, (shifted * share[:, None]).T @ y)
    return weight.float(), level - float(centre @ weight)


def patches_of(
    animals: Sequence[Animal], edges: Sequence[tuple[int, int]], features: FeatureMap
) -> tuple[Bool[Tensor, "h w"], Bool[Tensor, "h w"]]:
    """Which patches certainly show an animal, and which certainly none; the rest is neither."""
    rows, columns = features.grid
    index = torch.arange(rows * columns)
    centres = geometry.cell_centres(index, size=features.size, grid=features.grid)
    shown, free = torch.zeros(rows * columns, dtype=torch.bool), torch.ones(rows * columns, dtype=torch.bool)
    for animal in animals:
        places = torch.cat(list(_places(animal, edges)))
        if not len(places):
            continue
        x0, y0, x1, y1 = _extent(animal, places, features.size)
        side = max(x1 - x0, y1 - y0)
        shown |= torch.cdist(centres, places).amin(1) < NEAR * side
        low, high = torch.tensor([x0, y0]) - BEYOND * side, torch.tensor([x1, y1]) + BEYOND * side
        free &= ((centres < low) | (centres > high)).any(1)
    return shown.reshape(rows, columns), (free & ~shown).reshape(rows, columns)


def _places(animal: Animal, edges: Sequence[tuple[int, int]]) -> Iterator[Float[Tensor, "n 2"]]:
    """Its labelled points, and places along the lines between them."""
    known = (animal.state != UNKNOWN) & torch.isfinite(animal.xy).all(1)
    yield animal.xy[known]
    along = torch.linspace(0, 1, STEPS)[:, None]
    for start, end in edges:
        if known[start] and known[end]:
            yield animal.xy[start] * (1 - along) + animal.xy[end] * along


def _extent(animal: Animal, places: Float[Tensor, "n 2"], size: Size) -> tuple[float, float, float, float]:
    if animal.box is not None:
        return animal.box
    if len(places) < references.FEWEST_POINTS:
        return 0.0, 0.0, float(size[1]), float(size[0])
    (x0, y0), (x1, y1) = places.min(0).values.tolist(), places.max(0).values.tolist()
    return x0, y0, x1, y1


def _groups(grid: list[list[bool]]) -> Iterator[list[tuple[int, int]]]:
    """The connected groups of cells that are true (with their eight neighbours)."""
    left = {(row, column) for row, cells in enumerate(grid) for column, cell in enumerate(cells) if cell}
    while left:
        group, ends = [], [left.pop()]
        while ends:
            row, column = ends.pop()
            group.append((row, column))
            beside = {(row + down, column + across) for down in (-1, 0, 1) for across in (-1, 0, 1)} & left
            left -= beside
            ends += beside
        yield group
