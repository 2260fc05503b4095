"""Intervals: they cover what they claim to, pair what is paired, and weigh as scikit-learn does."""

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics

from geco.evaluation.intervals import bootstrap, bootstrap_detector, draws, interval


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for trial in range(100):
        hits = (torch.rand(1, 60, 8, generator=generator) < 0.7).double().sum(-1, keepdim=True)
        low, high = interval(bootstrap(hits, torch.full_like(hits, 8), resamples=300, seed=trial))
        covered += bool(low <= 0.7 <= high)
    assert 88 <= covered <= 99


def test_pairing_removes_what_two_runs_share():
    generator = torch.Generator().manual_seed(1)
    hard = torch.rand(200, 1, generator=generator)  # difficulty of each pair, the same for both runs
    runs = torch.stack([(10 * hard).round(), (10 * hard).round() + 1])
    drawn = bootstrap(runs, torch.full_like(runs, 12), resamples=200, seed=3)
    assert torch.equal(drawn, bootstrap(runs, torch.full_like(runs, 12), resamples=200, seed=3, chunk=7))
    low, high = interval(drawn[:, 1] - drawn[:, 0])
    torch.testing.assert_close(low, torch.tensor([1 / 12], dtype=torch.float64))
    torch.testing.assert_close(high, torch.tensor([1 / 12], dtype=torch.float64))
    alone = interval(drawn[:, 0])
    assert (alone[1] - alone[0]).item() > 0.02


def test_a_resampled_detector_is_scikit_learn_s_with_weights():
    generator = np.random.default_rng(2)
    pair = generator.integers(0, 12, 150)
    scores = generator.integers(0, 30, 150) / 30  # with ties
    hidden = generator.random(150) < 0.3 + 0.4 * (scores < 0.5)
    drawn = bootstrap_detector(
        torch.from_numpy(scores),
        torch.from_numpy(hidden),
        torch.from_numpy(pair),
        pairs=12,
        resamples=70,
        seed=3,
    )
    weights = torch.cat(list(draws(12, resamples=70, seed=3)))[:, pair].numpy()
    for (area, precision), weight in zip(drawn.tolist(), weights, strict=True):
        assert area == pytest.approx(sklearn_metrics.roc_auc_score(hidden, -scores, sample_weight=weight))
        assert precision == pytest.approx(
            sklearn_metrics.average_precision_score(hidden, -scores, sample_weight=weight)
        )


def test_a_ratio_that_is_never_defined_has_no_interval():
    nothing = torch.zeros(1, 5, 2)
    low, high = interval(bootstrap(nothing, nothing, resamples=10))
    assert low.isnan().all()
    assert high.isnan().all()
