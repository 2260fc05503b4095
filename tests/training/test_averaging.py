"""The running mean of the weights: its closed form, and that it is only borrowed."""

import torch
from torch.testing import assert_close

from geco.training.averaging import Average


def test_early_on_it_is_the_mean_of_all_steps_and_then_forgets_exponentially():
    weight = torch.zeros(1, dtype=torch.float64)
    average = Average({"w": weight}, decay=0.75)
    seen = [0.0]
    for step in range(1, 4):  # 1/2, 2/3, 3/4: still the mean of everything
        weight.fill_(step**2)
        seen.append(step**2)
        average.update(step)
        assert_close(average.values["w"].item(), sum(seen) / len(seen))
    before = average.values["w"].item()
    for step in range(4, 8):
        weight.fill_(step**2)
        average.update(step)
    expected = before * 0.75**4 + sum(0.25 * 0.75 ** (7 - step) * step**2 for step in range(4, 8))
    assert_close(average.values["w"].item(), expected)


def test_within_its_context_the_weights_are_the_mean_and_afterwards_what_they_were():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    average = Average({"w": weight}, decay=0.5)
    with torch.no_grad():
        weight += 2
    average.update(1)
    with average.in_place():
        assert weight.tolist() == [2.0, 3.0]
    assert weight.tolist() == [3.0, 4.0]
    assert average.values["w"].tolist() == [2.0, 3.0]
