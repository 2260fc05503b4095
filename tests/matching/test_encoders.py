"""Encoders that say how their maps are compared: dot products, and maps made for each other."""

import pytest
import torch

from geco import api, matching, propagation
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.types import Encoder, FeatureMap


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Made:
    """An encoder whose maps are the images themselves, one cell for each pixel."""

    name, threshold, dim, stride, device = "made", 0.3, 3, 1, torch.device("cpu")

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            yield FeatureMap(picture.float() / 255, tuple(picture.shape[-2:]))

    def fingerprint(self):
        return "made"


class Dotted(Made):
    similarity = "dot"


class Paired(Made):
    """Compares images after taking off their common mean."""

    def pair(self, first, second):
        mean = torch.cat([first.values.flatten(1), second.values.flatten(1)], 1).mean(1)[:, None, None]
        return FeatureMap(first.values - mean, first.size), FeatureMap(second.values - mean, second.size)


def pictures():
    return [(torch.rand(3, 8, 9, generator=torch.Generator().manual_seed(seed)) * 255).byte() for seed in (0, 1)]


def test_an_encoder_needs_neither():
    assert all(isinstance(kind(), Encoder) for kind in (Made, Dotted, Paired))
    maps = FeatureMap(random(2, 3, 3), (3, 3)), FeatureMap(random(2, 3, 3, seed=1), (3, 3))
    assert matching.paired(Made(), *maps) == maps
    assert matching.suited(MatchSettings(), Made()) == MatchSettings()
    assert not matching.compares_pairs(Made())


@pytest.mark.parametrize("upsample", [True, False])
def test_without_normalisation_scores_are_dot_products_of_the_upsampled_map(upsample):
    source, target = FeatureMap(random(5, 4, 6), (12, 18)), FeatureMap(random(5, 3, 5, seed=1), (9, 10))
    settings = MatchSettings(normalise="none", upsample=upsample)
    points = torch.tensor([[4.5, 4.5], [17.0, 2.0]])
    queries = matching.queries(source, points, settings)
    size = (9, 10) if upsample else (3, 5)
    whole = torch.nn.functional.interpolate(target.values[None], size, mode="bilinear", align_corners=False)[0]
    expected = torch.einsum("kc,chw->khw", queries, whole)
    torch.testing.assert_close(matching.score_maps(queries, matching.prepare(target, settings)), expected)
    torch.testing.assert_close(queries[0], source.values[:, 1, 1])  # the centre of a cell is the cell


def test_dot_products_are_used_without_being_asked_for():
    first, second = pictures()
    (place,) = api.transfer(first, second, [(2.5, 3.5)], model=Dotted()).target
    target = second.float().flatten(1)
    best = (first[:, 3, 2].float() @ target).argmax()
    assert place.tolist() == [float(best % 9) + 0.5, float(best // 9) + 0.5]
    assert api.match(first, second, model=Dotted()).score.max() > 1.0
    with pytest.raises(InputError, match="transport compares cosines"):
        api.transfer(first, second, [(2.5, 3.5)], model=Dotted(), settings=MatchSettings(mode="transport"))


def test_pairs_are_made_comparable_before_they_are_matched():
    first, second = pictures()
    maps = Paired().pair(*Paired().extract_stream([first, second]))
    for call in (
        lambda *seen, **model: api.transfer(*seen, [(2.5, 3.5)], **model).score,
        lambda *seen, **model: api.match(*seen, **model).score,
        lambda *seen, **model: api.heatmap(*seen, (2.5, 3.5), **model),
    ):
        torch.testing.assert_close(call(first, second, model=Paired()), call(*maps, model=Made()))


def test_what_looks_at_one_image_refuses_them():
    labels = torch.zeros(8, 9, dtype=torch.int64)
    for call in (
        lambda: api.features(pictures()[0], model=Paired()),
        lambda: list(propagation.label(Paired(), [(pictures()[0], labels)], pictures())),
    ):
        with pytest.raises(InputError, match="made compares images two at a time"):
            call()
