"""Points, settings and feature maps that no matching can be made of."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hostile.verdicts import check, refused, unchecked
from hypothesis import given, settings
from hypothesis import strategies as st

import geco
from geco import api, matching
from geco.matching.settings import MatchSettings
from geco.propagation.settings import CentroidSettings
from geco.types import FeatureMap

SIZE = (30, 40)  # height, width
NAN, INF = float("nan"), float("inf")

RIGHT = {
    "a list of tuples": [(3, 4), (40, 30)],
    "a list of lists": [[3, 4], [40, 30]],
    "floats": [(3.0, 4.0), (40.0, 30.0)],
    "an array": np.array([[3, 4], [40, 30]]),
    "uint8": np.array([[3, 4], [40, 30]], np.uint8),
    "float16": np.array([[3, 4], [40, 30]], np.float16),
    "big-endian": np.array([[3, 4], [40, 30]], ">f8"),
    "reversed": np.array([[40, 30], [3, 4]])[::-1],
    "a tensor": torch.tensor([[3, 4], [40, 30]]),
    "a tensor with a gradient": torch.tensor([[3.0, 4.0], [40.0, 30.0]], requires_grad=True),
    "half precision": torch.tensor([[3.0, 4.0], [40.0, 30.0]]).bfloat16(),
    "NumPy's numbers": [(np.float32(3), np.int8(4)), (np.int64(40), np.float64(30))],
    "a list of arrays": [np.array([3, 4]), np.array([40, 30])],
    "a list of tensors": [torch.tensor([3.0, 4.0]), torch.tensor([40.0, 30.0])],
}
WRONG = {
    "nothing": None,
    "text": "eye",
    "text of numbers": [("3", "4")],
    "numbers and text": [(3, "4")],
    "truth values": [(True, False)],
    "an array of truth values": np.ones((2, 2), bool),
    "a tensor of truth values": torch.ones(2, 2, dtype=torch.bool),
    "NaN": [(NAN, 4)],
    "infinity": [(3, INF)],
    "minus infinity": [(-INF, 4)],
    "outside": [(41, 4)],
    "negative": [(3, -0.01)],
    "huge": [(1e300, 4)],
    "beyond floats": [(10**400, 4)],
    "three columns": [(3, 4, 1)],
    "one column": [(3,)],
    "one point without its list": (3, 4),
    "nested": [[(3, 4)]],
    "ragged": [(3, 4), (5,)],
    "None inside": [(3, None)],
    "complex": [(3j, 4)],
    "a complex tensor": torch.zeros(1, 2, dtype=torch.complex64),
    "a mapping": {"x": 3, "y": 4},
    "a set": {(3, 4)},
    "a generator": iter([(3, 4)]),
    "a number": 3,
    "bytes": b"3,4",
    "objects": np.array([[object(), object()]]),
    "dates": np.array([["2020-01-01", "2020-01-02"]], "datetime64[D]"),
    "meta tensor": torch.zeros(1, 2, device="meta"),
    "sparse tensor": torch.ones(1, 2).to_sparse(),
    "columns of nothing": np.zeros((0, 3)),
    "rows of nothing": [[], []],
    "4,000 points outside": [(1e6, 1e6)] * 4000,
}


@pytest.mark.parametrize("name", RIGHT)
def test_points_in_every_form(name):
    def right(xy):
        return xy.dtype == torch.float32 and not xy.requires_grad and xy.tolist() == [[3, 4], [40, 30]]

    check(lambda: unchecked(matching.as_points)(RIGHT[name], SIZE), right=right)


@pytest.mark.parametrize("name", WRONG)
def test_points_that_are_none(name):
    message = refused(lambda: unchecked(matching.as_points)(WRONG[name], SIZE))
    assert message.startswith("point")


@pytest.mark.parametrize("points", [[], (), np.zeros((0, 2)), torch.zeros(0, 2), np.zeros(0)], ids=repr)
def test_no_points_have_no_matches(points, maps):
    assert matching.as_points(points, SIZE).shape == (0, 2)
    for mode in ("nearest", "soft", "transport"):
        found = geco.transfer(*maps, points, model=Nobody(), settings=MatchSettings(mode=mode))
        assert found.source.shape == found.target.shape == (0, 2)
        assert found.score.shape == found.visible.shape == (0,)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(anything)
def test_any_value_is_points_or_refused(value):
    def right(xy):
        return xy.ndim == 2 and xy.shape[1] == 2 and bool(torch.isfinite(xy).all())

    check(lambda: unchecked(matching.as_points)(value, SIZE), right=right, names=("point",))


# --- settings ---------------------------------------------------------------------------------------------------------

NO_NUMBERS = (NAN, INF, -INF, "0.3", None, True, [0.3], 10**400, 1j, b"1", np.array([0.3, 0.4]))
CHANGES = [
    *({"threshold": value} for value in NO_NUMBERS),
    *({name: value} for name in ("window", "temperature", "visible_share") for value in (*NO_NUMBERS, 0, -1)),
    {"visible_share": 1.5},
    *({"upsample": value} for value in (None, 0, 1, "yes", NAN)),
    *({name: value} for name in ("mode", "normalise") for value in (None, 0, "", "Nearest", b"soft", ["soft"], NAN)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change)[:50])
def test_settings_of_matching(change):
    refused(lambda: MatchSettings(**change), next(iter(change)), "must be")


@pytest.mark.parametrize(
    "change",
    [
        *({"components": value} for value in (0, -1, 2.5, "32", True, NAN)),
        *({"pixels": value} for value in (0, -1, 2.5, "256", True, None, NAN)),
        *({name: value} for name in ("unit", "distance") for value in (None, 0, "", "Pixel", ["pixel"])),
    ],
    ids=str,
)
def test_settings_of_centroids(change):
    refused(lambda: CentroidSettings(**change), next(iter(change)), "must be")


def test_numbers_of_numpy_are_numbers():
    assert MatchSettings(threshold=np.float32(0.5), window=np.int64(3)).threshold == 0.5


# --- feature maps -----------------------------------------------------------------------------------------------------


def features(channels=8, grid=(3, 4), size=SIZE, seed=0):
    return FeatureMap(torch.randn(channels, *grid, generator=torch.Generator().manual_seed(seed)), size)


class Nobody:
    """An encoder that is asked nothing, because everything has been extracted already."""

    name, threshold, dim, stride, device = "nobody", 0.3, 8, 10, torch.device("cpu")

    def extract_stream(self, pictures, *, batch_size=8) -> Iterator[FeatureMap]:
        return iter(())

    def fingerprint(self):
        return "nobody"


@pytest.fixture
def maps():
    return features(), features(seed=1)


def spoiled(value, place=(0, 1, 1)):
    spoiled_map = features(seed=1)
    spoiled_map.values[place] = value
    return spoiled_map


bare = unchecked(FeatureMap)
TARGETS = {
    "other channels": lambda: features(channels=9),
    "one channel": lambda: features(channels=1),
    "NaN": lambda: spoiled(NAN),
    "all NaN": lambda: spoiled(NAN, slice(None)),
    "infinity": lambda: spoiled(INF),
    "empty grid": lambda: bare(torch.zeros(8, 0, 0), SIZE),
    "no channels": lambda: bare(torch.zeros(0, 3, 4), SIZE),
    "a batch of two": lambda: bare(torch.zeros(2, 8, 3, 4), SIZE),
    "two dimensions": lambda: bare(torch.zeros(8, 12), SIZE),
    "whole numbers": lambda: bare(torch.zeros(8, 3, 4, dtype=torch.long), SIZE),
    "no tensor": lambda: bare([[1.0]], SIZE),
    "half precision": lambda: bare(features().values.half(), SIZE),
    "double precision": lambda: bare(features().values.double(), SIZE),
    "no size": lambda: bare(features().values, (0, 0)),
    "negative size": lambda: bare(features().values, (-30, 40)),
    "size of NaN": lambda: bare(features().values, (NAN, 40)),
    "size of floats": lambda: bare(features().values, (30.5, 40.0)),
}
CALLS = {
    "transfer": lambda a, b: geco.transfer(a, b, [(3, 4), (20, 20)], model=Nobody()),
    "soft": lambda a, b: geco.transfer(a, b, [(3, 4)], model=Nobody(), settings=MatchSettings(mode="soft")),
    "transport": lambda a, b: geco.transfer(a, b, [(3, 4)], model=Nobody(), settings=MatchSettings(mode="transport")),
    "match": lambda a, b: geco.match(a, b, model=Nobody()),
    "heatmap": lambda a, b: geco.heatmap(a, b, (3, 4), model=Nobody()),
    "nearest": lambda a, b: matching.nearest(a, b),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("target", TARGETS)
def test_maps_that_cannot_be_matched(call, target):
    """As target and as source; a source with a hole is right where the points do not touch it."""
    refused(lambda: CALLS[call](features(), TARGETS[target]()))

    def right(result):
        scores = result if isinstance(result, torch.Tensor) else result.score
        return target in ("NaN", "infinity") and bool(torch.isfinite(scores).all())

    check(lambda: CALLS[call](TARGETS[target](), features()), right=right)


@pytest.mark.parametrize("call", CALLS)
def test_the_same_calls_answer_sound_maps(call, maps):
    def right(result):
        scores = result if isinstance(result, torch.Tensor) else result.score
        return bool(torch.isfinite(scores).all()) and scores.numel() > 0

    check(lambda: CALLS[call](*maps), right=right)


@pytest.mark.parametrize("values", [torch.zeros(8, 3, 4), torch.full((8, 3, 4), 1e-30)])
def test_degenerate_maps_have_finite_scores(values):
    for name, call in CALLS.items():
        result = call(FeatureMap(values, SIZE), FeatureMap(values.clone(), SIZE))
        scores = result if isinstance(result, torch.Tensor) else result.score
        assert torch.isfinite(scores).all(), name
        if not values.any() and name in ("transfer", "soft", "nearest"):
            assert not result.visible.any(), "what has no features is not visible"


@pytest.mark.parametrize(
    "point", [None, "eye", (1,), (1, 2, 3), (NAN, 2), (-1, 2), [(1, 2)], (True, True), ("1", "2"), ()]
)
def test_the_point_of_a_heat_map(point, maps):
    refused(lambda: unchecked(api.heatmap)(*maps, point, model=Nobody()), "point")


@pytest.mark.parametrize("value", [{}, {"threshold": 0.3}, 0.3, "soft", MatchSettings, False, 0], ids=repr)
def test_settings_that_are_none(value, maps):
    refused(lambda: unchecked(api.match)(*maps, model=Nobody(), settings=value), "MatchSettings")
    refused(lambda: unchecked(api.transfer)(*maps, [(3, 4)], model=Nobody(), settings=value), "MatchSettings")
    refused(lambda: unchecked(api.heatmap)(*maps, (3, 4), model=Nobody(), settings=value), "MatchSettings")


@pytest.mark.parametrize(
    "model",
    [3, 2.5, [], {}, object(), b"dino", Nobody, True, torch.nn.Linear(1, 1)],
    ids=lambda one: repr(one).partition(" at 0x")[0],
)
def test_models_that_are_none(model, maps):
    for call in (
        lambda: unchecked(api.match)(*maps, model=model),
        lambda: unchecked(api.features)("photo.jpg", model=model),
        lambda: unchecked(api.heatmap)(*maps, (3, 4), model=model),
    ):
        refused(call, "geco.load")
