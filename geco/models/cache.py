"""Folders of weights with checksums: whole or absent when written, verified when they are read; and their cache."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from geco.errors import FileError, GecoError, InputError
from geco.system import documents, files

CONFIG, WEIGHTS, CHECKSUMS = "config.json", "model.safetensors", "checksums.json"
ADVICE = "set GECO_CACHE to a folder that can be written and has room"


def cache_folder() -> Path:
    """Where converted weights are kept: GECO_CACHE, or the system's cache folder of this user."""
    given = os.environ.get("GECO_CACHE")
    try:
        folder = Path(given).expanduser() if given else Path(user_cache_dir("geco"))
    except RuntimeError:  # a home that cannot be found
        folder = Path(given or "~")
    if not given and not folder.is_absolute():
        raise FileError("there is no home folder to keep converted weights in; set GECO_CACHE to a folder for them")
    return folder


def is_whole(folder: Path) -> bool:
    """Whether a folder of the cache is as it was written; one of a release that noted no checksums is not."""
    if not (folder / CHECKSUMS).is_file():
        return False
    try:
        noted = documents.read(folder / CHECKSUMS, expected="checksums of converted weights")
        return noted.keys() == {CONFIG, WEIGHTS} and all(
            files.sha256(folder / name) == digest for name, digest in noted.items()
        )
    except (GecoError, OSError):
        return False


def check(folder: Path) -> None:
    """Refuse a model folder that has checksums and is not what they say; one without them is not checked."""
    if (folder / CHECKSUMS).is_file() and not is_whole(folder):
        raise InputError(
            f"{folder} is damaged: {CONFIG} and {WEIGHTS} are not those whose checksums it holds; "
            "install or save the model again"
        )


def note_checksums(folder: Path) -> None:
    """Write the checksums of a model folder, the last of its files."""
    checksums = {name: files.sha256(folder / name) for name in (CONFIG, WEIGHTS)}
    files.replace_text(folder / CHECKSUMS, json.dumps(checksums, indent=2))


def store(
    folder: Path, make: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]], *, origin: str, room: int = 0
) -> Path:
    """What `make` converts as a Hugging Face folder with checksums, complete or not there at all.

    `room` bytes are tried before the work begins.
    """
    try:
        with files.draft_folder(folder) as draft:
            files.try_room(draft, room)
            state, config = make()
            state = {name: value.contiguous() for name, value in state.items()}
            save_file(state, draft / WEIGHTS, metadata={"format": "pt", "origin_sha256": origin})
            (draft / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
            note_checksums(draft)
            _put(draft, folder)
    except GecoError:
        raise
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:80]
        raise FileError(f"converted weights cannot be written to {folder}: {reason}; {ADVICE}") from None
    return folder


def _put(draft: Path, folder: Path) -> None:
    """The draft in the folder's place; another process that was faster has written the same."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists() or folder.is_symlink():
        folder.unlink()
    try:
        draft.rename(folder)
    except OSError:
        if not is_whole(folder):
            raise


def damaged(folder: Path, reason: str) -> InputError:
    """The error of a folder of the cache that cannot be used and cannot be made again."""
    return InputError(
        f"the converted weights in {folder} (GECO_CACHE) are damaged or of an older release, and {reason}"
    )
