"""Centroids against numpy, scikit-learn and the definition with all channels upsampled."""

import numpy as np
import torch
from sklearn.decomposition import PCA

from geco.propagation import CentroidSettings, fit_centroids, label_map
from geco.propagation.centroids import median
from geco.types import FeatureMap


def test_the_linear_rule_is_the_nearest_median_after_pca():
    generator = torch.Generator().manual_seed(0)
    samples = {part: torch.randn(9 + part, 7, generator=generator) + part for part in (1, 2, 5)}
    x = torch.randn(40, 7, generator=generator) * 3
    unit = torch.nn.functional.normalize(x, dim=-1)
    together = torch.cat(list(samples.values())).numpy()
    for components in (None, 4):
        pca = PCA(components).fit(together) if components else None
        project = pca.transform if pca else np.asarray
        middle = np.stack([np.median(project(some.numpy()), axis=0) for some in samples.values()])
        at = project(unit.numpy())
        euclid = np.linalg.norm(at[:, None] - middle, axis=-1).argmin(1)
        cosine = (at @ (middle / np.linalg.norm(middle, axis=1, keepdims=True)).T).argmax(1)
        for distance, wanted in (("euclid", euclid), ("cosine", cosine)):
            rule = fit_centroids(samples, CentroidSettings(components=components, distance=distance))
            found = label_map(FeatureMap(x.T.reshape(7, 8, 5), (8, 5)), rule)
            assert found.flatten().tolist() == [[1, 2, 5][i] for i in wanted]


def test_pixels_are_labelled_as_if_all_channels_were_upsampled():
    generator = torch.Generator().manual_seed(3)
    features = FeatureMap(torch.randn(6, 5, 4, generator=generator), (33, 41))
    rule = fit_centroids({part: torch.randn(5, 6, generator=generator) for part in (1, 2, 3)})
    big = torch.nn.functional.interpolate(features.values[None].double(), size=(33, 41), mode="bilinear")[0]
    unit = torch.nn.functional.normalize(big, dim=0)
    scores = torch.einsum("nc,chw->nhw", rule.weight.double(), unit) + rule.bias.double()[:, None, None]
    assert torch.equal(label_map(features, rule, "pixel"), rule.labels[scores.argmax(0)])


def test_a_median_of_an_even_number_is_the_middle_of_two():
    values = torch.tensor([[1.0, 8.0], [3.0, 2.0], [2.0, 4.0], [10.0, 6.0]])
    assert median(values).tolist() == np.median(values.numpy(), axis=0).tolist()
    assert median(values[:3]).tolist() == np.median(values[:3].numpy(), axis=0).tolist()
