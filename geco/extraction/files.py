"""Feature maps on disk: safetensors with the tensor `features` (c, h, w) and, as metadata, the size of the image."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from geco.errors import FileError, InputError, MissingFileError
from geco.system import files
from geco.types import FeatureMap

TENSOR = "features"
SIZE = ("height", "width")  # of the image, in the file's metadata


def write_features(path: str | Path, features: FeatureMap, about: Mapping[str, str] | None = None) -> Path:
    """Write the map of one image, whole or not at all; `about` joins the size of the image in the metadata."""
    path = Path(path)
    size = dict(zip(SIZE, map(str, features.size), strict=True))
    tensors = {TENSOR: features.values.cpu().contiguous()}
    try:
        return files.replace(path, lambda draft: save_file(tensors, draft, {**(about or {}), **size}))
    except SafetensorError as error:  # its own kind, though it means the disk
        raise FileError(f"{path} could not be written: {error}") from None


def read_features(path: str | Path) -> FeatureMap:
    """The map in a file that `write_features` made, on the CPU."""
    if not Path(path).is_file():
        raise MissingFileError(f"{path}: no such file; expected features as `geco features` writes them")
    try:
        with safe_open(path, framework="pt") as opened:
            metadata = opened.metadata() or {}
            height, width = (int(metadata[side]) for side in SIZE)
            return FeatureMap(opened.get_tensor(TENSOR), (height, width))
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"the features in {path} are damaged or of another layout ({error}); delete it") from None
