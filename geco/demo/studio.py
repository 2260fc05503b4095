"""The page's logic without a page: sessions, images, points, answers, parts, components, models, downloads.

Every request is a plain function of a session's key and plain values, and returns plain values that become JSON.
Requests compute one after the other; when too many wait, further ones are refused at once.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from geco import checks, images, matching, viz
from geco.demo import answers, downloads, gallery, labelling, runs, uploads
from geco.demo.answers import Answer
from geco.demo.board import TARGETS, Board
from geco.demo.encoders import Encoders
from geco.demo.sessions import Session, Sessions
from geco.demo.settings import AppSettings
from geco.demo.uploads import SessionImage
from geco.demo.values import PARTS, Values, colour, embedded, several, strokes_of
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.types import Encoder

# Images (source first) and points of each example; those of the gallery.
EXAMPLES: dict[str, tuple[tuple[str, ...], Mapping[str, tuple[float, float]]]] = {
    "face": (("cheetah", "cub"), {name: gallery.FACE[name] for name in ("right eye", "left eye", "nose")}),
    "tail": (("runner", "cheetah"), {name: gallery.TAIL[name] for name in ("nose", "tail tip")}),
    "species": (("cheetah", "lion", "cub"), {name: gallery.FACE[name] for name in ("chin", "left ear")}),
}


class BusyError(InputError):
    """Too many requests are waiting."""


class Studio:
    """The models, and a session for each page that is open."""

    def __init__(
        self, encoders: Encoders, settings: AppSettings = AppSettings(), *, threshold: float | None = None
    ) -> None:
        self.encoders, self.settings, self.threshold = encoders, settings, threshold
        self.sessions = Sessions(settings)
        self.examples: dict[str, SessionImage] = {}
        self._processor = threading.Lock()
        self._places = threading.BoundedSemaphore(settings.waiting + 1)

    # --- sessions and images ------------------------------------------------------------------------------------------

    def open(self) -> dict[str, Any]:
        """A new session: its key, and what the page needs to know."""
        return {
            "key": self.sessions.open(),
            "models": self.encoders.names,
            "missing": self.encoders.missing,
            "examples": list(EXAMPLES),
            "colours": list(viz.PALETTE),
            "parts": PARTS,
            "megabytes": self.settings.megabytes,
            "images": self.settings.images,
        }

    def close(self, key: str) -> None:
        """Delete a session and its images."""
        self.sessions.close(key)

    def upload(self, key: str, content: bytes, name: str, slot: object = None) -> dict[str, Any]:
        """The state after an image was uploaded and placed in a slot: the given one, or the first that is empty."""
        with self._turn(key) as session:
            identity = session.add(uploads.admit(content, name, self.settings))
            self._place(session, identity, slot)
            return self._state(session)

    def jpeg(self, key: str, identity: str) -> bytes:
        """An image of this session, as a browser shows it."""
        session = self.sessions.find(key)
        with session.lock:
            return session.image(identity).jpeg()

    def _place(self, session: Session, identity: str, slot: object) -> None:
        board = session.board
        if slot is None:
            slot = 0 if not board.source else 1 if not board.targets[0] else None
        if slot is not None:
            session.change(board.placed(slot, identity))

    # --- points -------------------------------------------------------------------------------------------------------

    def act(self, key: str, values: Values) -> dict[str, Any]:
        """The state after something was done to the images or points: `values["do"]` says what."""
        actions: dict[str, Callable[[Session, Values], None]] = {
            "state": lambda session, values: None,
            "add": self._add,
            "move": self._move,
            "rename": lambda session, v: session.change(session.board.renamed(v.get("number"), v.get("name"))),
            "delete": lambda session, v: session.change(session.board.deleted(v.get("number"))),
            "clear": lambda session, v: session.change(replace(session.board, spots=(), selected=0)),
            "select": self._select,
            "undo": lambda session, v: session.undo(),
            "swap": self._swap,
            "place": self._put,
            "remove": lambda session, v: session.remove(v.get("image")),
            "twins": self._show_twins,
            "example": self._example,
        }
        what = checks.choice(values.get("do"), "what to do", tuple(actions))
        with self._turn(key) as session:
            actions[what](session, values)
            return self._state(session)

    def _add(self, session: Session, values: Values) -> None:
        size = session.image(session.board.source).size if session.board.source else (0, 0)
        session.change(session.board.added(values.get("x"), values.get("y"), size=size, most=self.settings.points))

    def _move(self, session: Session, values: Values) -> None:
        size = session.image(session.board.source).size if session.board.source else (0, 0)
        board = session.board.moved(values.get("number"), values.get("x"), values.get("y"), size=size)
        session.change(board, nudge=board.selected if values.get("nudge") is True else 0)

    def _select(self, session: Session, values: Values) -> None:
        session.board = session.board.chosen(values.get("number"))  # not a step to undo

    def _put(self, session: Session, values: Values) -> None:
        identity = values.get("image")
        if identity != "":
            session.image(identity)
        session.change(session.board.placed(values.get("slot"), str(identity)))

    def _show_twins(self, session: Session, values: Values) -> None:
        session.twins = checks.flag(values.get("on"), "on")

    def _swap(self, session: Session, values: Values) -> None:
        """Source and first target change places; points go where they were found, hidden ones are left out."""
        board = session.board
        if not (board.source and board.targets[0]):
            raise InputError("swapping takes an image on the left and one on the right; choose both first")
        found = self._answers(session, board.targets[0])
        pairs = zip(board.spots, found, strict=True)
        spots = tuple(replace(spot, x=place.x, y=place.y) for spot, place in pairs if place.visible)
        numbers = [spot.number for spot in spots]
        selected = board.selected if board.selected in numbers else numbers[0] if numbers else 0
        session.change(Board(board.targets[0], (board.source, board.targets[1]), spots, selected))

    def _example(self, session: Session, values: Values) -> None:
        name = checks.choice(values.get("name"), "the example", tuple(EXAMPLES))
        files, points = EXAMPLES[name]
        for file in files:
            if file not in self.examples:
                pixels = images.read(gallery.find_images()[file])
                self.examples[file] = uploads.of_pixels(pixels, f"{file}.jpg", self.settings)
        identities = [session.add(self.examples[file]) for file in files]
        board = Board()
        for slot in range(TARGETS + 1):
            board = board.placed(slot, identities[slot] if slot < len(identities) else "")
        for label, (x, y) in points.items():
            board = board.added(x, y, size=self.examples[files[0]].size, most=len(points), name=label)
        session.change(board)

    # --- what the page shows ------------------------------------------------------------------------------------------

    def _state(self, session: Session) -> dict[str, Any]:
        board, encoder = session.board, self.encoders.first
        found = [self._answers(session, target) if target else [] for target in board.targets]
        twins = [self._answers(session, target, twins=True) if target else [] for target in board.targets]
        return {
            "images": [
                {"id": identity, "name": image.name, "height": image.size[0], "width": image.size[1]}
                for identity, image in session.images.items()
            ],
            "source": board.source,
            "targets": board.targets,
            "selected": board.selected,
            "twins": session.twins,
            "undo": len(session.history),
            "model": encoder.name,
            "threshold": self._settings(encoder).threshold,
            "points": [
                asdict(spot)
                | {"colour": colour(spot)}
                | {"answers": [asdict(column[row]) if column else None for column in found]}
                | {"twins": [asdict(column[row]) if column else None for column in twins]}
                for row, spot in enumerate(board.spots)
            ],
            "heat": [self._heat(session, encoder, target) for target in board.targets],
        }

    def _answers(self, session: Session, target: str, *, twins: bool = False) -> list[Answer]:
        """Where all points lie in a target, of which only those that are new are computed."""
        if twins and not session.twins:
            return []
        return self._found(session, self.encoders.first, target, twins=twins)

    def _found(self, session: Session, encoder: Encoder, target: str, *, twins: bool = False) -> list[Answer]:
        board = session.board
        keys = [(id(encoder), board.source, target, twins, spot.x, spot.y) for spot in board.spots]
        known = {key: session.answers[key] for key in keys if key in session.answers}
        new = {key: spot for key, spot in zip(keys, board.spots, strict=True) if key not in known}
        if new:
            pair = session.image(board.source), session.image(target)
            places = answers.locate(encoder, self._settings(encoder), pair, list(new.values()), twins=twins)
            for key, answer in zip(new, places, strict=True):
                session.remember(key, answer)
                known[key] = answer
        return [known[key] for key in keys]

    def _settings(self, encoder: Encoder) -> MatchSettings:
        """How a model's maps are compared; a threshold that was asked for is that of the model asked for."""
        return answers.settings_of(encoder, self.threshold if encoder is self.encoders.first else None)

    def _heat(self, session: Session, encoder: Encoder, target: str) -> str:
        """The similarity map of the selected point as the address of a picture; none without point or target.

        The warmest colour is the best similarity or, where the point is not visible, the threshold.
        """
        board = session.board
        if not (target and board.source and board.selected):
            return ""
        pair = session.image(board.source), session.image(target)
        settings = self._settings(encoder)
        scores = answers.heat(encoder, settings, pair, board.spot(board.selected))
        return embedded(viz.heat_png(scores, high=max(settings.threshold, float(scores.max()))))

    # --- the other tabs -----------------------------------------------------------------------------------------------

    def compare(self, key: str, values: Values) -> dict[str, Any]:
        """What several models say about the points of the session in its first target."""
        names = several(values.get("models"), "models", most=len(self.encoders.names))
        with self._turn(key) as session:
            target = session.board.targets[0]
            if not (session.board.source and target and session.board.spots):
                raise InputError("comparing models takes two images and a point; set them in the tab Point first")
            columns = []
            for name in names:
                encoder = self.encoders.named(name)
                found = self._found(session, encoder, target)
                columns.append(
                    {
                        "model": name,
                        "threshold": self._settings(encoder).threshold,
                        "answers": [asdict(answer) for answer in found],
                        "heat": self._heat(session, encoder, target),
                    }
                )
            return {"columns": columns}

    def components(self, key: str, values: Values) -> dict[str, Any]:
        """Principal components of the images together, as colours, one picture each."""
        with self._turn(key) as session:
            encoder = self.encoders.named(values.get("model", self.encoders.first.name))
            matching.check_single(encoder)
            if not session.images:
                raise InputError("there is no image yet; upload one, or take an example")
            maps = [image.features(encoder) for image in session.images.values()]
            pictures = [embedded(viz.components_png(colours)) for colours in viz.principal_components(maps)]
            return {"pictures": dict(zip(session.images, pictures, strict=True))}

    def parts(self, key: str, values: Values) -> dict[str, Any]:
        """The parts that are painted on one image, in all of the session."""
        with self._turn(key) as session:
            image = session.image(values.get("image"))
            strokes = strokes_of(values.get("strokes"))
            others = list(session.images.values())
            maps = answers.parts(self.encoders.first, image, strokes, others)
            pictures = [embedded(viz.labels_png(labels)) for labels in maps]
            return {"pictures": dict(zip(session.images, pictures, strict=True))}

    def label(self, key: str, values: Values) -> dict[str, Any]:
        """The labels of many images after something was done to them; a run processes one more image."""
        with self._turn(key) as session:
            start = partial(runs.Run.of, self.encoders.first, threshold=self.threshold)
            labelling.act(session.labelling, session.images, values, settings=self.settings, start=start)
            return session.labelling.state(session.images)

    def download(self, key: str, kind: str) -> bytes:
        """A file: "csv" and "coco" hold the points, "png" is the picture; "labels-…" those of many images."""
        kind = checks.choice(kind, "the kind of a download", ("csv", "coco", "png", "labels-csv", "labels-coco"))
        with self._turn(key) as session:
            if kind.startswith("labels-"):
                many = downloads.labels_of_many(session.images, session.labelling.sheet)
                return downloads.table(many, kind.removeprefix("labels-"))
            board = session.board
            if not board.source:
                raise InputError("there is nothing to download yet; choose an image and click in it")
            source = session.image(board.source)
            found = [(session.image(t), self._answers(session, t)) for t in board.targets if t]
            if kind == "png":
                return downloads.picture(source, board.spots, found, title=self.encoders.first.name)
            return downloads.table(downloads.labels(source, board.spots, found), kind)

    @contextmanager
    def _turn(self, key: str) -> Iterator[Session]:
        """The session, once it is its turn to compute."""
        session = self.sessions.find(key)
        if not self._places.acquire(blocking=False):
            raise BusyError("too many requests are waiting at the moment; try again in a few seconds")
        try:
            with session.lock, self._processor:
                yield session
        finally:
            self._places.release()
