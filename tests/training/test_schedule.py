"""The schedule: how long a run is, and the learning rate of each step."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from geco.training.schedule import learning_rate, total_steps
from geco.training.settings import TrainConfig


def test_a_run_ends_with_its_epochs_or_its_steps():
    assert total_steps(TrainConfig(epochs=3), 7) == 21
    assert total_steps(TrainConfig(epochs=3, steps=10), 7) == 10
    assert total_steps(TrainConfig(epochs=3, steps=100), 7) == 21


def test_the_learning_rate_rises_stays_and_falls():
    plain = TrainConfig(learning_rate=2.0, warmup=4)
    assert [learning_rate(plain, step, 100) for step in (0, 1, 4, 50, 99)] == pytest.approx([0.4, 0.8, 2, 2, 2])
    cosine = replace(plain, schedule="cosine")
    rates = [learning_rate(cosine, step, 104) for step in range(104)]
    assert rates[4] == pytest.approx(2)
    assert rates[54] == pytest.approx(1)  # half of what follows the warm-up
    assert rates[-1] == pytest.approx(2 * (1 - math.cos(math.pi / 100)) / 2)
    assert all(a > b for a, b in pairwise(rates[4:]))
    assert learning_rate(TrainConfig(), 0, 10) == TrainConfig().learning_rate
