"""The vectors of an index: exact against numpy, by codes against exact, kept as tensors and restored."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geco.errors import InputError
from geco.search import vectors
from geco.search.settings import IndexSettings

pytest.importorskip("faiss", reason="needs the extra search")


def clustered(count, dim=32, clusters=60, spread=0.15, seed=0):
    """Unit vectors around some directions, as patches of the same part are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    points = centres[random.integers(clusters, size=count)] + spread * random.normal(size=(count, dim))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def points():
    return clustered(6000)


@pytest.fixture(scope="module")
def coded(points):
    return vectors.ivfpq(points[::2], np.array_split(points, 5), IndexSettings(), expected=len(points))


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 60), dim=st.integers(1, 9), parts=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_flat_index_is_brute_force(count, dim, parts, seed):
    points = clustered(count, dim, seed=seed)
    queries = clustered(3, dim, seed=seed + 100)
    rows, values = vectors.flat(np.array_split(points, parts), dim).nearest(queries, 5, probes=0.1)
    products = queries @ points.T
    best = -np.sort(-products, axis=1)[:, :5]
    np.testing.assert_allclose(values, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(products, rows, 1), best, atol=1e-5)


def test_codes_find_most_of_what_is_nearest(points, coded):
    queries = clustered(50, seed=1)  # other directions
    exact = np.argsort(-(queries @ points.T), axis=1)[:, :10]
    approximate = coded.nearest(queries, 100, probes=0.2)[0]
    recall = np.mean([len(set(e) & set(a)) / 10 for e, a in zip(exact, approximate, strict=True)])
    assert recall > 0.9
    narrow = coded.nearest(queries, 10, probes=1e-6)[0]  # one group: the price of looking at little
    assert np.mean([len(set(e) & set(a)) / 10 for e, a in zip(exact, narrow, strict=True)]) < recall


def test_the_same_seed_gives_the_same_bytes(points, coded):
    again = vectors.ivfpq(points[::2], np.array_split(points, 3), IndexSettings(), expected=len(points)).state()
    assert all(torch.equal(again[name], value) for name, value in coded.state().items())
    other = vectors.ivfpq(points[::2], [points], IndexSettings(seed=1), expected=len(points)).state()
    assert not torch.equal(other["centroids"], coded.state()["centroids"])


@pytest.mark.parametrize("kind", ["flat", "ivfpq"])
def test_what_is_restored_answers_the_same(points, coded, kind):
    index = coded if kind == "ivfpq" else vectors.flat([points], points.shape[1])
    restored = vectors.restored(kind, index.state(), points.shape[1])
    answers = [one.nearest(points[:20], 7, probes=0.2) for one in (index, restored)]
    for before, after in zip(*answers, strict=True):
        np.testing.assert_array_equal(before, after)


def damage(state, name, value):
    return {**state, name: value}


def test_tensors_that_do_not_fit_are_refused(coded):
    state = coded.state()
    longer = state["lengths"].clone()
    longer[0] += 1
    for wrong in (
        damage(state, "codes", state["codes"][:-1]),
        damage(state, "codes", state["codes"].float()),
        damage(state, "rows", state["rows"] + 1),
        damage(state, "lengths", longer),
        damage(state, "lengths", -state["lengths"]),
        damage(state, "codebook", state["codebook"][:, :100]),
        damage(state, "centroids", state["centroids"][:, :-1]),
        {name: value for name, value in state.items() if name != "rows"},
    ):
        with pytest.raises(InputError, match="index"):
            vectors.restored("ivfpq", wrong, 32)
    with pytest.raises(InputError, match="'vectors'"):
        vectors.restored("flat", {"vectors": torch.zeros(3, 5)}, 32)


def test_too_few_vectors_have_no_codes():
    with pytest.raises(InputError, match=r"256 vectors or more.*got 255; use flat"):
        vectors.ivfpq(clustered(255), [], IndexSettings(), expected=255)
    with pytest.raises(InputError, match="lists must be ≤ the vectors learned from, 300, got 301"):
        vectors.ivfpq(clustered(300), [], IndexSettings(lists=301), expected=300)


@pytest.mark.parametrize(("dim", "most", "parts"), [(384, 64, 64), (768, 64, 64), (24, 64, 6), (7, 64, 1), (64, 8, 8)])
def test_channels_are_divided_evenly(dim, most, parts):
    assert vectors.parts_of(dim, most) == parts
