"""The pairwise form of Sphere: principal components against scikit-learn, distances against loops over cells."""

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch.nn import functional

from geco import matching
from geco.backbones.sphere.pairs import fused, reduced_together, similarities
from geco.matching.settings import MatchSettings
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
