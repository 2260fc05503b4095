"""Feature maps on disk: safetensors with the tensor `features` (c, h, w) and, as metadata, the size of the image."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from geco.errors import FileError, InputError
from geco.system import documents, files, tensors
from geco.types import FeatureMap

TENSOR = "features"
SIZE = ("height", "width")  # of the image, in the file's metadata
LARGEST_SIDE = 10**6  # pixels


def write_features(path: str | Path, features: FeatureMap, about: Mapping[str, str] | None = None) -> Path:
    """Write the map of one image, whole or not at all; `about` joins the size of the image in the metadata."""
    path = Path(path)
    size = dict(zip(SIZE, map(str, features.size), strict=True))
    tensor = {TENSOR: features.values.cpu().contiguous()}
    try:
        return files.replace(path, lambda draft: save_file(tensor, draft, {**(about or {}), **size}))
    except (SafetensorError, OSError) as error:  # safetensors has its own kind, though it means the disk
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise FileError(f"{path} could not be written: {reason}") from None


def read_features(path: str | Path) -> FeatureMap:
    """The map in a file that `write_features` made, on the CPU."""
    state, metadata = tensors.read_safetensors(path, expected="features as `geco features` writes them")
    values = state.get(TENSOR)
    if values is None or values.ndim != 3 or not values.is_floating_point() or not values.numel():
        found = documents.listed(f"{name} {tuple(value.shape)}" for name, value in state.items())
        raise InputError(f"{path}: expected a tensor {TENSOR!r} (channels, height, width), got {found or 'none'}")
    sides = [metadata.get(side, "") for side in SIZE]
    if not all(side.isascii() and side.isdigit() and 0 < int(side[:9]) < LARGEST_SIDE for side in sides):
        raise InputError(f"{path}: expected the image's height and width as metadata, got {documents.shown(sides)}")
    return FeatureMap(values, (int(sides[0]), int(sides[1])))
