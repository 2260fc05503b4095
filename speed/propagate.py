"""Keypoints propagated to a folder of images: all of propagation against the encoder alone.

    python speed/propagate.py [--images 16] [--references 10] [--model geco-s] [--repeats 3] [--json]

Both read the same files and encode them in batches; propagation also votes on every keypoint. In each round one follows
the other, so that a busy machine slows both; `ratio` is the median over rounds of propagation / encoder in wall-clock
time, `cpu_ratio` the same in processor seconds, which depend less on other programs. `speedup` and `memory_ratio` are
of voting alone, against the score maps of every reference added up.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _memory import peak, peak_in_subprocess
from PIL import Image

import geco
from geco import images, matching
from geco.propagation import VISIBLE, Animal, LabelledImage, LabelSet, Panel, Propagator, label_files, reference
from geco.types import FeatureMap, Skeleton

POINTS = 20  # keypoints of an animal


def write_image(path, seed, side=480):
    """Smooth noise: the content does not change the time."""
    noise = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(path)
    return path


TWIN = tuple(i + 1 if i % 2 == 0 else i - 1 for i in range(POINTS))
SKELETON = Skeleton(tuple(f"point {i}" for i in range(POINTS)), TWIN, TWIN)


def animal(seed, side=480):
    """Points anywhere, all visible."""
    xy = torch.rand(POINTS, 2, generator=torch.Generator().manual_seed(seed)) * (side - 2) + 1
    return Animal(xy, torch.full((POINTS,), VISIBLE))


def labels(paths):
    return LabelSet(SKELETON, [LabelledImage(path, (animal(i),)) for i, path in enumerate(paths)])


def timed(results):
    """Wall-clock seconds and processor seconds until the last result."""
    start = time.perf_counter(), time.process_time()
    for _ in results:
        pass
    return time.perf_counter() - start[0], time.process_time() - start[1]


def encoded(model, paths):
    """The encoder alone."""
    return timed(model.extract_stream(images.read(path) for path in paths))


def propagated(propagator, paths):
    """Keypoints of every file."""
    return timed(label_files(propagator, paths))


# --- voting alone -----------------------------------------------------------------------------------------------------


def problem(count, channels=384, grid=20, side=480):
    """A panel of references with random features, and a target."""
    generator = torch.Generator().manual_seed(0)
    maps = [FeatureMap(torch.randn(channels, grid, grid, generator=generator), (side, side)) for _ in range(count + 1)]
    target, *known = [reference(one, animal(i), (0, 0, side, side)) for i, one in enumerate(maps)]
    return Panel(known, SKELETON, most=count), target


def voted(panel, target):
    return panel.vote(target.features, whole=target.whole).xy


def added_up(panel, target):
    rows, columns = target.features.grid
    fine = matching.prepare(FeatureMap(target.features.values, (8 * rows, 8 * columns)))
    return sum(matching.score_maps(one.descriptors, fine) for one in panel.references).flatten(1).argmax(1)


WAYS = {"ours": voted, "every reference": added_up}


def voting(count, repeats):
    """Seconds of both ways, in turns."""
    panel, target = problem(count)
    rounds = []
    for _ in range(repeats + 1):
        seconds = {}
        for name, way in WAYS.items():
            start = time.perf_counter()
            way(panel, target)
            seconds[name] = time.perf_counter() - start
        rounds.append(seconds)
    return statistics.median(one["every reference"] / one["ours"] for one in rounds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--references", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", default=None)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    model = geco.load(asked.model)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        paths = [write_image(Path(folder) / f"{i}.jpg", i) for i in range(asked.images)]
        known = [write_image(Path(folder) / f"r{i}.jpg", 1000 + i) for i in range(asked.references)]
        start = time.perf_counter()
        propagator = Propagator.of(model, labels(known))
        preparing = time.perf_counter() - start
        encoded(model, paths[:2])
        propagated(propagator, paths[:2])
        rounds = [(encoded(model, paths), propagated(propagator, paths)) for _ in range(asked.repeats)]
    result = {
        "images": asked.images,
        "references": asked.references,
        "threads": torch.get_num_threads(),
        "seconds to prepare": round(preparing, 2),
        "encoder, images a second": round(asked.images / statistics.median(one[0] for one, _ in rounds), 2),
        "propagation, images a second": round(asked.images / statistics.median(other[0] for _, other in rounds), 2),
        "ratio": round(statistics.median(other[0] / one[0] for one, other in rounds), 3),
        "cpu_ratio": round(statistics.median(other[1] / one[1] for one, other in rounds), 3),
        "speedup": round(voting(asked.references, asked.repeats), 2),
        "memory_ratio": round(_memory_ratio(asked.references), 3),
    }
    print(json.dumps(result) if asked.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    print("RESULT", json.dumps({key: result[key] for key in ("ratio", "cpu_ratio", "speedup", "memory_ratio")}))


def _memory_ratio(count):
    ours, other = (peak_in_subprocess(__file__, "--peak", name, count) for name in WAYS)
    return ours / max(other, 1e-9)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        arguments = problem(int(sys.argv[3]))
        print(peak(lambda: WAYS[sys.argv[2]](*arguments)))
    else:
        main()
