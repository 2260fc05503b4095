"""Doors: what a package names is what it gives, and nothing is imported before it is asked for."""

import subprocess
import sys

import pytest

INIT = '''"""A room."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from room import tools
    from room.shelf import BOOK, read as open_book

__all__, __getattr__, __dir__ = lazy.door(__name__)
'''


@pytest.fixture
def room(tmp_path, monkeypatch):
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "shelf.py").write_text("BOOK = 'paper'\ndef read():\n    return BOOK\n")
    (folder / "tools.py").write_text("HAMMER = 1\n")
    return tmp_path


def run(room, code):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(room)!r})\n{code}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_names_of_the_block_are_public_and_resolved_when_asked_for(room):
    run(
        room,
        "import room\n"
        "assert room.__all__ == ['tools', 'BOOK', 'open_book'] and dir(room) == ['BOOK', 'open_book', 'tools']\n"
        "assert 'room.shelf' not in sys.modules\n"
        "assert room.BOOK == 'paper' and room.open_book() == 'paper'\n"
        "assert 'room.tools' not in sys.modules\n"
        "assert room.tools.HAMMER == 1\n"
        "from room import *\n"
        "assert BOOK == 'paper'\n",
    )


def test_other_names_are_attribute_errors(room):
    run(
        room,
        "import room\n"
        "try:\n    room.chair\n"
        "except AttributeError as error:\n    assert str(error) == \"module 'room' has no attribute 'chair'\"\n"
        "else:\n    raise SystemExit('no error')\n",
    )
