"""Sessions: keys, undo, limits, expiry, and that nothing is left of one that is closed."""

import gc
import weakref

import pytest
import torch

from geco.demo.board import Board
from geco.demo.sessions import ClosedError, Session, Sessions
from geco.demo.settings import AppSettings
from geco.demo.uploads import SessionImage
from geco.errors import InputError


def image(name="a.jpg"):
    return SessionImage(name, (8, 8), torch.zeros(3, 8, 8, dtype=torch.uint8))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def session():
    session = Session(AppSettings(images=2, steps=3))
    session.change(session.board.placed(0, session.add(image())))
    return session


def test_a_session_opens_with_its_own_key_only():
    sessions = Sessions(AppSettings())
    first, second = sessions.open(), sessions.open()
    assert first != second
    assert len(first) >= 32
    sessions.find(first).add(image())
    assert not sessions.find(second).images
    for key in ("", first[:-1], f"{first}x"):
        with pytest.raises(ClosedError, match="reload it"):
            sessions.find(key)


def test_an_unused_session_is_deleted_with_its_images():
    clock = Clock()
    sessions = Sessions(AppSettings(minutes=10), clock)
    key, other = sessions.open(), sessions.open()
    kept = image()
    sessions.find(key).add(kept)
    seen = weakref.ref(kept)
    del kept
    clock.now = 599
    sessions.find(other)
    assert seen() is not None
    clock.now = 601
    sessions.expire()
    gc.collect()
    assert seen() is None
    with pytest.raises(ClosedError, match="not used for 10 minutes"):
        sessions.find(key)


def test_a_closed_session_is_gone_and_makes_room():
    sessions = Sessions(AppSettings(sessions=1))
    key = sessions.open()
    with pytest.raises(InputError, match="1 pages are open, which is the limit"):
        sessions.open()
    sessions.close(key)
    sessions.close("of nobody")
    with pytest.raises(ClosedError):
        sessions.find(key)
    sessions.open()


def test_undo_goes_back_step_by_step(session):
    boards = [session.board]
    for x in (1, 2, 3):
        session.change(session.board.added(x, x, size=(8, 8), most=9))
        boards.append(session.board)
    for board in reversed(boards[:-1]):
        session.undo()
        assert session.board == board
    with pytest.raises(InputError, match="nothing to undo"):
        session.undo()


def test_only_so_many_steps_are_remembered(session):
    for x in range(6):
        session.change(session.board.added(x, x, size=(8, 8), most=9))
    assert len(session.history) == 3


def test_moves_in_a_row_are_one_step(session):
    session.change(session.board.added(1, 1, size=(8, 8), most=9))
    session.change(session.board.added(5, 5, size=(8, 8), most=9))
    before = session.board
    for x in (2, 3, 4):
        session.change(session.board.moved(1, x, x, size=(8, 8)), nudge=1)
    between = session.board
    session.change(session.board.moved(2, 6, 6, size=(8, 8)), nudge=2)
    session.undo()
    assert session.board == between
    session.undo()
    assert session.board == before


def test_what_changes_nothing_is_no_step(session):
    steps = len(session.history)
    session.change(session.board)
    assert len(session.history) == steps


def test_a_removed_image_cannot_come_back_by_undo(session):
    other = session.add(image("b.jpg"))
    session.change(session.board.placed(1, other))
    session.remove(other)
    assert session.board.targets == ("", "")
    while session.history:
        session.undo()
        assert other not in session.board.targets
    with pytest.raises(InputError, match="this page has no image"):
        session.image(other)


def test_the_number_of_images_is_limited(session):
    same = image("b.jpg")
    assert session.add(same) == session.add(same)
    with pytest.raises(InputError, match="2 images already, which is the limit"):
        session.add(image("c.jpg"))
    assert session.board != Board()
