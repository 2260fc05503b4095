"""The model hub: files of a repository, from the local cache if it has them."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import urlsplit

from geco.errors import FileError

_OFFLINE: ContextVar[bool] = ContextVar("offline", default=False)


class HubError(FileError):
    """Files that cannot be had from the hub, and why."""


def fetch(repository: str, files: list[str], *, optional: list[str] | None = None) -> Path:
    """The folder of these files of a hub repository, from the local cache if it has them.

    Those that are `optional` are fetched with the others, but not for their own sake.

    The hub is asked only if it can be reached: its own client would retry for half a minute.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repository, allow_patterns=files, local_files_only=True))
        if all(list(folder.glob(file)) for file in files):
            return folder
    except OSError:  # not in the cache
        pass
    if _OFFLINE.get() or not is_reachable():
        raise HubError(f"{repository} is not in the local hub cache, and the hub cannot be reached")
    try:
        return Path(snapshot_download(repository, allow_patterns=[*files, *(optional or [])]))
    except OSError as error:
        raise HubError(f"{repository} could not be fetched: {reason(error)}") from None


@contextmanager
def offline() -> Iterator[None]:
    """Within it, only what is in the local cache is found."""
    token = _OFFLINE.set(True)
    try:
        yield
    finally:
        _OFFLINE.reset(token)


def reason(error: OSError) -> str:
    """Why the hub's files cannot be had, from its answer."""
    from huggingface_hub.errors import GatedRepoError

    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(error, GatedRepoError):
        return f"the hub answered {status}: its terms must be accepted there first, then log in with `hf auth login`"
    if status == 401:
        return "the hub answered 401: no such repository, or a private one; log in with `hf auth login`"
    if status == 404:
        return "the hub answered 404: no such repository or file; check the name"
    if status is not None:
        return f"the hub answered {status}; try again later"
    return " ".join(str(error).split())[:160] or type(error).__name__


def is_reachable() -> bool:
    """Whether something answers at the hub's address; behind a proxy there is no telling, so yes."""
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    address = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=5).close()
    except OSError:
        return False
    return True
