"""Files that are whole or absent: written under another name, then renamed, so that a kill leaves no half file."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from geco.errors import FileError
from geco.system import documents

DRAFT = ".draft"  # ending of what is not finished; a kill may leave some
BLOCK = 1 << 20


def make_folder(folder: Path) -> Path:
    """The folder, made with its parents if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"the folder {documents.place(folder)} cannot be made: {reason}") from None
    return folder


def replace(path: Path, write: Callable[[Path], object]) -> Path:
    """The file that `write` makes, in place of the one that was there; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")
    try:
        write(draft)
        with draft.open("rb+") as written:
            os.fsync(written.fileno())  # the rename must not reach the disk before the content
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def replace_text(path: Path, text: str) -> Path:
    """The text as a file, in UTF-8."""
    return replace(path, lambda draft: draft.write_text(text, encoding="utf-8"))


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path` to fill; what is left of it afterwards is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=DRAFT, dir=path.parent))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what a killed process left unfinished in a folder."""
    for leftover in folder.glob(f".*{DRAFT}"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)


def try_room(folder: Path, size: int) -> None:
    """Write `size` bytes into the folder and delete them again: quotas do not show in the disk's free space."""
    with tempfile.NamedTemporaryFile(prefix=".room-", suffix=DRAFT, dir=folder) as file:
        _fill(file, size)  # type: ignore[arg-type]


def _fill(file: BinaryIO, size: int) -> None:
    block = bytes(BLOCK)
    for start in range(0, size, BLOCK):
        file.write(block[: size - start])
    file.flush()


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
