"""Scoring a target at image resolution: ours against upsampling every channel, once per pair and once per keypoint.

518 px input (37 × 37 patches), images of 500 × 375, 8 keypoints, the 768 channels of ViT-B, features given. All three
run in one process, warmed up; peak memory is measured in a fresh process each. The last line is against the
per-keypoint path, which is what the paper's reference implementation does.
"""

import json
import statistics
import sys
import time

import torch
from _memory import peak, peak_in_subprocess
from torch.nn import functional

from geco import geometry, matching
from geco.types import FeatureMap

CHANNELS, GRID, SIZE, POINTS = 768, (37, 37), (375, 500), 8
ROUNDS = {"ours": 15, "once per pair": 5, "once per keypoint": 3}


def problem():
    torch.manual_seed(0)
    source = FeatureMap(torch.randn(CHANNELS, *GRID), SIZE)
    target = FeatureMap(torch.randn(CHANNELS, *GRID), SIZE)
    return source, target, torch.rand(POINTS, 2) * torch.tensor([SIZE[1], SIZE[0]])


def upsampled(target):
    values = functional.interpolate(target.values[None], size=SIZE, mode="bilinear", align_corners=False)[0]
    return functional.normalize(values, dim=0).flatten(1)


def best(scores):
    return geometry.pixel_centres(scores.argmax(-1), width=SIZE[1])


def ours(source, target, points):
    return matching.transfer(source, target, points).target


def once_per_pair(source, target, points):
    return best(matching.queries(source, points) @ upsampled(target))


def once_per_keypoint(source, target, points):
    asked = matching.queries(source, points)
    return torch.cat([best(asked[i : i + 1] @ upsampled(target)) for i in range(len(asked))])


PATHS = {"ours": ours, "once per pair": once_per_pair, "once per keypoint": once_per_keypoint}


def timed(name):
    arguments = problem()
    PATHS[name](*arguments)
    seconds = []
    for _ in range(ROUNDS[name]):
        start = time.perf_counter()
        PATHS[name](*arguments)
        seconds.append(time.perf_counter() - start)
    return seconds


def peak_of(name):
    arguments = problem()
    functional.normalize(torch.randn(64, 64) @ torch.randn(64, 64))  # the libraries' own buffers are not counted
    return peak(lambda: PATHS[name](*arguments))


def main():
    source, target, points = problem()
    exact = once_per_pair(*(FeatureMap(f.values.double(), SIZE) for f in (source, target)), points.double())
    agree = sum(bool((ours(source, target, points)[i] - exact[i]).abs().max() < 0.5) for i in range(POINTS))
    print(
        f"{CHANNELS} channels, {GRID[0]}×{GRID[1]} patches, image {SIZE[1]}×{SIZE[0]}, {POINTS} keypoints, "
        f"{torch.get_num_threads()} threads; argmax as in float64 brute force: {agree} of {POINTS}"
    )
    results = {}
    for name in PATHS:
        seconds = timed(name)
        low, middle, high = (1e3 * f(seconds) for f in (min, statistics.median, max))
        results[name] = (middle, peak_in_subprocess(__file__, "--peak", name))
        print(f"{name:18s} median {middle:9.1f} ms  [{low:.1f}, {high:.1f}]  peak {results[name][1]:8.1f} MB")
    for name in ("once per pair", "once per keypoint"):
        time_ratio, memory_ratio = (
            results[name][0] / results["ours"][0],
            results["ours"][1] / max(results[name][1], 1e-9),
        )
        print(f"against {name}: {time_ratio:.0f}× faster, {memory_ratio:.4f} of its memory")
    print("RESULT", json.dumps({"speedup": round(time_ratio, 1), "memory_ratio": round(memory_ratio, 4)}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(peak_of(sys.argv[2]))
    else:
        main()
