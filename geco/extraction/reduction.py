"""Fewer numbers for each descriptor: the projection that keeps the most of a sample's descriptors (PCA)."""

from collections.abc import Iterable
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from geco.errors import InputError
from geco.extraction.manifest import Manifest
from geco.system import files, tensors
from geco.types import FeatureMap

NAME = "pca.safetensors"
TENSOR = "components"  # (kept, channels), rows of length one at right angles


def fit(maps: Iterable[FeatureMap], components: int) -> Float[Tensor, "k c"]:
    """The directions along which unit descriptors of these maps have the largest second moments.

    The mean is not subtracted: matching compares descriptors by their angle, and this is the projection that keeps
    their dot products best (Eckart and Young 1936).
    """
    moments, count = None, 0
    for features in maps:
        x = features.unit().values.flatten(1).double().cpu()
        moments = x @ x.T if moments is None else moments + x @ x.T
        count += x.shape[1]
    if moments is None:
        raise InputError("no image of the sample for --pca can be read; expected images")
    if components > len(moments):
        raise InputError(f"pca must be at most the model's {len(moments)} channels, got {components}")
    directions = torch.linalg.eigh(moments / count).eigenvectors.flip(1).T[:components]
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    return (directions * largest.sign()).float().contiguous()  # an eigenvector's sign is arbitrary


def project(features: FeatureMap, components: Float[Tensor, "k c"]) -> FeatureMap:
    """The map with the descriptors' coordinates along the components."""
    values = torch.einsum("kc,chw->khw", components.to(features.values), features.values)
    return FeatureMap(values, features.size)


def write(folder: Path, components: Float[Tensor, "k c"]) -> None:
    """Write the projection of a folder of features."""
    files.replace(folder / NAME, lambda draft: save_file({TENSOR: components}, draft))


def read(folder: Path, manifest: Manifest) -> Float[Tensor, "k c"] | None:
    """The projection of a folder of features; None if descriptors are stored whole."""
    if manifest.pca is None:
        return None
    path = folder / NAME
    state, _ = tensors.read_safetensors(path, expected="the projection of a folder of features")
    components = state.get(TENSOR)
    if components is None or components.shape != (manifest.dim, manifest.channels):
        raise InputError(f"{path}: expected {TENSOR} ({manifest.dim}, {manifest.channels}); it is of another folder")
    return components.float()
