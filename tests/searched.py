"""Collections of feature maps in memory: random ones, and those of painted animals."""

import hashlib
from pathlib import Path

import torch

from geco.types import FeatureMap


class Collected:
    """Feature maps by name, as a folder of features offers them."""

    model, what, folder = "made up", "maps", Path("features")

    def __init__(self, maps, *, fingerprint="made-up", what="maps"):
        self.maps, self.fingerprint, self.what = dict(maps), fingerprint, what
        self.names = tuple(self.maps)
        self.dim = len(next(iter(self.maps.values())).values) if self.maps else 1

    @property
    def state(self):
        content = [(name, value.size, value.values.numpy().tobytes()) for name, value in self.maps.items()]
        return hashlib.sha256(repr((self.fingerprint, content)).encode()).hexdigest()

    def __len__(self):
        return len(self.maps)

    def __getitem__(self, name):
        return self.maps[name]

    def path(self, name):
        return Path(name)

    def reduce(self, features):
        return features


def random_maps(count, *, dim=12, grid=(4, 5), size=(40, 50), seed=0):
    """A collection of smooth noise."""
    generator = torch.Generator().manual_seed(seed)
    return {f"{n}.jpg": FeatureMap(torch.randn(dim, *grid, generator=generator), size) for n in range(count)}


class Silent:
    """An encoder whose images are feature maps already."""

    name, threshold, dim, stride, device = "made up", 0.3, 12, 8, torch.device("cpu")

    def __init__(self, fingerprint="made-up"):
        self._fingerprint = fingerprint

    def fingerprint(self):
        return self._fingerprint

    def extract_stream(self, pictures, *, batch_size=8):
        return iter(pictures)
