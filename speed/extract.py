"""Extraction of a folder of JPEG files against the bare encoder: one process, and two workers of Ray.

    python speed/extract.py [--images 1000] [--side 480] [--model geco-s] [--size 280] [--repeats 3] [--no-ray] [--json]

The bare encoder reads the same files (`extract_stream`) and drops the maps; extraction also hashes the files, rounds
the maps and writes checked shards. In each round one follows the other, so that a busy machine slows both. `ratio` is
the median over rounds of images per second, extraction / bare encoder, `cpu_ratio` the same in processor seconds;
`ray_ratio` that of two Ray workers with one thread each / one process with all threads, from the first shard written
to the last, so that starting Ray and loading the model twice do not count (they are `ray_start_seconds`).
`memory_ratio` is the peak of a process that extracts all images over that of one that extracts a quarter of them: 1
is flat. `encoder_share` is the share of an extraction's seconds in which it waits for the encoder's stream of maps:
unlike ratios of two runs, a busy machine does not change it. `speedup` is `ratio`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _memory import peak_in_subprocess, resident
from PIL import Image

import geco
from geco import extraction
from geco.extraction import bulk, cluster
from geco.extraction.settings import ExtractSettings

WARM = 16  # images


def write_images(folder, count, side):
    """JPEG files of smooth noise: the content does not change the time."""
    folder.mkdir()
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 256, (24, 24, 3), dtype=np.uint8)
        picture = Image.fromarray(noise).resize((side * 4 // 3, side), Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:06d}.jpg", quality=90)
    return folder


def bare(model, paths):
    """The encoder alone."""
    for _ in model.extract_stream(paths):
        pass


def extracted(model, places, out, settings):
    """An extraction in this process."""
    with extraction.begin(out, lambda: extraction.find(places), model, settings) as job:
        bulk.run(job, model)


class Timed:
    """Seconds spent in a model's stream of maps, which is what the bare encoder does."""

    def __init__(self, model):
        self.seconds, self.stream = 0.0, model.extract_stream
        model.extract_stream = self.timed

    def timed(self, *arguments, **options):
        maps = self.stream(*arguments, **options)
        while True:
            start = time.perf_counter()
            one = next(maps, None)
            self.seconds += time.perf_counter() - start
            if one is None:
                return
            yield one


def seconds(work, *arguments):
    """Wall-clock seconds and processor seconds of the work."""
    start = time.perf_counter(), time.process_time()
    work(*arguments)
    return time.perf_counter() - start[0], time.process_time() - start[1]


def extracted_by_ray(model, load, places, out, settings):
    """Images per second of two workers once both are running, and the seconds until their first shards were written."""
    moments = []

    def progress(what, done, total):
        moments.append((time.perf_counter(), done))

    start = time.perf_counter()
    with extraction.begin(out, lambda: extraction.find(places), model, settings) as job:
        cluster.run(job, load, workers=2, cpus=1, progress=progress)
    (first, before), (last, after) = moments[2], moments[-1]  # the first shard of each worker is written
    return (after - before) / (last - first), first - start


def peak_of(folder, count, name, size, out):
    """Peak megabytes of a process that extracts the first `count` images."""
    model = geco.load(name, size=size)
    paths = sorted(Path(folder).iterdir())[:count]
    extracted(model, paths, Path(out), ExtractSettings(per_shard=32))
    return resident("VmHWM")


def measured(asked, folder):
    """The results of each round, bytes on disk per image, and the ratio of peak memory."""
    load = partial(geco.load, asked.model, size=asked.size)
    model, source = load(), write_images(folder / "photos", asked.images, asked.side)
    paths = sorted(source.iterdir())
    timed, rounds = Timed(model), []
    bare(model, paths[:WARM])
    for number in range(asked.repeats):
        alone = seconds(bare, model, paths)
        timed.seconds = 0.0
        whole = seconds(extracted, model, [source], folder / f"one{number}", ExtractSettings())
        one = {"bare": len(paths) / alone[0], "one": len(paths) / whole[0], "cpu": alone[1] / whole[1]}
        one |= {"core seconds": whole[1] / len(paths), "share": timed.seconds / whole[0]}
        if asked.ray:  # work is divided by shards: several for each worker
            settings = ExtractSettings(per_shard=asked.per_shard)
            rate, waited = extracted_by_ray(model, load, [source], folder / f"ray{number}", settings)
            one |= {"ray": rate, "waited": waited}
        rounds.append(one)
    disk = sum(path.stat().st_size for path in (folder / "one0").rglob("*") if path.is_file()) / asked.images
    return rounds, disk, _memory_ratio(asked, folder)


def _memory_ratio(asked, folder):
    more, less = (
        peak_in_subprocess(
            __file__, "--peak", folder / "photos", count, asked.model, asked.size or 0, folder / f"p{count}"
        )
        for count in (asked.images, asked.images // 4)
    )
    return more / less


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--side", type=int, default=480, help="height of the files; they are a third wider")
    parser.add_argument("--model", default="geco-s")
    parser.add_argument("--size", type=int, default=None)
    parser.add_argument("--per-shard", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-ray", dest="ray", action="store_false")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds, disk, memory = measured(asked, Path(folder))
    ratios = [one["one"] / one["bare"] for one in rounds]
    result = {
        "images": asked.images,
        "threads": torch.get_num_threads(),
        "bare encoder, images a second": round(statistics.median(one["bare"] for one in rounds), 2),
        "extraction, images a second": round(statistics.median(one["one"] for one in rounds), 2),
        "seconds_per_image": round(statistics.median(1 / one["one"] for one in rounds), 4),
        "core_seconds_per_image": round(statistics.median(one["core seconds"] for one in rounds), 4),
        "bytes_per_image": round(disk),
        "ratio": round(statistics.median(ratios), 3),
        "cpu_ratio": round(statistics.median(one["cpu"] for one in rounds), 3),
        "encoder_share": round(statistics.median(one["share"] for one in rounds), 3),
        "spread": round(max(ratios) - min(ratios), 3),
        "ray_ratio": round(statistics.median(one["ray"] / one["one"] for one in rounds), 3) if asked.ray else None,
        "ray_start_seconds": round(statistics.median(one["waited"] for one in rounds), 1) if asked.ray else None,
        "speedup": round(statistics.median(ratios), 3),
        "memory_ratio": round(memory, 3),
    }
    print(json.dumps(result) if asked.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    told = ("ratio", "cpu_ratio", "encoder_share", "ray_ratio", "speedup", "memory_ratio")
    print("RESULT", json.dumps({key: result[key] for key in told}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        folder, count, name, size, out = sys.argv[2:]
        print(peak_of(folder, int(count), name, int(size) or None, out))
    else:
        main()
