"""Sessions: one for each open page, with photographs, points and undo of its own; nobody else's key opens it."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geco import checks
from geco.demo.answers import Answer
from geco.demo.board import Board
from geco.demo.labelling import Labelling
from geco.demo.photographs import Photograph
from geco.demo.settings import AppSettings
from geco.errors import InputError

ANSWERS = 4000  # that a session remembers


@dataclass
class Session:
    """One visitor's photographs and points. Everything is in memory and goes with the session."""

    settings: AppSettings
    photographs: dict[str, Photograph] = field(default_factory=dict)
    board: Board = field(default_factory=Board)
    history: list[Board] = field(default_factory=list)
    twins: bool = False  # whether twins are shown
    answers: dict[tuple[object, ...], Answer] = field(default_factory=dict)
    nudged: int = 0  # the point whose moves are one step to undo
    labelling: Labelling = field(default_factory=Labelling)  # of the tab Label many
    used: float = 0.0  # when, by the clock of `Sessions`
    lock: threading.Lock = field(default_factory=threading.Lock)  # requests of one page, one after the other

    def photograph(self, identity: object) -> Photograph:
        """A photograph of this session."""
        if not isinstance(identity, str) or identity not in self.photographs:
            raise InputError(f"this page has no photograph {checks.shown(identity)}; upload it again")
        return self.photographs[identity]

    def add(self, photograph: Photograph) -> str:
        """Keep a photograph; returns its identity. One that is there already is not kept twice."""
        for identity, known in self.photographs.items():
            if known is photograph:
                return identity
        if len(self.photographs) >= self.settings.photographs:
            raise InputError(
                f"there are {len(self.photographs)} photographs already, which is the limit; remove one first"
            )
        identity = secrets.token_urlsafe(9)
        self.photographs[identity] = photograph
        return identity

    def remove(self, identity: object) -> None:
        """Delete a photograph, with the steps to undo that show it."""
        self.photograph(identity)
        del self.photographs[str(identity)]
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
    """Open sessions by their keys; those that nobody uses any more are deleted."""

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
        """Delete a session and its photographs."""
        with self.lock:
            self.open_ones.pop(key, None)

    def expire(self) -> None:
        """Delete the sessions that nobody has used for too long."""
        oldest = self.clock() - 60 * self.settings.minutes
        with self.lock:
            for key in [key for key, session in self.open_ones.items() if session.used < oldest]:
                del self.open_ones[key]


class ClosedError(InputError):
    """The session of a request does not exist, or no longer."""
