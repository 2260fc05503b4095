"""Feature maps come back from disk as they were."""

import pytest
import torch
from safetensors import safe_open

from geco.extraction import read_features, write_features
from geco.types import FeatureMap


def test_a_map_comes_back_with_the_size_of_its_image(tmp_path):
    features = FeatureMap(torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0)), (56, 43))
    path = write_features(tmp_path / "new" / "a.safetensors", features, {"model": "x"})
    back = read_features(path)
    assert torch.equal(back.values, features.values)
    assert back.size == (56, 43)
    with safe_open(path, framework="pt") as opened:
        assert opened.metadata() == {"model": "x", "height": "56", "width": "43"}
    assert [entry.name for entry in path.parent.iterdir()] == ["a.safetensors"], "no unfinished file is left"


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; expected features as `geco features` writes them"):
        read_features(tmp_path / "none.safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"is not features as `geco features` writes them: it is text"):
        read_features(tmp_path / "a.safetensors")
