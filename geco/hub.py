"""The model hub: files of a repository, from the local cache if it has them."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit


def fetch(repository: str, files: list[str]) -> Path | None:
    """The folder of these files of a hub repository, from the local cache if it has them; None if they cannot be had.

    The hub is asked only if it can be reached: its own client would retry for half a minute.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repository, allow_patterns=files, local_files_only=True))
        if all(list(folder.glob(file)) for file in files):
            return folder
    except OSError:
        pass
    if not is_reachable():
        return None
    try:
        return Path(snapshot_download(repository, allow_patterns=files))
    except OSError:  # no such repository, or not for us, or the connection broke
        return None


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
