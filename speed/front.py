"""Frames per second of the first blocks of a model: depth × side × engine, end to end, for choosing a small model.

The packaged model unless `--model` names another, cut off after each of `--depths` blocks (untrained, which does not
change its speed), exported for each of `--engines` (onnx, openvino, onnx-int8, openvino-int8; torch is always there)
and timed at each of `--sides`: a decoded frame of 640 × 480 → resized → features → 8 points transferred, as
`geco bench --end-to-end` does, in alternating rounds; medians and spread. Also shown: the size of the merged model in
16 bits, and the floating point operations of encoding. `--out FOLDER` keeps the report. Last line: the fastest against
the whole model in torch at its own side, which is timed as well; memory is that of the weights.
"""

import argparse
import json
import tempfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from engines import pictures

import geco
from geco import evaluation, export, models
from geco.evaluation.settings import FrameProtocol
from geco.export.settings import ExportSettings

ENDINGS = {"onnx": ".onnx", "openvino": ".xml"}
GOAL = 30  # frames per second


def cut(whole, depth):
    """A copy of the model that ends after this many blocks."""
    return models.first_blocks(deepcopy(whole), depth)


def weights(model):
    """Megabytes of a model in 16 bits."""
    return 2 * sum(value.numel() for value in model.parameters()) / 1e6


def operations(model, side):
    """Billions of floating point operations of encoding a square image, from the shapes of the blocks' matrices."""
    tokens = (side // model.stride) ** 2 + 1
    matrices = sum(value.numel() for name, value in model.named_parameters() if value.ndim == 2)
    attention = 2 * tokens * model.dim * model.config.options["layer"]
    return 2 * tokens * (matrices + attention) / 1e9


def at_side(encoder, side):
    """A copy of the encoder that sees images at another side."""
    other = deepcopy(encoder)
    other.config = replace(encoder.config, size=side)
    return other


def encoders_of(whole, depths, sides, engines, folder):
    """The encoders to time, by name, and for each the operations and the megabytes of weights."""
    encoders, facts = {}, {}
    for depth in depths:
        model = cut(whole, depth)
        for side in sides:
            seen = at_side(model, side)
            known = operations(model, side), weights(model)
            encoders[f"{depth} blocks, {side} px, torch"] = seen
            facts[f"{depth} blocks, {side} px, torch"] = known
            for engine in engines:
                kind, _, precision = engine.partition("-")
                path = Path(folder) / f"{depth}-{side}-{engine}{ENDINGS[kind]}"
                settings = ExportSettings(precision=precision or "float32", dynamic=False)
                export.write(seen, path, pictures(), settings, quality=lambda encoder: {})
                encoders[f"{depth} blocks, {side} px, {engine}"] = geco.load(path)
                facts[f"{depth} blocks, {side} px, {engine}"] = known
    return encoders, facts


def main(options):
    whole = geco.load(options.model, device="cpu")
    depths, sides = ([int(word) for word in text.split(",")] for text in (options.depths, options.sides))
    engines = [word for word in options.engines.split(",") if word not in ("", "torch")]
    if unknown := [word for word in engines if word.removesuffix("-int8") not in ENDINGS]:
        raise SystemExit(f"engines are torch, onnx, openvino, onnx-int8 and openvino-int8, got {unknown[0]}")
    reference = f"{whole.name}, {whole.input_size} px, torch"
    with tempfile.TemporaryDirectory() as folder:
        encoders, facts = encoders_of(whole, depths, sides, engines, folder)
        facts[reference] = operations(whole, whole.input_size), weights(whole)
        protocol = FrameProtocol(warmup=2, repeats=options.repeats)
        report = evaluation.frames.run({reference: whole, **encoders}, protocol)
    if options.out:
        evaluation.save_report(report, options.out)
    rows = {row[0]: row for row in report.tables[0].rows}
    print(f"{torch.get_num_threads()} threads, {options.repeats} rounds; * at least {GOAL} frames per second")
    for name, (_, _, _, _, ms, spread, fps, _) in rows.items():
        flops, megabytes = facts[name]
        goal = "*" if fps >= GOAL else " "
        print(f"{name:36s} {ms:7.1f} ms ±{spread / 2:5.1f} {fps:6.1f} fps{goal} {flops:6.2f} GFLOP {megabytes:5.1f} MB")
    fastest = max(encoders, key=lambda name: rows[name][6])
    result = {
        "speedup": round(rows[fastest][6] / rows[reference][6], 2),
        "memory_ratio": round(facts[fastest][1] / facts[reference][1], 3),
        "fastest": fastest,
        "fps": {name: round(row[6], 1) for name, row in rows.items()},
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--depths", default="4,5,6")
    parser.add_argument("--sides", default="168,182,196")
    parser.add_argument("--engines", default="onnx,openvino")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out")
    main(parser.parse_args())
