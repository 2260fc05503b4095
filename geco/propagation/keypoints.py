"""Keypoints of a few labelled images carried to many others."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from geco import images
from geco.errors import InputError
from geco.propagation import references
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.calibration import Calibration, calibrate
from geco.propagation.references import Box
from geco.propagation.settings import KeypointSettings
from geco.propagation.voting import Panel, Votes
from geco.types import Encoder, FeatureMap, Skeleton

SURE = 0.5  # uncertainty below which a point helps to find the animal
DEFAULTS = KeypointSettings()
GivenBox = tuple[float, float, float, float]


@dataclass(frozen=True)
class Propagator:
    """Labelled animals ready to label others; made once, used for any number of images."""

    encoder: Encoder
    skeleton: Skeleton
    panel: Panel
    calibration: Calibration
    settings: KeypointSettings

    @classmethod
    def of(cls, encoder: Encoder, labels: LabelSet, settings: KeypointSettings = DEFAULTS) -> "Propagator":
        """What these labels say, with threshold and uncertainty found on them by leaving animals out."""
        labelled = list(references.gather(encoder, labels, settings))
        if not labelled:
            raise InputError("no keypoint is labelled as visible; label at least one image")
        panel = Panel(labelled, labels.skeleton, most=settings.references)
        calibration = calibrate(panel, labelled, settings, fallback=encoder.threshold)
        return cls(encoder, labels.skeleton, panel, calibration, settings)

    def label(self, pixels: UInt8[Tensor, "3 h w"], boxes: Sequence[GivenBox] = ()) -> list[Animal]:
        """The animals of an image: one for each box, or the one that the whole image shows."""
        size = pixels.shape[-2], pixels.shape[-1]
        windows: list[Box] = [references.square(box, self.settings.margin) for box in boxes]
        windows = windows or [(0, 0, size[1], size[0])]
        seen = self.encoder.extract_stream([references.pixels_in(pixels, box) for box in windows])
        found = [self._animal(features, box) for features, box in zip(seen, windows, strict=True)]
        if not self.settings.second_look or boxes:
            return found
        return [self._again(pixels, animal) for animal in found]

    def _animal(self, features: FeatureMap, box: Box) -> Animal:
        votes = self.panel.vote(features, whole=references.mean_descriptor(features))
        return animal_of(votes, self.calibration, box)

    def _again(self, pixels: UInt8[Tensor, "3 h w"], animal: Animal) -> Animal:
        """The animal as it is seen in a window around the points that are sure."""
        assert animal.uncertainty is not None
        sure = (animal.state == VISIBLE) & (animal.uncertainty < SURE)
        if int(sure.sum()) < references.FEWEST_POINTS:
            return animal
        (x0, y0), (x1, y1) = animal.xy[sure].min(0).values.tolist(), animal.xy[sure].max(0).values.tolist()
        box = references.square((x0, y0, x1, y1), self.settings.margin)
        (features,) = self.encoder.extract_stream([references.pixels_in(pixels, box)])
        return self._animal(features, box)


def animal_of(votes: Votes, calibration: Calibration, box: Box) -> Animal:
    """What the votes about a window say, in pixels of the image; a keypoint that no label shows stays unknown."""
    visible = calibration.visible(votes)
    state = torch.where(visible, VISIBLE, HIDDEN).where(votes.known, UNKNOWN)
    xy = (votes.xy + torch.tensor(box[:2])).where(votes.known[:, None], torch.nan)
    x0, y0, x1, y1 = map(float, box)
    return Animal(xy, state, (x0, y0, x1, y1), score=votes.score, uncertainty=calibration.uncertainty(votes))


def propagate(
    encoder: Encoder,
    labels: LabelSet,
    pictures: Iterable[str | Path],
    settings: KeypointSettings = DEFAULTS,
    *,
    boxes: Mapping[Path, Sequence[GivenBox]] | None = None,
) -> Iterator[LabelledImage]:
    """The image files with the keypoints of their animals, one after the other.

    `boxes` say where the animals of an image are; without them an image shows one.
    """
    propagator = Propagator.of(encoder, labels, settings)
    for picture in pictures:
        path = Path(picture)
        pixels = images.read(path)
        animals = propagator.label(pixels, (boxes or {}).get(path, ()))
        yield LabelledImage(path, tuple(animals), size=(pixels.shape[-2], pixels.shape[-1]))
