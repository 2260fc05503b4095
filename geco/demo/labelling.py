"""Labelling of a session: its sheet, the steps back, and the run that is under way."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from geco import checks
from geco.demo.runs import Run, SessionImages
from geco.demo.settings import AppSettings
from geco.demo.sheet import Labels, Sheet
from geco.demo.values import Values, colour
from geco.errors import InputError

Start = Callable[[Sheet, Sequence[str]], Run]


@dataclass
class Labelling:
    """The labels of one visitor's images. A run takes one request for each image, and ends with the page."""

    sheet: Sheet = field(default_factory=Sheet)
    history: list[Sheet] = field(default_factory=list)
    nudged: tuple[str, int] | None = None  # the image and point whose moves are one step to undo
    run: Run | None = None

    def change(self, sheet: Sheet, *, steps: int, nudge: tuple[str, int] | None = None) -> None:
        """Take a new sheet and remember the one before; other keypoints than those of a run end it."""
        if sheet == self.sheet:
            return
        if nudge is None or nudge != self.nudged:
            self.history = [*self.history, self.sheet][-steps:]
        if sheet.numbers != self.sheet.numbers:
            self.run = None
        self.sheet, self.nudged = sheet, nudge

    def undo(self) -> None:
        """Go one step back, if there is one; a run as a whole is one step."""
        if not self.history:
            raise InputError("there is nothing to undo")
        self.sheet, self.nudged, self.run = self.history.pop(), None, None

    def forget(self, identity: str) -> None:
        """Delete the labels of an image that is removed, also from the steps to undo; a run it taught ends."""
        if self.run is not None and self.run.sheet.of(identity).is_label:
            self.run = None
        self.sheet = self.sheet.cleared(identity)
        self.history = [sheet.cleared(identity) for sheet in self.history]
        self.nudged = None

    def begin(self, run: Run, *, steps: int) -> None:
        """Start a run; what the run before it found, unless corrected, is forgotten."""
        labels = {
            identity: labels for identity, labels in self.sheet.labels.items() if labels.is_label or labels.corrected
        }
        self.history = [*self.history, self.sheet][-steps:]
        self.sheet, self.nudged = Sheet(self.sheet.keypoints, labels, self.sheet.selected), None
        self.run = run

    def step(self, images: SessionImages) -> None:
        """Process one more image; what was labelled by hand in the meantime stays."""
        if self.run is None:
            return
        result = self.run.step(images)
        if result is not None and self.sheet.of(result[0]) == Labels():
            self.sheet = self.sheet.found(*result)
        if self.run.done == self.run.total:
            self.run = None

    def state(self, images: SessionImages) -> dict[str, Any]:
        """What the page shows: labels first, then what was found, the most uncertain first."""
        sheet = self.sheet
        return {
            "keypoints": [asdict(keypoint) | {"colour": colour(keypoint)} for keypoint in sheet.keypoints],
            "selected": sheet.selected,
            "undo": len(self.history),
            "run": None if self.run is None else {"done": self.run.done, "total": self.run.total},
            "images": [_shown(identity, sheet) for identity in sheet.order(list(images))],
        }


def act(labelling: Labelling, images: SessionImages, values: Values, *, settings: AppSettings, start: Start) -> None:
    """Do to a session's labels what `values["do"]` says; `start` makes a run."""
    sheet, number = labelling.sheet, values.get("number")
    nudge: tuple[str, int] | None = None
    what = checks.choice(values.get("do"), "what to do", (*WITHOUT_IMAGE, *ON_IMAGE))
    if what == "state":
        return
    if what == "select":
        labelling.sheet = sheet.chosen(number)
    elif what == "undo":
        labelling.undo()
    elif what == "start":
        labelling.begin(start(sheet, list(images)), steps=settings.steps)
    elif what == "step":
        labelling.step(images)
    elif what == "cancel":
        labelling.run = None
    else:
        if what == "new":
            sheet = sheet.extended(most=settings.points)
        elif what == "rename":
            sheet = sheet.renamed(number, values.get("name"))
        elif what == "delete":
            sheet = sheet.deleted(number)
        else:
            sheet = _on_image(what, sheet, images, values, most=settings.points)
            if what == "move" and values.get("nudge") is True:
                nudge = str(values.get("image")), sheet.selected
        labelling.change(sheet, steps=settings.steps, nudge=nudge)


WITHOUT_IMAGE = ("state", "select", "undo", "start", "step", "cancel", "new", "rename", "delete")
ON_IMAGE = ("click", "move", "show", "clear", "use")


def _on_image(what: str, sheet: Sheet, images: SessionImages, values: Values, *, most: int) -> Sheet:
    identity, number = values.get("image"), values.get("number")
    if not isinstance(identity, str) or identity not in images:
        raise InputError(f"this page has no image {checks.shown(identity)}; upload it again")
    size = images[identity].size
    if what == "click":
        return sheet.clicked(identity, values.get("x"), values.get("y"), size=size, most=most)
    if what == "move":
        return sheet.moved(identity, number, values.get("x"), values.get("y"), size=size)
    if what == "show":
        return sheet.shown(identity, number, visible=checks.flag(values.get("visible"), "visible"), size=size)
    if what == "use":
        return sheet.used(identity, checks.flag(values.get("on"), "on"))
    return sheet.cleared(identity, number)


def _shown(identity: str, sheet: Sheet) -> dict[str, Any]:
    labels = sheet.of(identity)
    return {
        "id": identity,
        "is_label": labels.is_label,
        "corrected": labels.corrected,
        "expected_errors": labels.expected_errors,
        "following": sheet.following(identity),
        "places": [{"number": number} | asdict(place) for number, place in sorted(labels.places.items())],
    }
