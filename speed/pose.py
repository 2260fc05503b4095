"""Pose estimation against its encoder: decorating 5,000 vertices from 60 views, and matching and solving one image.

The encoder is the packaged model unless `--channels` makes it a stand-in that only averages colours. Decorating is
compared with the encoder's own time for the same images, its medians with those of all samples at once (views ×
vertices × channels in memory); matching 20 × 20 patches and solving with one encoding. Medians of repeats, in one
process; the peak memory of both medians in a process each.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
from _memory import peak, peak_in_subprocess
from torch.nn import functional

from geco import geometry, pose
from geco.pose import DecorateSettings, Mesh, medians
from geco.types import FeatureMap

GRID, CHANNELS = (20, 20), 384


class Averaging:
    """An encoder for small runs: averages of colours, mixed into channels."""

    name, threshold, stride, device = "averaging", 0.0, 14, torch.device("cpu")

    def __init__(self, channels):
        self.dim, self.mix = channels, torch.randn(channels, 3, generator=torch.Generator().manual_seed(0))

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            small = functional.adaptive_avg_pool2d(picture.float(), GRID)
            yield FeatureMap(torch.einsum("ck,khw->chw", self.mix, small), tuple(picture.shape[-2:]))

    def fingerprint(self):
        return "averaging"


def tube(vertices):
    """A bent closed surface of about `vertices` vertices."""
    rings, sides = max(4, vertices // 40), 40
    along, around = np.meshgrid(np.linspace(0.1, 3.0, rings), np.arange(sides) * 2 * np.pi / sides, indexing="ij")
    radius = 0.3 + 0.15 * np.sin(3 * along)
    places = [radius * np.cos(around), radius * np.sin(around) + 0.2 * along**2, along]
    corner = (np.arange(rings - 1)[:, None] * sides + np.arange(sides)).reshape(-1)
    beside = np.where(corner % sides == sides - 1, corner - sides + 1, corner + 1)
    faces = [np.stack([corner, beside, corner + sides], 1), np.stack([beside, beside + sides, corner + sides], 1)]
    return Mesh(np.stack(places, -1).reshape(-1, 3), np.concatenate(faces), name="tube")


def picture_of(mesh):
    scene, (camera,) = pose.Scene(mesh), pose.orbit(mesh.vertices, 1, size=(392, 392), seed=9)
    return pose.paint(scene, camera, scene.look(camera), pose.draw_look(1, *pose.TESTING))


def samples(views, vertices, channels):
    """Random maps, places and visibility, shaped like those of a decoration."""
    torch.manual_seed(0)
    maps = [FeatureMap(torch.randn(channels, *GRID), (392, 392)) for _ in range(views)]
    return maps, torch.rand(views, vertices, 2) * 392, torch.rand(views, vertices) < 0.35


def all_at_once(maps, xy, visible):
    values = torch.stack([features.values for features in maps])
    rows = functional.normalize(geometry.sample(values, xy, size=maps[0].size), dim=-1)
    return functional.normalize(rows.masked_fill(~visible[..., None], torch.nan).nanmedian(0).values, dim=-1)


WAYS = {"ours": lambda *arguments: medians(*arguments, chunk=256), "all at once": all_at_once}


def timed(work, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def encoder_of(channels):
    if channels:
        return Averaging(channels)
    import geco

    return geco.load()


def main(options):
    encoder = encoder_of(options.channels)
    mesh = tube(options.vertices)
    settings = DecorateSettings(views=options.views, vertices=options.vertices)
    pictures = [torch.randint(0, 255, (3, 392, 392), dtype=torch.uint8) for _ in range(options.views)]
    list(encoder.extract_stream(pictures[:8]))
    encoding = timed(lambda: list(encoder.extract_stream(pictures)), options.repeats)
    decoration = pose.decorate(encoder, mesh, settings)
    decorating = timed(lambda: pose.decorate(encoder, mesh, settings), options.repeats)
    features = next(iter(encoder.extract_stream([picture_of(mesh)])))
    pose.from_features(features, decoration)
    one = timed(lambda: list(encoder.extract_stream(pictures[:1])), 3 * options.repeats)
    solving = timed(lambda: pose.from_features(features, decoration), 3 * options.repeats)
    channels = options.channels or CHANNELS
    given = samples(options.views, options.vertices, channels)
    seconds = {name: timed(lambda way=way: way(*given), options.repeats) for name, way in WAYS.items()}
    shape = [str(n) for n in (options.views, options.vertices, channels)]
    memory = {name: peak_in_subprocess(__file__, "--peak", name, "--shape", *shape) for name in WAYS}
    threads = torch.get_num_threads()
    print(f"{options.views} views, {len(decoration.seen)} vertices, {encoder.dim} channels, {threads} threads")
    print(f"encoding {encoding:.2f} s, decorating with it {decorating:.2f} s: {decorating / encoding:.2f}×")
    print(f"encoding one image {one:.3f} s, matching and solving {solving:.3f} s: {solving / one:.2f}×")
    for name in WAYS:
        print(f"medians, {name:12s} {seconds[name]:.2f} s, peak {memory[name]:.0f} MB")
    result = {
        "speedup": round(seconds["all at once"] / seconds["ours"], 2),
        "memory_ratio": round(memory["ours"] / max(memory["all at once"], 1e-9), 4),
        "decorating_to_encoding": round(decorating / encoding, 3),
        "solving_seconds": round(solving, 3),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=60)
    parser.add_argument("--vertices", type=int, default=5000)
    parser.add_argument("--channels", type=int, default=0, help="of a stand-in; 0: the packaged model")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak", choices=WAYS)
    parser.add_argument("--shape", type=int, nargs=3)
    options = parser.parse_args()
    if options.peak:
        given = samples(*options.shape)
        print(peak(lambda: WAYS[options.peak](*given)))
    else:
        main(options)
