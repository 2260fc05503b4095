"""The store keeps its budget of memory and knows when a file has changed."""

import os
from dataclasses import replace

import painted
import pytest
import torch

from geco.extraction import FeatureStore, content_key
from geco.types import Window


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


def encoded(view, folder, **options):
    """How many images a new store had to encode for this view."""
    with FeatureStore(painted.Painter(), memory=0, folder=folder, **options) as store:
        store.get(view)
    return store.encoded


def test_a_changed_file_is_not_taken_from_the_cache(tmp_path):
    view, other = painted.views(4, folder=tmp_path)[::2]
    cache = tmp_path / "cache"
    assert [encoded(view, cache) for _ in range(2)] == [1, 0]
    os.utime(view.image, (1, 1))
    assert encoded(view, cache) == 0, "the same content at another date"
    view.image.write_bytes(other.image.read_bytes())
    assert encoded(view, cache) == 1


def test_datasets_that_share_an_image_share_its_map(tmp_path):
    view = painted.views(1, folder=tmp_path)[0]
    copy = tmp_path / "elsewhere" / "copy.png"
    copy.parent.mkdir()
    copy.write_bytes(view.image.read_bytes())
    cache = tmp_path / "cache"
    assert encoded(view, cache) == 1
    assert encoded(replace(view, image=copy, name="of another dataset"), cache) == 0
    height, width = view.size
    mirrored = replace(view, window=Window((0, 0, width, height), view.size, flipped=True))
    assert encoded(mirrored, cache) == 1, "the same file shows something else"


def test_two_images_of_one_name_are_two_images():
    """Names are unique within a dataset; a store may serve several."""
    first, second = painted.views(4)[::2]
    with FeatureStore(painted.Painter(), memory=10**9) as store:
        store.ensure([first, replace(second, name=first.name)])
        assert store.encoded == 2
        assert not torch.equal(store.get(first).values, store.get(replace(second, name=first.name)).values)


def test_only_what_lasts_is_written_and_kept(tmp_path):
    first, second, third = painted.views(3, folder=tmp_path)
    cache = tmp_path / "cache"
    with FeatureStore(painted.Painter(), memory=10**9, folder=cache, lasting={content_key(first)}) as store:
        store.ensure([first, second])
    assert [encoded(view, cache) for view in (first, second)] == [0, 1]
    with FeatureStore(painted.Painter(), memory=10**9, folder=cache) as store:
        store.ensure([third])
        store.keep_only([second])
    assert [encoded(view, cache) for view in (second, first, third)] == [0, 1, 1]


def test_a_damaged_file_is_named(tmp_path):
    view = painted.views(1)[0]
    with FeatureStore(painted.Painter(), memory=0, folder=tmp_path) as store:
        store.get(view)
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(b"damaged")
    with (
        FeatureStore(painted.Painter(), memory=0, folder=tmp_path) as store,
        pytest.raises(ValueError, match=rf"the features in .*{file.name} are damaged .*; delete it"),
    ):
        store.get(view)
