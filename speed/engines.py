"""Engines side by side: torch, ONNX Runtime and OpenVINO in float32 and int8, one image at a time.

The packaged model unless `--model` names another, exported once per engine and precision; `--int8 0` leaves int8 out.
All run in one process with the same number of threads, warmed up, in alternating rounds; medians and spread. Inputs are
images that have already been resized. Peak memory of loading and one call, in a process of its own for each, is
against torch's. Last line: the fastest of the others against torch at the first size.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from _memory import peak, peak_in_subprocess

import geco
from geco import export
from geco.export.settings import ExportSettings

ENDINGS = {"ONNX Runtime": ".onnx", "OpenVINO": ".xml"}


def pictures(count=6):
    """Smooth random images: speed does not depend on their content, and the ranges of int8 hardly do."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(count, 3, 12, 16, generator=generator)
    smooth = torch.nn.functional.interpolate(noise, size=(240, 320), mode="bicubic", align_corners=False)
    return list((255 * smooth.clamp(0, 1)).to(torch.uint8))


def exported(model, folder, *, int8):
    """Files by engine and precision; int8 is written however much accuracy it loses, which is not measured here."""
    files = {}
    for engine, ending in ENDINGS.items():
        for precision in ("float32", "int8") if int8 else ("float32",):
            path = Path(folder) / f"{precision}{ending}"
            settings = ExportSettings(precision=precision)
            export.write(model, path, pictures(), settings, quality=lambda encoder: {})
            files[f"{engine} {precision}"] = path
    return files


def rounds(encoders, size, repeats):
    """Seconds of each call of each encoder, in turns."""
    pixels = torch.stack([encoders["torch"].prepare(pictures(1)[0], (size, size))["pixels"]])
    seconds = {name: [] for name in encoders}
    with torch.inference_mode():
        for number in range(repeats + 2):
            for name, encoder in encoders.items():
                start = time.perf_counter()
                encoder(pixels=pixels)
                if number >= 2:
                    seconds[name].append(time.perf_counter() - start)
    return seconds


def loaded(model, size):
    encoder = geco.load(model, device="cpu", size=size)
    return encoder.extract(pictures(1)[0])


def main(options):
    model = geco.load(options.model, device="cpu")
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        files = exported(model, folder, int8=bool(options.int8))
        encoders = {"torch": model, **{name: geco.load(path) for name, path in files.items()}}
        print(f"{model.name}, one image, {torch.get_num_threads()} threads, {options.repeats} rounds")
        speedups = {}
        for size in sizes:
            seconds = rounds(encoders, size, options.repeats)
            middle = {name: statistics.median(values) for name, values in seconds.items()}
            for name, values in seconds.items():
                low, high = 1e3 * min(values), 1e3 * max(values)
                ratio = middle["torch"] / middle[name]
                print(f"{size} px  {name:22s} {1e3 * middle[name]:8.1f} ms  [{low:.1f}, {high:.1f}]  {ratio:.2f}×")
            speedups[size] = {name: middle["torch"] / value for name, value in middle.items() if name != "torch"}
        places = {"torch": options.model or "", **{name: str(path) for name, path in files.items()}}
        memory = {n: peak_in_subprocess(__file__, "--peak", sizes[0], "--model", place) for n, place in places.items()}
    for name, megabytes in memory.items():
        print(f"loading and one call, {name:22s} {megabytes:8.1f} MB")
    best = max(speedups[sizes[0]], key=speedups[sizes[0]].get)
    result = {
        "speedup": round(speedups[sizes[0]][best], 3),
        "engine": best,
        "memory_ratio": round(memory[best] / max(memory["torch"], 1e-9), 3),
        "speedups": {
            str(size): {name: round(value, 3) for name, value in row.items()} for size, row in speedups.items()
        },
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=None, help="the packaged model unless given")
    parser.add_argument("--sizes", default="224,280")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--int8", type=int, default=1, choices=(0, 1))
    parser.add_argument("--peak", type=int)
    options = parser.parse_args()
    if options.peak:
        print(peak(lambda: loaded(options.model or None, options.peak)))
    else:
        main(options)
