"""Paths: one place for each keypoint in each frame, visible or not, chosen over several frames at once.

A frame offers the peaks of a keypoint's score map. A path goes from peak to peak and is visible or hidden at each. It
scores the similarity of its peaks and, where it is visible, what speaks for that; movements cost, and so does changing
between visible and hidden. Movements cost hidden points the same, or else whatever moves would seem hidden. The best
path is found by dynamic programming (Viterbi 1967), and the oldest frames are decided once enough later ones are
known: memory does not grow with the video.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

Item = TypeVar("Item")
NEVER = -1e6  # score of a peak that there is not


@dataclass(frozen=True)
class Peaks:
    """Places that a frame offers for each keypoint, best first."""

    xy: Float[Tensor, "k m 2"]  # in pixels of the frame
    score: Float[Tensor, "k m"]  # NEVER where there are fewer
    evidence: Float[Tensor, "k m"]  # that the point is visible there; negative: that it is hidden


@dataclass(frozen=True)
class Choice:
    """What is decided about each keypoint of a frame."""

    peak: Int[Tensor, "k"]  # number of its peak
    visible: Bool[Tensor, "k"]


def find_peaks(
    maps: Float[Tensor, "k h w"], *, most: int, cell: int
) -> tuple[Int[Tensor, "k m"], Float[Tensor, "k m"]]:
    """Indices into the flattened maps, and scores, of the highest places in squares whose neighbours are no higher.

    The squares have a side of `cell`: a tenth of the work of comparing each place with all that are so near.
    """
    tops, index = functional.max_pool2d(maps, cell, ceil_mode=True, return_indices=True)
    lower = tops < functional.max_pool2d(tops, 3, 1, 1)
    score, square = tops.masked_fill(lower, NEVER).flatten(1).topk(min(most, lower[0].numel()))
    return index.flatten(1).gather(1, square), score


class Paths(Generic[Item]):
    """Frames in order go in; decided frames come out, `lag` to twice as many frames later."""

    def __init__(self, *, motion: float, switch: float, lag: int) -> None:
        self.motion, self.switch, self.lag = motion, switch, lag
        self._waiting: deque[tuple[Item, Int[Tensor, "k s"]]] = deque()  # with the best state before each state
        self._total: Float[Tensor, "k s"] | None = None  # of the best path to each state of the last frame
        self._last: Peaks | None = None

    def add(self, item: Item, peaks: Peaks, *, reach: float) -> list[tuple[Item, Choice]]:
        """The frames that this one decides; `reach` is how far, in pixels, a point can have moved since the last."""
        total = torch.cat([peaks.score + peaks.evidence, peaks.score], 1)  # each peak visible, then each peak hidden
        before = torch.zeros_like(total, dtype=torch.long)
        if self._last is not None and self._total is not None:
            arriving, before = (self._total[:, :, None] - self._costs(self._last, peaks, reach)).max(1)
            total = total + arriving - arriving.amax(1, keepdim=True)  # only differences count; sums lose digits
        self._total, self._last = total, peaks
        self._waiting.append((item, before))
        return self._decided(keep=self.lag) if len(self._waiting) > 2 * self.lag else []

    def finish(self) -> list[tuple[Item, Choice]]:
        """The frames that are not decided yet; the next one begins new paths."""
        decided = self._decided(keep=0)
        self._total = self._last = None
        return decided

    def _decided(self, *, keep: int) -> list[tuple[Item, Choice]]:
        """All waiting frames but the last ones, along the paths that are best now."""
        if self._total is None:
            return []
        state = self._total.argmax(1)
        decided = []
        for number in reversed(range(len(self._waiting))):
            item, before = self._waiting[number]
            if number < len(self._waiting) - keep:
                peaks = before.shape[1] // 2
                decided.append((item, Choice(state % peaks, state < peaks)))
            state = before.gather(1, state[:, None])[:, 0]
        for _ in decided:
            self._waiting.popleft()
        return decided[::-1]

    def _costs(self, before: Peaks, now: Peaks, reach: float) -> Float[Tensor, "k s t"]:
        """What it costs to go from each state of the frame before to each of this one."""
        moved = (before.xy[:, :, None] - now.xy[:, None]).norm(dim=-1) / max(reach, 1e-6)
        costs = self.motion * moved.square().clamp(max=1.0)
        return torch.cat([torch.cat([costs, costs + self.switch], 2), torch.cat([costs + self.switch, costs], 2)], 1)
