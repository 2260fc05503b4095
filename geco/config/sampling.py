"""How an epoch's pairs are drawn from the joint training set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingSettings:
    """Balance between categories of very different size."""

    per_category: int | None = (
        800  # pairs per category and dataset in an epoch, all if fewer; None: always all
    )

    def __post_init__(self) -> None:
        if self.per_category is not None and self.per_category < 1:
            raise ValueError(
                f"per_category counts pairs, expected 1 or more (or None for all), got {self.per_category}"
            )
