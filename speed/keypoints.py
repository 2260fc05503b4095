"""Scoring of keypoint pairs at image resolution: upsample scores, not features.

    python speed/keypoints.py [--pairs 20] [--loop-pairs 1] [--json]

Features are given. Three ways that find the same pixels:
  loop   the target's C channels are upsampled for every keypoint (as the reference implementation does)
  pair   they are upsampled once for every pair
  ours   only score maps are upsampled; the norms of the upsampled target come from five maps of dot products
The loop is timed on `--loop-pairs` of the pairs, everything is reported per pair. `speedup` is loop / ours.
"""

import argparse
import json
import statistics
import threading
import time

import torch
from torch.nn import functional

from geco import geometry, matching
from geco.system import devices
from geco.types import FeatureMap


def make_pairs(count, *, channels, grid, size, keypoints, seed=0):
    """Smooth random maps and random points: a score peak covers a region, as with real features."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for _ in range(count):
        maps = [torch.randn(1, channels, grid, grid, generator=generator) for _ in range(2)]
        maps = [functional.avg_pool2d(m, 3, 1, 1)[0] + 0.1 * m[0] for m in maps]
        points = torch.rand(keypoints, 2, generator=generator) * torch.tensor([size[1], size[0]])
        pairs.append((FeatureMap(maps[0], size), FeatureMap(maps[1], size), points))
    return pairs


def upsampled_best(source, target, points, queries):
    big = functional.interpolate(target.values[None], size=target.size, mode="bilinear", align_corners=False)
    big = functional.normalize(big[0].flatten(1), dim=0)
    read = functional.normalize(geometry.sample(source.values, points, size=source.size), dim=-1)
    return (read[queries] @ big).max(-1)


def by_loop(pair):
    source, target, points = pair
    found = [upsampled_best(source, target, points, torch.tensor([i])) for i in range(len(points))]
    return torch.cat([f.indices for f in found]), torch.cat([f.values for f in found])


def by_pair(pair):
    source, target, points = pair
    found = upsampled_best(source, target, points, torch.arange(len(points)))
    return found.indices, found.values


def ours(pair):
    source, target, points = pair
    matches = matching.transfer(source, target, points)
    column, row = (matches.target - 0.5).long().unbind(-1)
    return row * target.size[1] + column, matches.score


def seconds(function, pairs):
    """Per pair."""
    start = time.perf_counter()
    for pair in pairs:
        function(pair)
    return (time.perf_counter() - start) / len(pairs)


def peak_megabytes(function, pair):
    """Memory that a call needs beyond what was in use before."""
    devices.release()
    before, peak, stop = devices.resident(), [0], threading.Event()

    def watch():
        while not stop.wait(0.001):
            peak[0] = max(peak[0], devices.resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    function(pair)
    stop.set()
    watcher.join()
    return peak[0] / 2**20


def compare(pairs, loop_pairs, repeats):
    """All three in each round, so that a busy machine slows all alike; ratios are medians over rounds."""
    ways = {"ours": (ours, pairs), "pair": (by_pair, pairs[:3]), "loop": (by_loop, pairs[:loop_pairs])}
    ours(pairs[0])
    by_pair(pairs[0])
    rounds = [{name: seconds(way, some) for name, (way, some) in ways.items()} for _ in range(repeats)]
    result = {
        name: {
            "ms": 1000 * statistics.median(one[name] for one in rounds),
            "ms_min": 1000 * min(one[name] for one in rounds),
            "ms_max": 1000 * max(one[name] for one in rounds),
            "peak_mb": peak_megabytes(way, some[0]),
        }
        for name, (way, some) in ways.items()
    }
    result["speedup"] = statistics.median(one["loop"] / one["ours"] for one in rounds)
    result["speedup_against_once_per_pair"] = statistics.median(one["pair"] / one["ours"] for one in rounds)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--loop-pairs", type=int, default=1)
    parser.add_argument("--keypoints", type=int, default=15)
    parser.add_argument("--channels", type=int, default=768)
    parser.add_argument("--grid", type=int, default=37)
    parser.add_argument("--size", type=int, nargs=2, default=(375, 500), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    pairs = make_pairs(
        asked.pairs,
        channels=asked.channels,
        grid=asked.grid,
        size=tuple(asked.size),
        keypoints=asked.keypoints,
    )
    with torch.inference_mode():
        agreement = [check(pair) for pair in pairs[:3]]
        result = compare(pairs, asked.loop_pairs, asked.repeats)
    result |= {
        "same_pixel": sum(same for same, _ in agreement) / len(agreement),
        "largest_score_gap": max(gap for _, gap in agreement),
        "pairs": asked.pairs,
        "keypoints": asked.keypoints,
        "channels": asked.channels,
        "size": list(asked.size),
        "threads": asked.threads,
    }
    if asked.json:
        print(json.dumps(result))
    else:
        show(result)
    memory_ratio = result["ours"]["peak_mb"] / max(result["loop"]["peak_mb"], 1e-9)
    print("RESULT", json.dumps({"speedup": round(result["speedup"], 1), "memory_ratio": round(memory_ratio, 4)}))


def show(result):
    print("{pairs} pairs, {keypoints} keypoints, {channels} channels, {threads} threads".format_map(result))
    for name in ("loop", "pair", "ours"):
        one = result[name]
        spread = f"[{one['ms_min']:.2f}, {one['ms_max']:.2f}]"
        print(f"{name:5} {one['ms']:10.2f} ms per pair {spread:>22}   peak {one['peak_mb']:8.1f} MB")
    print(
        f"{result['speedup']:.0f}× faster than the loop, {result['speedup_against_once_per_pair']:.0f}× than once per "
        f"pair; same pixel {result['same_pixel']:.0%}, score gap {result['largest_score_gap']:.1e}"
    )


def check(pair):
    """Share of equal pixels, and how far the brute-force score at our pixel is below its maximum."""
    source, target, points = pair
    index, _ = ours(pair)
    big = functional.interpolate(target.values[None].double(), size=target.size, mode="bilinear")[0].flatten(1)
    read = functional.normalize(geometry.sample(source.values.double(), points, size=source.size), dim=-1)
    scores = read @ functional.normalize(big, dim=0)
    best, at = scores.max(-1)
    gap = (best - scores.gather(1, index[:, None])[:, 0]).max()
    return float((at == index).double().mean()), float(gap)


if __name__ == "__main__":
    main()
