"""The pairwise form of Sphere: principal components against scikit-learn, distances against loops over cells."""

import numpy as np
import pytest
import torch
from dataset_trees import write_birds
from sklearn.decomposition import PCA
from torch.nn import functional

from geco import api, data, images, matching
from geco.backbones.sphere.pairs import fused, reduced_together, similarities
from geco.evaluation import keypoints
from geco.matching.settings import MatchSettings
from geco.models.geco import Geco
from geco.types import FeatureMap

DOT = MatchSettings(normalise="none")


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_both_images_are_reduced_to_their_common_components():
    first, second = random(20, 5, 6), random(20, 4, 3, seed=1) + 1
    ours = reduced_together(first, second, dim=7)
    assert [tuple(values.shape) for values in ours] == [(7, 5, 6), (7, 4, 3)]
    cells = torch.cat([values.flatten(1).mT for values in (first, second)]).numpy()
    theirs = torch.from_numpy(PCA(7, svd_solver="full").fit_transform(cells))
    together = torch.cat([values.flatten(1).mT for values in ours])
    # Components have no sign, products of two cells have no such doubt.
    torch.testing.assert_close(together @ together.mT, theirs @ theirs.mT, rtol=1e-4, atol=1e-3)


def test_a_fused_cell_is_two_unit_vectors():
    maps = [random(4, 8, 8), random(5, 4, 4, seed=1), random(6, 2, 2, seed=2)]
    values = fused(maps, random(7, 8, 8, seed=3))
    assert values.shape == (22, 8, 8)
    for part in (values[:15], values[15:]):
        torch.testing.assert_close(part.norm(dim=0), torch.ones(8, 8))
    twice = functional.interpolate(
        functional.interpolate(maps[2][None], (4, 4), mode="bilinear"), (8, 8), mode="bilinear"
    )[0]
    torch.testing.assert_close(functional.normalize(twice, dim=0), functional.normalize(values[9:15], dim=0))


def test_dot_products_of_the_maps_are_the_published_similarities():
    source = random(6, 3, 4), functional.normalize(random(3, 3, 4, seed=1), dim=0)
    target = random(6, 2, 5, seed=2), functional.normalize(random(3, 2, 5, seed=3), dim=0)
    sizes = (30, 40), (20, 50)
    maps = [FeatureMap(v, size) for v, size in zip(similarities(source, target, share=0.2), sizes, strict=True)]
    ours = matching.similarity(*maps, DOT)
    for i in range(12):
        for j in range(10):
            features, points = (
                np.linalg.norm(a.flatten(1)[:, i] - b.flatten(1)[:, j]) for a, b in zip(source, target, strict=True)
            )
            np.testing.assert_allclose(ours[i, j], 1 - 0.8 * features - 0.2 * points, atol=1e-5)
    # A point in the centre of a cell goes to the cell with the largest of them.
    centres = torch.tensor([[x + 5.0, y + 5.0] for y in range(0, 30, 10) for x in range(0, 40, 10)])
    settings = MatchSettings(normalise="none", upsample=False)
    found = matching.transfer(*maps, centres, settings)
    best = ours.argmax(1)
    expected = torch.stack([(best % 5) * 10 + 5.0, (best // 5) * 10 + 5.0], 1)
    torch.testing.assert_close(found.target, expected)
    torch.testing.assert_close(found.score, ours.max(1).values)


# --- the backbone -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(diffusion_parts):
    return Geco.from_pretrained(diffusion_parts / "sphere-pairs", size=128, device="cpu")


def pictures(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [(torch.rand(3, *size, generator=generator) * 255).byte() for size in sizes]


def test_a_pair_by_hand(model, diffusion_parts):
    """Hidden states of Geo's own encoders without FreeU at step 100, common components, distances cell by cell."""
    geo = Geco.from_pretrained(diffusion_parts / "geo", size=128, device="cpu", t=100, freeu=False).backbone
    shown = pictures((60, 90), (90, 80))
    maps = model.pair(*model.extract_batch(shown))
    states, tokens, points = [], [], []
    with torch.no_grad():
        for image in shown:
            canvas = {name: values[None] for name, values in model.prepare(image).items()}
            states.append([values[0] for values in geo.states(canvas["diffusion"])])
            tokens.append(geo.encoder["dinov2"](pixels=canvas["dinov2"])[0])
            mapped = model.backbone.encoder["head"].mapper(tokens[-1].flatten(1).mT[None])[0].mT
            points.append(functional.normalize(mapped, dim=0).unflatten(1, (8, 8)))
    reduced = []
    for level in range(3):
        cells = torch.cat([states[i][level].flatten(1).mT for i in (0, 1)]).double()
        values = torch.from_numpy(PCA(min(64, *cells.shape)).fit_transform(cells.numpy())).float()
        reduced.append([part.mT.unflatten(1, states[0][level].shape[1:]) for part in values.chunk(2)])
    size = ((60, 90), (90, 80))
    cells = []
    for i in (0, 1):
        whole = fused([reduced[level][i] for level in range(3)], tokens[i])
        shown = [geo.finish(values, size[i]).flatten(1) for values in (whole, points[i])]
        cells.append(shown)
    expected = 1 - 0.8 * torch.cdist(cells[0][0].mT, cells[1][0].mT) - 0.2 * torch.cdist(cells[0][1].mT, cells[1][1].mT)
    assert [features.size for features in maps] == list(size)
    assert maps[0].grid == (5, 8)
    torch.testing.assert_close(matching.similarity(*maps, DOT), expected, rtol=0, atol=2e-3)


def test_two_images_are_matched_and_one_alone_is_refused(model):
    first, second = pictures((60, 90), (90, 80))
    assert (model.similarity, model.config.options) == ("dot", {"share": 0.2, "t": 100, "seed": 42})
    matches = api.transfer(first, second, [(30, 30)], model=model)
    assert matches.visible.all()
    same = api.transfer(first, first, [(39.375, 30.0)], model=model)  # the centre of a cell finds itself
    assert (same.target - same.source).abs().max() <= 90 / 8
    assert same.score > 0.9
    with pytest.raises(ValueError, match="compares images two at a time"):
        api.features(first, model=model)


def test_the_evaluation_makes_pairs_comparable(model, tmp_path):
    pairs = data.load("cub", write_birds(tmp_path), "test", {"n_pairs": 3})
    predictions = keypoints.predict(model, pairs, [MatchSettings()])
    for index, prediction in predictions.items():
        pair = pairs[index]
        points = pair.source.points
        shown = [images.read_view(view) for view in (pair.source, pair.target)]
        alone = api.transfer(*shown, points.xy[points.visible], model=model)
        torch.testing.assert_close(prediction.xy[0].float(), alone.target)
