"""Confusion of parts: intersection over union and accuracy of labels."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco.evaluation.metrics.keypoints import share


class Confusion:
    """s[i, j]: how many patches of true part i were labelled j."""

    def __init__(self, number: int) -> None:
        self.matrix = torch.zeros(number, number, dtype=torch.long)

    def update(self, true: Int[Tensor, "*n"], predicted: Int[Tensor, "*n"]) -> None:
        """Add labels of patches; negative true labels are not counted."""
        number = len(self.matrix)
        counted = true >= 0
        index = true[counted].cpu() * number + predicted[counted].cpu()
        self.matrix = self.matrix + torch.bincount(index, minlength=number**2).reshape(number, number)

    def merge(self, other: "Confusion") -> None:
        """Add what another process counted."""
        self.matrix = self.matrix + other.matrix

    def only(self, labels: Sequence[int]) -> "Confusion":
        """The confusion among these labels alone: rows and columns of the others are left out."""
        among = Confusion(len(labels))
        index = torch.tensor(list(labels), dtype=torch.long)
        among.matrix = self.matrix[index][:, index]
        return among

    def iou(self) -> Float[Tensor, "n"]:
        """Intersection over union of each part; NaN for a part neither true nor predicted anywhere."""
        hits = self.matrix.diagonal()
        return share(hits, self.matrix.sum(1) + self.matrix.sum(0) - hits)

    def miou(self) -> float:
        """Mean of the intersections over union that are defined."""
        return float(self.iou().nanmean())

    def accuracy(self) -> float:
        """Share of patches with the right label."""
        return float(share(self.matrix.diagonal().sum(), self.matrix.sum()))

    def normalised(self) -> Float[Tensor, "n n"]:
        """Predicted vertical, true horizontal; the column of each true part that occurs sums to 1/N."""
        return share(self.matrix, self.matrix.sum(1, keepdim=True).expand_as(self.matrix)).nan_to_num().T / len(
            self.matrix
        )
