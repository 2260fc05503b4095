"""Locks: a folder that one run writes at a time; what a killed process held is free at once."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geco.errors import FileError
from geco.system import documents

NAME = ".lock"  # of the file in the folder that is locked
_HELD: set[Path] = set()  # by this process: the system lets a process lock a file twice


class LockedError(FileError):
    """Another run writes the folder."""


@contextmanager
def hold(folder: str | Path, *, what: str) -> Iterator[None]:
    """Have the folder alone, made if need be; `what` is done in it, for the message that another process gets.

    The lock is the system's: it ends with the process, however that ends. The file is removed afterwards, and so is a
    folder that is still empty.
    """
    folder = Path(folder)
    made = _make(folder)
    path = folder.resolve() / NAME
    if path in _HELD:
        raise LockedError(f"{folder} is in use by this process ({what}); wait for it, or give another folder")
    descriptor = _acquire(path, folder)
    _HELD.add(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, {what}".encode())
        yield
    finally:
        _HELD.discard(path)
        with contextlib.suppress(OSError):
            path.unlink()  # before it is released: a process that opened it meanwhile sees that it is gone
        with contextlib.suppress(OSError):
            os.close(descriptor)
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()


def _make(folder: Path) -> list[Path]:
    """The folders that had to be made, innermost first."""
    missing = []
    try:
        for place in (folder, *folder.parents):
            if place.exists():
                break
            missing.append(place)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from None
    return missing


def _acquire(path: Path, folder: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(folder, error) from None
        if not _try_lock(descriptor):
            holder = os.read(descriptor, 200).decode(errors="replace")
            os.close(descriptor)
            raise LockedError(
                f"{folder} is in use by {holder or 'another process'}; wait for it, or give another folder"
            )
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # its holder removed it between our opening and locking it
        time.sleep(0.01)


def _unwritable(folder: Path, error: Exception) -> FileError:
    reason = getattr(error, "strerror", None) or error
    return FileError(f"{documents.place(folder)} cannot be written: {reason}; give another folder")


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # pragma: no cover (Windows)
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        # Not flock: its locks are inherited, so processes that load images would keep a killed run's lock.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: better to run than to refuse
        return True
    return True
