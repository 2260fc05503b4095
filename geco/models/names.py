"""Names of models: a short name, a path or a hub id; what can be neither is refused before anything looks for it."""

import re
from pathlib import Path

from geco.errors import FileError, InputError
from geco.system import documents

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}")  # owner/repository


def checked_name(name: object) -> str:
    """The name of a model, if it can be one."""
    text = str(name) if isinstance(name, str | Path) else ""
    if not text.strip() or "\0" in text:
        raise InputError(f"a model is a name, a folder or a hub id, got {documents.shown(name)}")
    return text


def as_path(name: str) -> Path:
    """The name as a path; what no path can be called does not exist."""
    try:
        path = Path(name).expanduser()
        path.stat()
        return path
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError, ValueError) as error:
        if getattr(error, "strerror", None) in (None, "File name too long", "Not a directory"):
            return Path("no such model")
        raise FileError(f"{documents.shown(name)} cannot be read: {error.strerror}") from None  # type: ignore[union-attr]


def looks_like_hub_id(name: str) -> bool:
    """Whether this could be a repository on the model hub."""
    return HUB_ID.fullmatch(name) is not None and ".." not in name and "--" not in name
