"""Originals: backbones that are converted from a file which its authors publish and geco does not fetch."""

from glob import escape
from pathlib import Path

from geco.backbones import Source
from geco.errors import MissingFileError
from geco.models import cache
from geco.models.cache import cache_folder


def find(name: str, source: Source) -> Path:
    """The file that the user put into the cache folder, or the folder that it was converted to before."""
    for place in _places(source):
        if place.is_file() or cache.is_whole(place):
            return place
    raise MissingFileError(
        f"{name} is made from {source.original} ({source.home}), which geco does not fetch: download it and give the "
        "file itself as the model once; after that the name is enough"
    )


def is_there(source: Source) -> bool:
    """Whether `find` will most likely find it; checksums are left to it."""
    return any(place.is_file() or (place / cache.CHECKSUMS).is_file() for place in _places(source))


def _places(source: Source) -> list[Path]:
    """The file, if it is there, and folders that a file of this name was converted to."""
    file = cache_folder() / source.original
    return [*([file] if file.is_file() else []), *sorted(cache_folder().glob(f"{escape(file.stem)}-*"))]
