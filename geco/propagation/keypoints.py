"""Keypoints of a few labelled images carried to many others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geco.errors import InputError
from geco.propagation import references
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelSet
from geco.propagation.calibration import Calibration, calibrate
from geco.propagation.foreground import Foreground
from geco.propagation.references import Box, Reference
from geco.propagation.settings import KeypointSettings
from geco.propagation.voting import Panel, Votes
from geco.types import Encoder, FeatureMap, Skeleton

SURE = 0.5  # uncertainty below which a point helps to find the animal
DEFAULTS = KeypointSettings()
GivenBox = tuple[float, float, float, float]
Look = tuple[FeatureMap, Box, FeatureMap | None]  # a window's features, where it is, its mirror image's features
Seen = tuple[UInt8[Tensor, "3 _ _"], Sequence[GivenBox]]  # an image, and where its animals are if that is known


@dataclass(frozen=True)
class Propagator:
    """Labelled animals ready to label others; made once, used for any number of images."""

    encoder: Encoder
    skeleton: Skeleton
    panel: Panel
    calibration: Calibration
    settings: KeypointSettings
    foreground: Foreground | None = None  # finds the animals of images that come without boxes

    @classmethod
    def of(cls, encoder: Encoder, labels: LabelSet, settings: KeypointSettings = DEFAULTS) -> "Propagator":
        """What these labels say, with threshold and uncertainty found on them by leaving animals out."""
        labelled = list(references.gather(encoder, labels, settings))
        propagator = cls.of_references(encoder, labelled, labels.skeleton, settings)
        foreground = Foreground.of(encoder, labels) if settings.crop == "auto" else None
        return replace(propagator, foreground=foreground)

    @classmethod
    def of_references(
        cls, encoder: Encoder, labelled: Sequence[Reference], skeleton: Skeleton, settings: KeypointSettings = DEFAULTS
    ) -> "Propagator":
        """The same of labelled animals that are encoded already; it takes an image as a whole, or the boxes given."""
        if not labelled:
            raise InputError("no keypoint is labelled as visible; label at least one image")
        if settings.mirror and skeleton.mirror is None:
            raise InputError("mirror needs keypoints with left and right in their names; set mirror=False")
        panel = Panel(labelled, skeleton, most=settings.references)
        calibration = calibrate(panel, labelled, settings, fallback=encoder.threshold)
        return cls(encoder, skeleton, panel, calibration, settings)

    def label(self, pixels: UInt8[Tensor, "3 h w"], boxes: Sequence[GivenBox] = ()) -> list[Animal]:
        """The animals of an image: one for each box, or those that are found on it."""
        return list(self.label_batch([(pixels, boxes)])[0].animals)

    def label_batch(self, pictures: Sequence[Seen]) -> "list[Found]":
        """What is found on each of several images, which are encoded together; each comes with the boxes it has."""
        given = [[references.square(box, self.settings.margin) for box in boxes] for _, boxes in pictures]
        wholes: list[list[Box]] = [[(0, 0, pixels.shape[-1], pixels.shape[-2])] for pixels, _ in pictures]
        seen = self._see(pictures, [boxes or whole for boxes, whole in zip(given, wholes, strict=True)])
        looks = [references.mean_descriptor(windows[0][0]) for windows in seen]
        if self.foreground is not None:
            places = [
                [] if boxes else self.foreground.windows(windows[0][0], self.settings.margin)
                for boxes, windows in zip(given, seen, strict=True)
            ]
            seen = [nearer or first for nearer, first in zip(self._see(pictures, places), seen, strict=True)]
        animals = [[self.animal(*window) for window in windows] for windows in seen]
        if self.settings.second_look:
            unboxed = [[] if boxes else some for boxes, some in zip(given, animals, strict=True)]
            animals = self._again(pictures, animals, unboxed)
        return [Found(tuple(some), look) for some, look in zip(animals, looks, strict=True)]

    def _see(self, pictures: Sequence[Seen], windows: Sequence[Sequence[Box]]) -> list[list[Look]]:
        """The features of every window, image by image."""
        cut = (
            references.pixels_in(pixels, box)
            for (pixels, _), boxes in zip(pictures, windows, strict=True)
            for box in boxes
        )
        maps = references.encode(self.encoder, cut, mirror=self.settings.mirror)

        def look(box: Box) -> Look:
            features, mirrored = next(maps)
            return features, box, mirrored

        return [[look(box) for box in boxes] for boxes in windows]

    def animal(self, features: FeatureMap, box: Box, mirrored: FeatureMap | None = None) -> Animal:
        """The animal in a window of an image that has these features, and its mirror image the others."""
        votes = self.panel.vote(features, whole=references.mean_descriptor(features), mirrored=mirrored)
        return animal_of(votes, self.calibration, box)

    def _again(
        self, pictures: Sequence[Seen], animals: list[list[Animal]], again: Sequence[Sequence[Animal]]
    ) -> list[list[Animal]]:
        """The animals; those in `again` are matched once more, in windows around their sure points."""
        around = [[_around(animal, self.settings.margin) for animal in some] for some in again]
        seen = self._see(pictures, [[box for box in boxes if box is not None] for boxes in around])
        nearer = [iter(windows) for windows in seen]
        return [
            [self.animal(*next(windows)) if box else animal for animal, box in zip(some, boxes, strict=True)]
            if boxes
            else some
            for some, boxes, windows in zip(animals, around, nearer, strict=True)
        ]


@dataclass(frozen=True)
class Found:
    """The animals of an image, and what it looks like as a whole."""

    animals: tuple[Animal, ...]
    look: Float[Tensor, "c"]  # mean descriptor


def _around(animal: Animal, margin: float) -> Box | None:
    """A window around the points that are sure; None if they are too few."""
    assert animal.uncertainty is not None
    sure = (animal.state == VISIBLE) & (animal.uncertainty < SURE)
    if int(sure.sum()) < references.FEWEST_POINTS:
        return None
    (x0, y0), (x1, y1) = animal.xy[sure].min(0).values.tolist(), animal.xy[sure].max(0).values.tolist()
    return references.square((x0, y0, x1, y1), margin)


def animal_of(votes: Votes, calibration: Calibration, box: Box) -> Animal:
    """What the votes about a window say, in pixels of the image; a keypoint that no label shows stays unknown."""
    visible = calibration.visible(votes)
    state = torch.where(visible, VISIBLE, HIDDEN).where(votes.known, UNKNOWN)
    xy = (votes.xy + torch.tensor(box[:2])).where(votes.known[:, None], torch.nan)
    x0, y0, x1, y1 = map(float, box)
    uncertainty = calibration.uncertainty(votes)
    return Animal(xy, state, (x0, y0, x1, y1), "", votes.score, uncertainty, votes.twin_margin)
