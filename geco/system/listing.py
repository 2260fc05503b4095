"""Which image files a user means: files, folders, patterns with * in them."""

import glob
from collections.abc import Iterable
from pathlib import Path

from geco.errors import InputError, MissingFileError

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".avif", ".heic")


def image_files(places: Iterable[str | Path], *, also: tuple[str, ...] = ()) -> list[Path]:
    """The image files of these places in a fixed order, each once; folders are searched with all that is in them.

    A file named by itself is taken whatever its ending; `also` are endings of other files that are looked for.
    """
    found: dict[Path, None] = {}
    for place in places:
        for path in _of(Path(place), (*ENDINGS, *also)):
            found.setdefault(path)
    if not found:
        raise InputError("no image was given; name files, folders or patterns like 'photos/*.jpg'")
    return list(found)


def _of(place: Path, endings: tuple[str, ...]) -> list[Path]:
    if place.is_dir():
        files = sorted(path for path in place.rglob("*") if path.suffix.lower() in endings and path.is_file())
        if not files:
            raise InputError(f"{place} holds no image; expected files ending in {', '.join(endings)}")
        return files
    if place.exists():
        return [place]
    matches = (
        [Path(name) for name in sorted(glob.glob(str(place), recursive=True))] if glob.has_magic(str(place)) else []
    )
    if not matches:
        raise MissingFileError(f"{place} does not exist; expected an image, a folder of images, or a pattern")
    return [path for match in matches for path in _of(match, endings)]
