"""Intervals: how far a number would move with other pairs of the same kind (bootstrap over pairs)."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco.evaluation.metrics.keypoints import share


def draws(pairs: int, *, resamples: int, seed: int, chunk: int = 64) -> Iterator[Float[Tensor, "s p"]]:
    """How often each pair is drawn in each resample, with replacement; a chunk at a time, all would be large."""
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, chunk):
        times = generator.multinomial(pairs, np.full(pairs, 1 / pairs), size=min(chunk, resamples - start))
        yield torch.from_numpy(times).double()


def bootstrap(
    numerator: Float[Tensor, "r p f"],
    denominator: Float[Tensor, "r p f"],
    *,
    resamples: int = 1000,
    seed: int = 0,
    chunk: int = 64,
) -> Float[Tensor, "s r f"]:
    """Ratios of sums over `p` pairs drawn with replacement; the same draws for each of `r` runs pair them."""
    totals = numerator.double(), denominator.double()
    return torch.cat(
        [
            share(*(torch.einsum("sp,rpf->srf", times, total) for total in totals))
            for times in draws(numerator.shape[1], resamples=resamples, seed=seed, chunk=chunk)
        ]
    )


def bootstrap_detector(
    score: Float[Tensor, "k"],
    hidden: Bool[Tensor, "k"],
    pair: Int[Tensor, "k"],
    *,
    pairs: int,
    resamples: int = 1000,
    seed: int = 0,
) -> Float[Tensor, "s 2"]:
    """Area under the ROC and average precision of "a low score means hidden", over draws of the queries' pairs."""
    order = score.argsort()
    score, hidden, pair = score[order], hidden[order], pair[order]
    last = torch.cat([score[1:] != score[:-1], torch.ones(min(1, len(score)), dtype=torch.bool)])
    values = []
    for times in draws(pairs, resamples=resamples, seed=seed):
        weight = times[:, pair]
        detected = (weight * hidden).cumsum(1)[:, last]
        false = (weight * ~hidden).cumsum(1)[:, last]
        gained = torch.diff(detected, dim=1, prepend=torch.zeros(len(detected), 1, dtype=detected.dtype))
        lost = torch.diff(false, dim=1, prepend=torch.zeros(len(false), 1, dtype=false.dtype))
        positives, negatives = gained.sum(1), lost.sum(1)
        area = share((lost * (detected - gained / 2)).sum(1), positives * negatives)
        precision = share((gained * share(detected, detected + false).nan_to_num()).sum(1), positives)
        values.append(torch.stack([area, precision], 1))
    return torch.cat(values)


def interval(drawn: Float[Tensor, "s *f"], confidence: float = 0.95) -> tuple[Float[Tensor, "*f"], Float[Tensor, "*f"]]:
    """Lower and upper percentile of the draws in which the ratio is defined; NaN if there is none."""
    tail = (1 - confidence) / 2
    low, high = torch.nanquantile(drawn, torch.tensor([tail, 1 - tail], dtype=drawn.dtype), dim=0)
    return low, high
