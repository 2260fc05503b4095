"""Folders of features: what is read back is what was stored, image by image."""

import numpy as np
import pytest
import torch
from hostile.verdicts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from geco import extraction, matching
from geco.extraction.settings import FORMATS, ExtractSettings
from geco.types import FeatureMap


def maps(count, channels=6, seed=0, grids=((3, 4), (2, 5))):
    """Named random maps of images of two shapes."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            f"photos/{number}.jpg",
            FeatureMap(torch.randn(channels, *grids[number % 2], generator=generator), (30 + number, 40)),
        )
        for number in range(count)
    ]


def written(folder, some, **options):
    settings = ExtractSettings(**{"per_shard": 4, **options})
    path = extraction.write_folder(folder, some, model="tiny", fingerprint="f00d", settings=settings)
    return extraction.open(path, verify=True)


def formats():
    return [pytest.param(form, marks=() if form != "parquet" else needs_pyarrow()) for form in FORMATS]


def needs_pyarrow():
    from importlib.util import find_spec

    return pytest.mark.skipif(find_spec("pyarrow") is None, reason="Parquet needs pyarrow (extra [ray])")


@pytest.mark.parametrize("form", formats())
def test_maps_come_back_by_name_in_half_precision(tmp_path, form):
    some = maps(10)
    features = written(tmp_path / "features", some, format=form)
    assert len(features) == 10
    assert features.names == tuple(name for name, _ in some)
    assert (features.model, features.fingerprint, features.what, features.dim) == ("tiny", "f00d", "maps", 6)
    for name, expected in reversed(some):
        assert name in features
        assert features[name].size == expected.size
        assert features[name].values.dtype == torch.float32
        assert torch.equal(features[name].values, expected.values.half().float())
        patches = features.patches(name)
        assert torch.equal(patches.vectors, expected.values.half().float().flatten(1).T)
    assert [name for name, _ in features.items()] == list(features.names)
    assert [record.source.name for record in features.records()] == list(features.names)
    refused(lambda: features["elsewhere.jpg"], "has no image 'elsewhere.jpg'", "photos/0.jpg")


@pytest.mark.parametrize("form", formats())
def test_foreground_patches_are_those_unlike_the_border(tmp_path, form):
    values = torch.zeros(3, 6, 7)
    values[0] = 1.0
    values[:, 2:4, 3:5] = torch.tensor([0.0, 2.0, 1.0])[:, None, None]
    features = written(tmp_path / "features", [("a", FeatureMap(values, (60, 70)))], what="foreground", format=form)
    patches = features.patches("a")
    assert patches.cells.tolist() == [17, 18, 24, 25]
    assert patches.grid == (6, 7)
    assert torch.equal(patches.vectors, torch.tensor([0.0, 2.0, 1.0]).expand(4, 3))
    whole = values.clone()
    whole[0][whole[0] == 1.0] = 0.0
    assert torch.equal(features["a"].values, whole)


def test_the_global_vector_is_the_direction_of_the_mean_unit_descriptor(tmp_path):
    ((name, one),) = maps(1)
    features = written(tmp_path / "features", [(name, one)], what="global")
    columns = one.values.double().flatten(1).numpy()
    mean = (columns / np.linalg.norm(columns, axis=0)).mean(1)
    expected = torch.from_numpy(mean / np.linalg.norm(mean)).float()
    assert features[name].values.shape == (6, 1, 1)
    torch.testing.assert_close(features[name].values[:, 0, 0], expected, atol=1e-3, rtol=0)


def test_pca_is_that_of_a_second_library_and_keeps_what_lies_in_a_subspace(tmp_path):
    from sklearn.decomposition import TruncatedSVD

    generator = torch.Generator().manual_seed(3)
    basis = torch.linalg.qr(torch.randn(12, 4, generator=generator)).Q
    some = [
        (str(i), FeatureMap(torch.einsum("ck,khw->chw", basis, torch.randn(4, 5, 5, generator=generator)), (50, 50)))
        for i in range(6)
    ]
    features = written(tmp_path / "features", some, pca=4)
    assert (features.dim, features.manifest.channels) == (4, 12)
    unit = torch.cat([one.unit().values.flatten(1).T for _, one in some]).numpy()
    svd = TruncatedSVD(4, algorithm="arpack", random_state=0).fit(unit)
    alike = np.abs(np.sum(svd.components_ * features.projection.numpy(), 1))
    np.testing.assert_allclose(alike, 1, atol=1e-4)
    exact = matching.similarity(some[0][1], some[1][1])
    torch.testing.assert_close(matching.similarity(features["0"], features["1"]), exact, atol=5e-3, rtol=0)
    torch.testing.assert_close(features.reduce(some[0][1]).values, features["0"].values, atol=5e-3, rtol=0)


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 9), per_shard=st.integers(1, 5), seed=st.integers(0, 99))
def test_how_images_are_sharded_does_not_show(tmp_path_factory, count, per_shard, seed):
    folder = tmp_path_factory.mktemp("law")
    some = maps(count, seed=seed)
    features = written(folder / "a", some, per_shard=per_shard)
    assert len(list((folder / "a" / "shards").iterdir())) == -(-count // per_shard)
    for name, expected in some:
        assert torch.equal(features[name].values, expected.values.half().float())


def test_equal_maps_give_equal_bytes(tmp_path):
    for form in ("safetensors",):
        folders = [tmp_path / f"{form}{i}" for i in range(2)]
        for folder in folders:
            written(folder, maps(9), format=form)
        contents = [
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in folders
        ]
        assert contents[0] == contents[1]


def test_the_state_is_that_of_what_is_stored(tmp_path):
    import torch

    maps = [(f"{n}.jpg", FeatureMap(torch.full((3, 2, 2), float(n)), (20, 20))) for n in range(3)]
    folders = [
        extraction.write_folder(tmp_path / name, some, model="m", fingerprint=mark)
        for name, some, mark in (("a", maps, "f"), ("b", maps, "f"), ("c", maps[:2], "f"), ("d", maps, "g"))
    ]
    states = [extraction.open(folder).state for folder in folders]
    assert states[0] == states[1]
    assert len(set(states)) == 3
