import pickle

import pytest
import torch

from geco.batching import stack
from geco.errors import InputError
from geco.types import FeatureMap, Keypoints, Matches, Pair, Skeleton, View

FACE = Skeleton(("left eye", "right eye", "nose"), (1, 0, 2), (1, 0, 2))
NOSE = Skeleton(("nose",), (0,), None)


def view(name, k, image=None):
    keypoints = Keypoints(torch.full((k, 2), 3.0), torch.ones(k, dtype=torch.bool))
    image = torch.zeros(3, 8, 10) if image is None else image
    return View(
        image,
        (8, 10),
        keypoints,
        torch.tensor([0.0, 0, 10, 8]),
        torch.ones(8, 10, dtype=torch.bool),
        None,
        name=name,
    )


def test_stack_pads_keypoints_as_invisible_and_keeps_each_samples_skeleton():
    pairs = [Pair(view("a", 3), view("b", 3), FACE, "cat"), Pair(view("c", 1), view("d", 1), NOSE, "dog")]
    batch = stack(pairs)
    assert batch.source.image.shape == (2, 3, 8, 10)
    assert batch.source.keypoints.xy.shape == (2, 3, 2)
    assert batch.target.keypoints.visible.tolist() == [[True] * 3, [True, False, False]]
    assert batch.source.mask.shape == (2, 8, 10)
    assert batch.source.parts is None
    assert batch.source.name == ("a", "c")
    assert batch.skeleton == (FACE, NOSE)
    assert batch.category == ("cat", "dog")
    assert batch.source.size == (8, 10)


def test_stack_refuses_different_sizes():
    other = View(torch.zeros(3, 9, 10), (9, 10), name="b")
    with pytest.raises((ValueError, RuntimeError), match=r"differ|equal size"):
        stack([View(torch.zeros(3, 8, 10), (8, 10), name="a"), other])


@pytest.mark.parametrize(
    ("twin", "mirror", "message"),
    [
        ((1, 2, 0), (0, 1, 2), "twin must be an involution"),
        ((0, 1, 2), (1, 1, 2), "mirror must be an involution"),
        ((0, 1), (0, 1, 2), "one entry per keypoint: 3, got 2"),
        ((0, 1, 7), None, "does not come back"),
    ],
)
def test_skeleton_refuses_tables_that_are_not_involutions(twin, mirror, message):
    with pytest.raises(ValueError, match=message):
        Skeleton(("a", "b", "c"), twin, mirror)


def test_unit_gives_cosines():
    features = FeatureMap(torch.randn(4, 3, 5), (30, 50))
    unit = features.unit()
    torch.testing.assert_close(unit.values.norm(dim=0), torch.ones(3, 5))
    assert unit.size == (30, 50)
    assert unit.grid == (3, 5)


def test_everything_can_be_pickled():
    pair = Pair(view("a", 3), view("b", 3), FACE, "cat")
    again = pickle.loads(pickle.dumps(pair))
    assert again.skeleton == FACE
    torch.testing.assert_close(again.source.image, pair.source.image)


def test_matches_are_walked_through_counted_and_tabulated():
    matches = Matches(
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        torch.tensor([0.5, 0.25]),
        torch.tensor([True, False]),
    )
    first, second = matches
    assert len(matches) == 2
    assert first == ((1.0, 2.0), (5.0, 6.0), 0.5, True)
    assert (second.target, second.visible) == ((7.0, 8.0), False)
    arrays = matches.numpy()
    assert arrays["target"].tolist() == [[5.0, 6.0], [7.0, 8.0]]
    assert arrays["visible"].dtype == bool
    pandas = pytest.importorskip("pandas", reason="pip install pandas for tables")
    table = matches.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert table.iloc[1].tolist() == [3.0, 4.0, 7.0, 8.0, 0.25, False]
    batch = Matches(*(x[None] for x in (matches.source, matches.target, matches.score, matches.visible)))
    with pytest.raises(InputError, match=r"matches of one pair can be walked through, got a batch \(1, 2\)"):
        list(batch)


def test_a_feature_map_is_an_array_and_short_to_print():
    features = FeatureMap(torch.zeros(8, 3, 5, dtype=torch.float16), (30, 50))
    assert features.numpy().shape == (8, 3, 5)
    assert repr(features) == "FeatureMap(8×3×5 float16, image 50×30)"
