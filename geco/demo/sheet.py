"""The sheet: named keypoints, and where they are on many images, set by hand or found. Nothing is computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from geco import checks
from geco.demo.board import one_line, within
from geco.errors import InputError


@dataclass(frozen=True)
class Keypoint:
    """A point of the animal that has the same number and name on every image."""

    number: int
    name: str


@dataclass(frozen=True)
class Place:
    """Where a keypoint is on one image, in its pixels; of one that is not visible, the best guess or None."""

    x: float | None
    y: float | None
    visible: bool = True
    score: float = 1.0  # of what was found: similarity …
    uncertainty: float = 0.0  # … the expected share of such points that are wrong …
    side_unsure: bool = False  # … and whether it may be the left or right counterpart


@dataclass(frozen=True)
class Labels:
    """The keypoints of one image by number; a keypoint that is not among them is not labelled."""

    places: Mapping[int, Place] = field(default_factory=dict)
    is_label: bool = False  # whether the next run learns from it
    corrected: bool = False  # changed by hand: a run does not overwrite it

    @property
    def expected_errors(self) -> float:
        """How many points are expected to be wrong."""
        return sum(place.uncertainty for place in self.places.values())


@dataclass(frozen=True)
class Sheet:
    """Keypoints, the labels of images by identity, the keypoint that is selected and the one asked for (or 0)."""

    keypoints: tuple[Keypoint, ...] = ()
    labels: Mapping[str, Labels] = field(default_factory=dict)
    selected: int = 0
    asked: int = 0  # chosen from the list, or new: the next click sets it

    @property
    def numbers(self) -> list[int]:
        """Numbers of the keypoints, in their order."""
        return [keypoint.number for keypoint in self.keypoints]

    def of(self, identity: str) -> Labels:
        """The labels of an image, which may have none."""
        return self.labels.get(identity, Labels())

    def keypoint(self, number: Any) -> Keypoint:
        """The keypoint of this number."""
        for keypoint in self.keypoints:
            if keypoint.number == number and not isinstance(number, bool):
                return keypoint
        raise InputError(f"there is no keypoint {checks.shown(number)}; it may have been deleted")

    def following(self, identity: str) -> int:
        """The keypoint that a click on an image sets: the one asked for, or the first without a place; or 0."""
        places = self.of(identity).places
        if self.asked and self.asked not in places:
            return self.asked
        return next((number for number in self.numbers if number not in places), 0)

    def extended(self, *, most: int) -> "Sheet":
        """With one keypoint more, which is selected and has no place yet."""
        if len(self.keypoints) >= most:
            raise InputError(f"there are {most} keypoints already, which is the limit; delete one first")
        number = max(self.numbers, default=0) + 1
        taken = {keypoint.name for keypoint in self.keypoints}
        names = (f"point {n}" for n in range(number, number + most + 1))
        keypoint = Keypoint(number, next(text for text in names if text not in taken))
        return replace(self, keypoints=(*self.keypoints, keypoint), selected=number, asked=number)

    def clicked(self, identity: str, x: Any, y: Any, *, size: tuple[int, int], most: int) -> "Sheet":
        """With the keypoint that is next set here, or a new one. An image without labels becomes a label."""
        number = self.following(identity)
        sheet = self if number else self.extended(most=most)
        return sheet.moved(identity, number or sheet.selected, x, y, size=size)

    def moved(self, identity: str, number: Any, x: Any, y: Any, *, size: tuple[int, int]) -> "Sheet":
        """With a keypoint at this place of an image, visible and selected."""
        keypoint = self.keypoint(number)
        return self._set(identity, keypoint.number, Place(*within(x, y, size)))

    def shown(self, identity: str, number: Any, *, visible: bool, size: tuple[int, int]) -> "Sheet":
        """With a keypoint marked as visible or not on an image; one without a place gets the middle."""
        keypoint = self.keypoint(number)
        place = self.of(identity).places.get(keypoint.number, Place(None, None))
        if visible and place.x is None:
            place = Place(size[1] / 2, size[0] / 2)
        return self._set(identity, keypoint.number, Place(place.x, place.y, visible))

    def cleared(self, identity: str, number: Any = None) -> "Sheet":
        """Without a keypoint on an image, or without any; an image without labels is found by the next run."""
        if number is None:
            return replace(self, labels={other: labels for other, labels in self.labels.items() if other != identity})
        keypoint = self.keypoint(number)
        before = self.of(identity)
        places = {other: place for other, place in before.places.items() if other != keypoint.number}
        if not places:
            return self.cleared(identity)
        labels = replace(before, places=places, corrected=True)
        return replace(self, labels={**self.labels, identity: labels}, selected=keypoint.number)

    def renamed(self, number: Any, name: Any) -> "Sheet":
        """With another name of a keypoint; the name of another one makes them the same keypoint."""
        keypoint = self.keypoint(number)
        text = one_line(name)
        if not text:
            raise InputError("a keypoint needs a name, got none; call it after the part, such as left eye")
        same = [other for other in self.keypoints if other.name == text and other != keypoint]
        if same:
            return self._merged(keypoint, same[0])
        changed = (replace(keypoint, name=text) if other == keypoint else other for other in self.keypoints)
        return replace(self, keypoints=tuple(changed))

    def deleted(self, number: Any) -> "Sheet":
        """Without a keypoint on any image; an image without any has no labels."""
        gone = self.keypoint(number)
        keypoints = tuple(other for other in self.keypoints if other != gone)
        labels = {
            identity: replace(before, places={n: place for n, place in before.places.items() if n != gone.number})
            for identity, before in self.labels.items()
        }
        left = {identity: after for identity, after in labels.items() if after.places}
        return Sheet(keypoints, left, keypoints[-1].number if keypoints else 0)

    def used(self, identity: str, on: bool) -> "Sheet":
        """With an image that the next run learns from, or does not."""
        before = self.of(identity)
        if not (on or before.places):
            return self
        if on and not any(place.visible for place in before.places.values()):
            raise InputError("an image without a visible point cannot be a label; click a point in it first")
        return replace(self, labels={**self.labels, identity: replace(before, is_label=on, corrected=True)})

    def chosen(self, number: Any) -> "Sheet":
        """With this keypoint selected; on images where it has no place, the next click sets it."""
        chosen = self.keypoint(number).number
        return replace(self, selected=chosen, asked=chosen)

    def found(self, identity: str, places: Mapping[int, Place]) -> "Sheet":
        """With what a run found on an image."""
        return replace(self, labels={**self.labels, identity: Labels(places)})

    def order(self, identities: list[str]) -> list[str]:
        """The images: labels first, then the most uncertain ones, then those without labels."""

        def rank(identity: str) -> tuple[int, float]:
            labels = self.of(identity)
            return 0 if labels.is_label else 1 if labels.places else 2, -labels.expected_errors

        return sorted(identities, key=rank)

    def _set(self, identity: str, number: int, place: Place) -> "Sheet":
        before = self.labels.get(identity)
        # An image without labels becomes a label with its first point; what was found is corrected.
        base = Labels(is_label=True) if before is None else replace(before, corrected=True)
        labels = replace(base, places={**base.places, number: place})
        return replace(self, labels={**self.labels, identity: labels}, selected=number, asked=0)

    def _merged(self, gone: Keypoint, kept: Keypoint) -> "Sheet":
        labels = {}
        for identity, before in self.labels.items():
            if gone.number in before.places and kept.number in before.places:
                raise InputError(
                    f"an image has two points called {checks.shown(kept.name)} then; remove one of them there first"
                )
            places = {kept.number if n == gone.number else n: place for n, place in before.places.items()}
            labels[identity] = replace(before, places=places)
        keypoints = tuple(other for other in self.keypoints if other != gone)
        return Sheet(keypoints, labels, kept.number)
