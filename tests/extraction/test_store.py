"""The store keeps its budget of memory and knows when a file has changed."""

import os

import painted
import pytest
import torch

from geco.extraction import FeatureStore


def test_memory_stays_within_its_budget():
    views = painted.views(6)
    (features,) = painted.Painter().extract_stream([views[0].image])
    size = features.values.nbytes
    with FeatureStore(painted.Painter(), memory=2 * size, batch_size=2) as store:
        for view in [*views, *views]:
            store.get(view)
            assert store._bytes <= 2 * size
            assert store._bytes == sum(features.values.nbytes for _, features in store._held.values())
        assert store.encoded == 6
        for view in views:
            store.drop(view)
        assert store._bytes == 0
        assert not list(store._folder.iterdir())


def test_a_changed_file_is_not_taken_from_the_cache(tmp_path):
    view = painted.views(1, folder=tmp_path)[0]
    for _ in range(2):
        with FeatureStore(painted.Painter(), memory=0, folder=tmp_path / "cache") as store:
            first = store.get(view)
    assert store.encoded == 0
    os.utime(view.image, (1, 1))
    with FeatureStore(painted.Painter(), memory=0, folder=tmp_path / "cache") as store:
        assert torch.equal(store.get(view).values, first.values)
        assert store.encoded == 1


def test_a_damaged_file_is_named(tmp_path):
    view = painted.views(1)[0]
    with FeatureStore(painted.Painter(), memory=0, folder=tmp_path) as store:
        store.get(view)
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(b"damaged")
    with (
        FeatureStore(painted.Painter(), memory=0, folder=tmp_path) as store,
        pytest.raises(ValueError, match=rf"the features in {file} are damaged .*; delete it"),
    ):
        store.get(view)
