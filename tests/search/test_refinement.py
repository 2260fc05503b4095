"""Searching: every answer is what matching says of that image, one place in each, best first."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from searched import Collected, Silent, random_maps

from geco import matching
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.search import PartIndex, build_index, find
from geco.search.settings import IndexSettings, SearchSettings
from geco.types import FeatureMap

pytest.importorskip("faiss", reason="needs the extra search")

ANY = SearchSettings(threshold=-1.0)
ALL = SearchSettings(threshold=-1.0, count=1)
POINT = (17.5, 22.5)


def brute_force(maps, source, point, threshold=-1.0):
    """(score, name, place) of every image by the matching scorer, best first."""
    xy = torch.tensor([point])
    rows = []
    for name, target in maps.items():
        matches = matching.transfer(source, target, xy, MatchSettings(threshold=threshold))
        rows.append((float(matches.score[0]), name, tuple(matches.target[0].tolist())))
    return sorted(rows, key=lambda row: -row[0])


@pytest.fixture(scope="module")
def maps():
    return random_maps(24)


@pytest.fixture(scope="module", params=["flat", "ivfpq"])
def index(request, maps):
    return build_index(Collected(maps), IndexSettings(kind=request.param))


@pytest.fixture(scope="module")
def few(maps):
    return build_index(Collected({name: maps[name] for name in list(maps)[:8]}))


@pytest.fixture(scope="module")
def source():
    return random_maps(1, seed=5)["0.jpg"]


def test_every_answer_is_that_of_the_exact_scorer(index, maps, source):
    found = find(index, Silent(), source, POINT, replace(ANY, count=24, probes=1.0))
    expected = brute_force(maps, source, POINT)
    assert [(hit.score, hit.name, hit.xy) for hit in found.hits] == expected
    assert found.searched == 24
    assert len({hit.name for hit in found.hits}) == 24


def test_the_first_are_the_best_of_all(index, maps, source):
    found = find(index, Silent(), source, POINT, replace(ANY, count=5, shortlist=20, refined=12, probes=1.0))
    assert [hit.name for hit in found.hits] == [name for _, name, _ in brute_force(maps, source, POINT)[:5]]


def test_nothing_above_the_threshold_is_an_answer(index, maps, source):
    best = brute_force(maps, source, POINT)[0]
    found = find(index, Silent(), source, POINT, SearchSettings(threshold=best[0] + 1e-3, probes=1.0))
    assert found.hits == ()
    assert (found.nearest.name, found.nearest.score) == (best[1], best[0])
    above = find(index, Silent(), source, POINT, SearchSettings(threshold=best[0], probes=1.0))
    assert [hit.name for hit in above.hits] == [best[1]]
    assert find(index, Silent(), source, POINT).threshold == Silent.threshold


@settings(max_examples=8, deadline=None)
@given(number=st.integers(0, 7), x=st.integers(0, 49), y=st.integers(0, 39), scale=st.sampled_from([1e-3, 1.0, 50.0]))
def test_an_image_of_the_collection_finds_itself_first(few, maps, number, x, y, scale):
    own = maps[f"{number}.jpg"]
    asked = FeatureMap(own.values * scale, own.size)
    first = find(few, Silent(), asked, (x + 0.5, y + 0.5), ALL).hits[0]
    assert first.name == f"{number}.jpg"
    assert first.score == pytest.approx(1, abs=1e-4)


@settings(max_examples=4, deadline=None)
@given(more=st.integers(1, 8), seed=st.integers(1, 50))
def test_more_images_do_not_change_the_scores_of_others(maps, source, more, seed):
    few = {name: maps[name] for name in list(maps)[:6]}
    added = few | {f"more/{name}": value for name, value in random_maps(more, seed=seed).items()}
    everything = replace(ANY, count=60)
    before, after = (find(build_index(Collected(some)), Silent(), source, POINT, everything) for some in (few, added))
    scores = {hit.name: (hit.score, hit.xy) for hit in after.hits}
    assert {hit.name: scores[hit.name] for hit in before.hits} == {hit.name: (hit.score, hit.xy) for hit in before.hits}
    order = [hit.name for hit in after.hits if hit.name in few]
    assert order == [hit.name for hit in before.hits]


def test_the_answer_is_the_same_every_time(maps, source):
    kinds = IndexSettings(kind="ivfpq")
    answers = [find(build_index(Collected(maps), kinds), Silent(), source, POINT, ANY).hits for _ in range(2)]
    assert answers[0] == answers[1]


def test_patches_without_content_are_not_indexed(maps):
    holed = {name: FeatureMap(value.values.clone(), value.size) for name, value in list(maps.items())[:3]}
    holed["1.jpg"].values[:, :2] = 0  # ten of twenty patches
    holed["2.jpg"].values[:] = 0
    index = build_index(Collected(holed, what="foreground"))
    assert index.starts.tolist() == [0, 20, 30, 30]
    assert index.images_of(torch.tensor([0, 19, 20, 29])).tolist() == [0, 0, 1, 1]
    found = find(index, Silent(), maps["1.jpg"], (25.0, 30.0), ANY)
    assert found.hits[0].name == "1.jpg"
    assert found.hits[0].xy[1] > 15  # not where nothing is known
    assert "2.jpg" not in {hit.name for hit in found.hits}


def test_background_is_left_out_on_request(maps):
    features = Collected(maps)
    all_patches, foreground = (build_index(features, IndexSettings(foreground=on)) for on in (False, True))
    expected = sum(int(matching.own_foreground(value).sum()) for value in maps.values())
    assert len(foreground.vectors) == expected < len(all_patches.vectors)


def test_other_encoders_are_refused(index, source):
    with pytest.raises(
        InputError, match=r"the index is of made up \(made-up\), this is made up \(other\): another mod"
    ):
        find(index, Silent("other"), source, POINT)
    dot = Silent()
    dot.similarity = "dot"
    with pytest.raises(InputError, match="compares by dot products, an index by cosines"):
        find(index, dot, source, POINT)
    pair = Silent()
    pair.pair = lambda first, second: (first, second)
    with pytest.raises(InputError, match="two at a time"):
        find(index, pair, source, POINT)


@pytest.mark.parametrize("point", [(-1.0, 5.0), (51.0, 5.0), (5.0, 41.0), (float("nan"), 5.0)])
def test_points_beside_the_image_are_refused(index, source, point):
    with pytest.raises(InputError, match="outside the source image of 50×40"):
        find(index, Silent(), source, point)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (Collected({}), "no features to search"),
        (Collected(random_maps(2), what="global"), "one vector for a whole image.*--what maps"),
        (Collected({"a": FeatureMap(torch.zeros(3, 2, 2), (20, 20))}), "every patch of these features is empty"),
        (Collected({"a": FeatureMap(torch.full((3, 2, 2), torch.nan), (20, 20))}), "of a hold NaN or infinity"),
    ],
)
def test_collections_without_parts_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        build_index(features)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": -3}, {"threshold": 2.0}, {"probes": 0.0}, {"refined": 0}])
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        SearchSettings(**wrong)


def test_an_index_is_made_of_its_collection(index):
    assert isinstance(index, PartIndex)
    assert len(index) == 24
    assert len(index.vectors) == 24 * 20
