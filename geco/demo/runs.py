"""A run: the keypoints of a few labelled images carried to the others of a session, one image at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from geco import geometry, matching
from geco.data import named
from geco.demo.sheet import Labels, Place, Sheet
from geco.demo.uploads import SessionImage
from geco.errors import InputError
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, Animal, Propagator, Reference, reference
from geco.propagation.settings import KeypointSettings
from geco.types import Encoder

SessionImages = Mapping[str, SessionImage]  # by identity


@dataclass
class Run:
    """What is left of a run. Its labels are those at its start; an image removed since is passed over."""

    encoder: Encoder
    settings: KeypointSettings
    sheet: Sheet
    labelled: list[str]  # images still to be encoded, whose labels the run learns from …
    pending: list[str]  # … and those still to be labelled
    total: int
    references: list[Reference]
    propagator: Propagator | None = None

    @classmethod
    def of(cls, encoder: Encoder, sheet: Sheet, identities: Sequence[str], *, threshold: float | None = None) -> "Run":
        """A run over these images; those that are labels or were corrected stay as they are."""
        matching.check_single(encoder)
        given = [identity for identity in identities if _teaches(sheet.of(identity))]
        if not given:
            raise InputError("no image is a label yet; click points in one, then label the rest")
        labels = {identity: sheet.of(identity) for identity in identities}
        pending = [identity for identity, one in labels.items() if not (one.is_label or one.corrected)]
        if not pending:
            raise InputError("every image is labelled or corrected already; upload more, or clear one first")
        settings = KeypointSettings(threshold=threshold)
        return cls(encoder, settings, sheet, given, pending, len(given) + len(pending), [])

    @property
    def done(self) -> int:
        """Images that are finished."""
        return self.total - len(self.labelled) - len(self.pending)

    def step(self, images: SessionImages) -> tuple[str, dict[int, Place]] | None:
        """Process one more image: what was found on it, or None if it was a label or is gone."""
        if self.labelled:
            identity = self.labelled.pop(0)
            if identity in images:
                self.references.append(self._reference(images[identity], self.sheet.of(identity)))
            return None
        identity = self.pending.pop(0)
        if identity not in images:
            return None
        if self.propagator is None:
            skeleton = named([keypoint.name for keypoint in self.sheet.keypoints])
            self.propagator = Propagator.of_references(self.encoder, self.references, skeleton, self.settings)
        image = images[identity]
        with torch.inference_mode():
            features = image.features(self.encoder)
            animal = self.propagator.animal(features, _whole(image))
        return identity, _places(animal, image, self.sheet.numbers)

    def _reference(self, image: SessionImage, labels: Labels) -> Reference:
        labelled = animal(labels, self.sheet.numbers)
        xy = geometry.resize_points(labelled.xy, size=image.size, to=image.shown)
        with torch.inference_mode():
            return reference(image.features(self.encoder), replace(labelled, xy=xy), _whole(image))


def animal(labels: Labels, numbers: Sequence[int]) -> Animal:
    """The labels of an image, in its own pixels, one row for each keypoint; labels of a run have no scores."""
    places = [labels.places.get(number) for number in numbers]
    state = [UNKNOWN if place is None else VISIBLE if place.visible else HIDDEN for place in places]
    nowhere = torch.nan, torch.nan
    xy = [(place.x, place.y) if place is not None and place.visible else nowhere for place in places]
    points, states = torch.tensor(xy, dtype=torch.float32).reshape(-1, 2), torch.tensor(state, dtype=torch.long)
    if labels.is_label:
        return Animal(points, states)
    score = torch.tensor([0.0 if place is None else place.score for place in places])
    uncertainty = torch.tensor([0.0 if place is None else place.uncertainty for place in places])
    return Animal(points, states, score=score, uncertainty=uncertainty)


def _teaches(labels: Labels) -> bool:
    return labels.is_label and any(place.visible for place in labels.places.values())


def _whole(image: SessionImage) -> tuple[int, int, int, int]:
    height, width = image.shown
    return 0, 0, width, height


def _places(animal: Animal, image: SessionImage, numbers: Sequence[int]) -> dict[int, Place]:
    """What was found, in the image's own pixels; a keypoint that no label shows has no place."""
    assert animal.score is not None
    assert animal.uncertainty is not None
    xy = geometry.resize_points(animal.xy, size=image.shown, to=image.size).tolist()
    columns = zip(
        numbers,
        xy,
        animal.state.tolist(),
        animal.score.tolist(),
        animal.uncertainty.tolist(),
        animal.side_unsure.tolist(),
        strict=True,
    )
    return {
        number: Place(x, y, state == VISIBLE, score, uncertainty, side and state == VISIBLE)
        for number, (x, y), state, score, uncertainty, side in columns
        if state != UNKNOWN
    }
