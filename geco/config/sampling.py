"""How an epoch's pairs are drawn from the joint training set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingSettings:
    """Balance between categories of very different size, and between annotated pairs and pairs of one image."""

    per_category: int | None = 800  # pairs per category and dataset in an epoch, all if fewer; None: always all

    self_pairs: float = 0.0  # share of the pairs that become two views of their source image …
    self_points: int = 64  # … with so many known correspondences on the object

    def __post_init__(self) -> None:
        if self.per_category is not None and self.per_category < 1:
            raise ValueError(
                f"per_category counts pairs, expected 1 or more (or None for all), got {self.per_category}"
            )
        if not 0 <= self.self_pairs <= 1:
            raise ValueError(f"self_pairs is a share, expected 0 to 1, got {self.self_pairs}")
        if self.self_points < 1:
            raise ValueError(f"self_points counts points, expected 1 or more, got {self.self_points}")
