"""Labels of keypoints as people keep them: images with animals on them, some points visible, hidden or not labelled."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco.errors import InputError
from geco.types import Keypoints, Size, Skeleton

CLOSE = 0.05  # similarity: a counterpart that is less than this below may be meant
UNKNOWN, HIDDEN, VISIBLE = 0, 1, 2  # COCO's v: not labelled; labelled as not visible; visible


@dataclass(frozen=True)
class Animal:
    """The keypoints of one animal (or object) on an image, one row for each name of the skeleton."""

    xy: Float[Tensor, "k 2"]  # NaN where there is no place
    state: Int[Tensor, "k"]  # UNKNOWN, HIDDEN or VISIBLE
    box: tuple[float, float, float, float] | None = None  # (x0, y0, x1, y1)
    track: str = ""  # which individual it is, if that is known
    score: Float[Tensor, "k"] | None = None  # of predictions: similarity …
    uncertainty: Float[Tensor, "k"] | None = None  # … the expected share of such points that are wrong …
    twin_margin: Float[Tensor, "k"] | None = None  # … and similarity above that of the left or right counterpart

    @property
    def side_unsure(self) -> Bool[Tensor, "k"]:
        """Points that may be meant to be their left or right counterpart."""
        if self.twin_margin is None:
            return torch.zeros(len(self.state), dtype=torch.bool)
        return self.twin_margin < CLOSE

    @property
    def keypoints(self) -> Keypoints:
        """The points as matching and training take them: hidden and unlabelled ones are not visible."""
        visible = self.state == VISIBLE
        return Keypoints(self.xy.where(visible[:, None], 0.0), visible)


@dataclass(frozen=True)
class LabelledImage:
    """An image file, or a frame of a video, and the animals that are labelled on it."""

    path: Path
    animals: tuple[Animal, ...] = ()
    frame: int | None = None  # number of the frame, if `path` is a video
    size: Size | None = None  # (height, width), if the labels tell


@dataclass(frozen=True)
class LabelSet:
    """Labels of one skeleton."""

    skeleton: Skeleton
    images: Sequence[LabelledImage]
    edges: tuple[tuple[int, int], ...] = ()  # lines between keypoints, for pictures
    category: str = "animal"
    format: str = "csv"  # what the labels were read from
    details: dict[str, str] = field(default_factory=dict)  # that the format needs to be written again: a scorer, say

    def __post_init__(self) -> None:
        for image in self.images:
            for animal in image.animals:
                if len(animal.state) != len(self.skeleton):
                    raise InputError(
                        f"{image.path}: {len(animal.state)} keypoints, but the skeleton has {len(self.skeleton)}"
                    )

    @property
    def labelled(self) -> int:
        """Points with a known place."""
        return sum(int((animal.state == VISIBLE).sum()) for image in self.images for animal in image.animals)


def nowhere(count: int) -> Animal:
    """An animal none of whose points is labelled."""
    return Animal(torch.full((count, 2), torch.nan), torch.zeros(count, dtype=torch.long))


def with_labels(animal: Animal, label: Animal) -> Animal:
    """A predicted animal with what is labelled of it, which is certain."""
    assert animal.score is not None
    assert animal.uncertainty is not None
    told = label.state != UNKNOWN
    return replace(
        animal,
        xy=label.xy.where(told[:, None], animal.xy),
        state=label.state.where(told, animal.state),
        score=torch.where(label.state == VISIBLE, 1.0, animal.score),
        uncertainty=torch.where(told, 0.0, animal.uncertainty),
        track=label.track,
    )
