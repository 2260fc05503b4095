"""Sessions: one for each open page, with its own images, points and undo, reached only by its key."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geco import checks
from geco.demo.answers import Answer
from geco.demo.board import Board
from geco.demo.labelling import Labelling
from geco.demo.settings import AppSettings
from geco.demo.uploads import SessionImage
from geco.errors import InputError

ANSWERS = 4000  # that a session remembers


@dataclass
class Session:
    """One visitor's images and points. Everything is in memory and goes with the session."""

    settings: AppSettings
    images: dict[str, SessionImage] = field(default_factory=dict)
    board: Board = field(default_factory=Board)
    history: list[Board] = field(default_factory=list)
    twins: bool = False  # whether twins are shown
    answers: dict[tuple[object, ...], Answer] = field(default_factory=dict)
    nudged: int = 0  # the point whose moves are one step to undo
    labelling: Labelling = field(default_factory=Labelling)  # of the tab Label many
    used: float = 0.0  # when, by the clock of `Sessions`
    lock: threading.Lock = field(default_factory=threading.Lock)  # requests of one page, one after the other

    def image(self, identity: object) -> SessionImage:
        """An image of this session."""
        if not isinstance(identity, str) or identity not in self.images:
            raise InputError(f"this page has no image {checks.shown(identity)}; upload it again")
        return self.images[identity]

    def add(self, image: SessionImage) -> str:
        """Keep an image; returns its identity. One that is there already is not kept twice."""
        for identity, known in self.images.items():
            if known is image:
                return identity
        if len(self.images) >= self.settings.images:
            raise InputError(f"there are {len(self.images)} images already, which is the limit; remove one first")
        identity = secrets.token_urlsafe(9)
        self.images[identity] = image
        return identity

    def remove(self, identity: object) -> None:
        """Delete an image, with the steps to undo that show it."""
        self.image(identity)
        del self.images[str(identity)]
        self.board = self.board.without(str(identity))
        self.history = [board for board in self.history if identity not in (board.source, *board.targets)]
        self.answers.clear()
        self.nudged = 0
        self.labelling.forget(str(identity))

    def change(self, board: Board, *, nudge: int = 0) -> None:
        """Take a new board and remember the one before; moves of one point in a row are one step."""
        if board == self.board:
            return
        if not (nudge and nudge == self.nudged):
            self.history = [*self.history, self.board][-self.settings.steps :]
        self.nudged = nudge
        self.board = board

    def undo(self) -> None:
        """Go one step back, if there is one."""
        if not self.history:
            raise InputError("there is nothing to undo")
        self.board, self.nudged = self.history.pop(), 0

    def remember(self, key: tuple[object, ...], answer: Answer) -> None:
        """Keep an answer; the oldest are forgotten."""
        if len(self.answers) >= ANSWERS:
            self.answers.pop(next(iter(self.answers)))
        self.answers[key] = answer


@dataclass
class Sessions:
    """Open sessions by their keys; those not used for some time are deleted."""

    settings: AppSettings
    clock: Callable[[], float] = time.monotonic
    open_ones: dict[str, Session] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> str:
        """The key of a new session."""
        self.expire()
        with self.lock:
            if len(self.open_ones) >= self.settings.sessions:
                raise InputError(
                    f"{len(self.open_ones)} pages are open, which is the limit; close one, or try again later"
                )
            key = secrets.token_urlsafe(24)
            self.open_ones[key] = Session(self.settings, used=self.clock())
            return key

    def find(self, key: str) -> Session:
        """The session of a key, used just now."""
        self.expire()
        with self.lock:
            session = self.open_ones.get(key)
            if session is None:
                raise ClosedError(
                    f"this page was closed, or not used for {self.settings.minutes:g} minutes; reload it to start again"
                )
            session.used = self.clock()
            return session

    def close(self, key: str) -> None:
        """Delete a session and its images."""
        with self.lock:
            self.open_ones.pop(key, None)

    def expire(self) -> None:
        """Delete the sessions that have not been used for too long."""
        oldest = self.clock() - 60 * self.settings.minutes
        with self.lock:
            for key in [key for key, session in self.open_ones.items() if session.used < oldest]:
                del self.open_ones[key]


class ClosedError(InputError):
    """The session of a request does not exist, or no longer."""
