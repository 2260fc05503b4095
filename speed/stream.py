"""A folder of 12-megapixel JPEG files → features: the stream, which reads ahead, against the plain loop.

    python speed/stream.py [--images 16] [--width 4000] [--repeats 3] [--batch 4] [--model NAME]

The images are generated here. A round goes through the files three times: the plain loop (read, resize and encode one
batch after the other, in one thread), the stream, and the stream with drafts (JPEG decoded at a fraction of its size).
`busy` is the share of the time in which the encoder is at work instead of waiting for images; `alone` is the time of
encoding prepared images, with nothing else running, over the time of the stream: on a CPU decoding takes cores from
the encoder, so this is less. Peak memory is measured in a fresh process each.
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
from PIL import Image as Pillow

import geco
from geco import images


def write_images(folder, count, width):
    """JPEG files of smooth colours with noise like a camera's."""
    rng = np.random.default_rng(0)
    size = (width, width * 3 // 4)
    paths = []
    for number in range(count):
        small = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
            size, Pillow.Resampling.BICUBIC
        )
        noise = rng.integers(-8, 9, (size[1], size[0], 1), dtype=np.int16)
        paths.append(folder / f"{number:03d}.jpg")
        pixels = (np.asarray(small, dtype=np.int16) + noise).clip(0, 255).astype(np.uint8)
        Pillow.fromarray(pixels).save(paths[-1], quality=90)
    return paths


def plain(model, paths, batch):
    count = 0
    for start in range(0, len(paths), batch):
        pictures = [images.read(path) for path in paths[start : start + batch]]
        with torch.inference_mode():
            count += len(model.encode(pictures))
    return count


def stream(model, paths, batch):
    return sum(1 for _ in model.extract_stream(paths, batch_size=batch))


def drafts(model, paths, batch):
    return sum(1 for _ in model.extract_stream(paths, batch_size=batch, draft=True))


WAYS = {"plain loop": plain, "stream": stream, "stream, drafts": drafts}


def encoding_alone(model, paths, batch):
    """Seconds of the encoder on images that are prepared already."""
    prepared = model.prepare(images.read(paths[0]))
    with torch.inference_mode():
        inputs = {name: values[None].repeat(batch, *[1] * values.ndim) for name, values in prepared.items()}
        model(**inputs)
        start = time.perf_counter()
        for first in range(0, len(paths), batch):
            count = len(paths[first : first + batch])
            model(**{name: values[:count] for name, values in inputs.items()})
        return time.perf_counter() - start


class Occupied:
    """Seconds spent inside the encoder."""

    def __init__(self, model):
        self.seconds = self.began = 0.0
        model.register_forward_pre_hook(self.begin)
        model.register_forward_hook(self.end)

    def begin(self, *_):
        self.began = time.perf_counter()

    def end(self, *_):
        self.seconds += time.perf_counter() - self.began


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder), options.images, options.width)
        model = geco.load(options.model, device="cpu")
        occupied = Occupied(model)
        seconds, shares = ({name: [] for name in WAYS} for _ in range(2))
        alone = []
        for number in range(options.repeats + 1):
            for name, way in WAYS.items():
                start, occupied.seconds = time.perf_counter(), 0.0
                assert way(model, paths, options.batch) == len(paths)
                if number:  # the first round warms up
                    seconds[name].append(time.perf_counter() - start)
                    shares[name].append(occupied.seconds / seconds[name][-1])
            alone.append(encoding_alone(model, paths, options.batch))
        given = ["--folder", folder, "--batch", str(options.batch)]
        given += ["--model", options.model] if options.model else []
        memory = {name: peak_in_subprocess(__file__, "--peak", name, *given) for name in WAYS}
    print(f"{len(paths)} files of {options.width}×{options.width * 3 // 4}, {model.name} at {model.input_size} px, "
          f"batches of {options.batch}, {torch.get_num_threads()} threads")  # fmt: skip
    medians = {}
    for name, values in seconds.items():
        low, medians[name], high = (f(values) for f in (min, statistics.median, max))
        busy = statistics.median(shares[name])
        rate = len(paths) / medians[name]
        print(f"{name:15s} median {medians[name]:7.2f} s  [{low:.2f}, {high:.2f}]  {rate:6.2f} images/s  "
              f"encoder busy {100 * busy:3.0f} %  peak {memory[name]:6.0f} MB")  # fmt: skip
    result = {
        "speedup": round(medians["plain loop"] / medians["stream"], 3),
        "memory_ratio": round(memory["stream"] / max(memory["plain loop"], 1e-9), 3),
        "busy": round(statistics.median(shares["stream"]), 3),
        "alone": round(statistics.median(alone) / medians["stream"], 3),
        "speedup_drafts": round(medians["plain loop"] / medians["stream, drafts"], 3),
        "busy_drafts": round(statistics.median(shares["stream, drafts"]), 3),
        "alone_drafts": round(statistics.median(alone) / medians["stream, drafts"], 3),
    }
    print("RESULT", json.dumps(result))


def peak_of(options):
    model = geco.load(options.model, device="cpu")
    paths = sorted(Path(options.folder).glob("*.jpg"))
    model.extract(torch.zeros(3, 64, 64, dtype=torch.uint8))  # the libraries' own buffers are not counted
    return peak(lambda: WAYS[options.peak](model, paths, options.batch))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--width", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--model", default=None)
    parser.add_argument("--peak", default=None)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    if arguments.peak:
        print(peak_of(arguments))
        sys.exit()
    main(arguments)
