"""Paths through the peaks of frames, against every possible path."""

import itertools

import pytest
import torch

from geco.propagation.paths import Paths, Peaks, find_peaks

FRAMES, PEAKS, KEYPOINTS = 5, 2, 3
MOTION, SWITCH, REACH = 0.3, 0.15, 20.0


def problem(seed, frames=FRAMES):
    generator = torch.Generator().manual_seed(seed)
    return [
        Peaks(
            torch.rand(KEYPOINTS, PEAKS, 2, generator=generator) * 30,
            torch.rand(KEYPOINTS, PEAKS, generator=generator) * 0.5,
            torch.rand(KEYPOINTS, PEAKS, generator=generator) * 0.6 - 0.3,
        )
        for _ in range(frames)
    ]


def worth(frames, row, path):
    """The score of a path, [(peak, visible), …], by its definition."""
    total = 0.0
    for number, (peak, visible) in enumerate(path):
        peaks = frames[number]
        total += float(peaks.score[row, peak] + (peaks.evidence[row, peak] if visible else 0))
        if number:
            before, was_visible = path[number - 1]
            moved = float((peaks.xy[row, peak] - frames[number - 1].xy[row, before]).norm())
            total -= MOTION * min((moved / REACH) ** 2, 1) + SWITCH * (visible != was_visible)
    return total


def best_path(frames, row):
    states = list(itertools.product(range(PEAKS), (True, False)))
    return max(itertools.product(states, repeat=len(frames)), key=lambda path: worth(frames, row, path))


def decided(paths, frames):
    answers = [answer for number, peaks in enumerate(frames) for answer in paths.add(number, peaks, reach=REACH)]
    answers += paths.finish()
    assert [number for number, _ in answers] == list(range(len(frames))), "each frame once, in order"
    return [choice for _, choice in answers]


@pytest.mark.parametrize("seed", range(3))
def test_the_chosen_path_is_the_best_of_all(seed):
    frames = problem(seed)
    choices = decided(Paths(motion=MOTION, switch=SWITCH, lag=FRAMES), frames)
    for row in range(KEYPOINTS):
        chosen = [(int(choice.peak[row]), bool(choice.visible[row])) for choice in choices]
        assert chosen == list(best_path(frames, row))


def test_without_costs_each_frame_is_decided_for_itself():
    frames = problem(0)
    for peaks, choice in zip(frames, decided(Paths(motion=0, switch=0, lag=1), frames), strict=True):
        total = torch.maximum(peaks.score, peaks.score + peaks.evidence)
        assert torch.equal(choice.peak, total.argmax(1))
        assert torch.equal(choice.visible, peaks.evidence.gather(1, choice.peak[:, None])[:, 0] > 0)


def test_few_frames_wait_whatever_the_length():
    paths = Paths(motion=MOTION, switch=SWITCH, lag=3)
    waiting = 0
    for number, peaks in enumerate(problem(1, frames=60)):
        waiting += 1 - len(paths.add(number, peaks, reach=REACH))
        assert waiting <= 6
    assert len(paths.finish()) == waiting
    assert paths.finish() == []


def test_peaks_are_the_tops_of_squares_without_a_higher_neighbour_best_first():
    maps = torch.rand(2, 30, 42, generator=torch.Generator().manual_seed(0))
    index, score = find_peaks(maps, most=4, cell=4)
    for row in range(2):
        tops = []
        for top, left in itertools.product(range(0, 30, 4), range(0, 42, 4)):
            square = maps[row, top : top + 4, left : left + 4].max()
            around = maps[row, max(0, top - 4) : top + 8, max(0, left - 4) : left + 8].max()
            tops += [float(square)] if square == around else []
        assert score[row].tolist() == sorted(tops, reverse=True)[:4]
        assert torch.equal(maps[row].flatten()[index[row]], score[row])
    few = find_peaks(maps[:, :3, :3], most=4, cell=4)[1]
    assert few.shape == (2, 1)
