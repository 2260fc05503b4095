"""Searching for a part: the index with its refinement against brute force, which scores every map exactly.

    python speed/search.py [--images 400] [--channels 64] [--grid 12] [--kind ivfpq] [--questions 5] [--repeats 3]
    python speed/search.py --folders DATA/CUB_200_2011 DATA/Animal-Pose DATA/PF-WILLOW --images 4480
    python speed/search.py --index runs/search/geco-s/index

Without folders of images or an index the maps are synthetic: smooth, around some hundred directions. Both ways read the
same folder of features and answer the same queries in turns, encoding not included; `speedup` is the median over rounds
of brute force / search, `recall` the share of the ten best that search finds too, `memory_ratio` the index in memory
against the uncompressed descriptors.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

import geco
from geco import extraction, matching, search
from geco.matching.settings import MatchSettings
from geco.search.settings import IndexSettings, SearchSettings
from geco.system import listing
from geco.types import FeatureMap

SIZE = (300, 392)
TOP = 10
ANY = SearchSettings(count=TOP, threshold=-1.0)
EXACT = MatchSettings(threshold=-1.0)


def made_up(images, channels, grid):
    """Smooth synthetic maps whose patches cluster around some directions, as parts do."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(300, channels, generator=generator)
    for number in range(images):
        coarse = directions[torch.randint(300, (6, 6), generator=generator)]  # (6, 6, c)
        coarse = coarse + 0.5 * torch.randn(coarse.shape, generator=generator)
        values = functional.interpolate(coarse.permute(2, 0, 1)[None], size=(grid, grid), mode="bilinear")[0]
        yield f"{number}.jpg", FeatureMap(values, SIZE)


def encoded(places, count, name):
    """Maps of `count` images, spread over the folders."""
    paths = listing.image_files(places)
    chosen = paths[:: max(1, len(paths) // count)][:count]
    yield from zip(map(str, chosen), geco.load(name).extract_stream(chosen), strict=True)


def brute_force(features, source, point):
    """The best images by the exact score of every map."""
    xy = torch.tensor([point])
    scores = [(float(matching.transfer(source, features[name], xy, EXACT).score[0]), name) for name in features.names]
    return [name for _, name in sorted(scores, key=lambda one: -one[0])[:TOP]]


def searched(index, source, point):
    return [hit.name for hit in search.find_by_features(index, source, point, ANY).hits]


def compared(index, questions, repeats):
    """Ratios of seconds, and the recall, of questions in turns."""
    features, ratios, common, seconds = index.features, [], [], []
    step = max(1, len(features) // questions)
    asked = [
        (features[name], _place(features[name].size, number)) for number, name in enumerate(features.names[::step])
    ]
    searched(index, *asked[0])
    for source, point in asked[:questions]:
        ours = []
        for _ in range(repeats):
            start = time.perf_counter()
            names = searched(index, source, point)
            ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        exact = brute_force(features, source, point)
        ratios.append((time.perf_counter() - start) / statistics.median(ours))
        seconds.append(statistics.median(ours))
        common.append(len(set(names) & set(exact)) / len(exact))
    return ratios, statistics.mean(common), statistics.median(seconds)


def _place(size, number):
    return size[1] * (0.3 + 0.1 * (number % 5)), size[0] * (0.3 + 0.1 * (number % 4))


def memory_ratio(index):
    state = index.vectors.state()
    return sum(value.nbytes for value in state.values()) / (4 * len(index.vectors) * index.features.dim)


def opened(asked, folder):
    """The index that is measured, and the seconds it took to make."""
    if asked.index:
        return search.open_index(asked.index), 0.0
    if asked.folders:
        maps, name = encoded(asked.folders, asked.images, asked.model), asked.model or "default"
    else:
        maps, name = made_up(asked.images, asked.channels, asked.grid), "made up"
    features = extraction.open(extraction.write_folder(Path(folder) / "features", maps, model=name, fingerprint=name))
    start = time.perf_counter()
    index = search.build_index(features, IndexSettings(kind=asked.kind))
    return index, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--grid", type=int, default=12)
    parser.add_argument("--kind", default="ivfpq")
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folders", "--photographs", nargs="*", help="of images to index")
    parser.add_argument("--index")
    parser.add_argument("--model")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        index, building = opened(asked, folder)
        ratios, recall, seconds = compared(index, asked.questions, asked.repeats)
        print(f"{len(index)} images, {len(index.vectors)} patches, {index.vectors.kind}, indexed in {building:.1f} s")
        print(f"a search takes {1e3 * seconds:.0f} ms, {torch.get_num_threads()} threads; recall@{TOP} {recall:.3f}")
        print(
            f"faster than brute force: median {statistics.median(ratios):.1f}× [{min(ratios):.1f}, {max(ratios):.1f}]"
        )
        result = {"speedup": round(statistics.median(ratios), 1), "memory_ratio": round(memory_ratio(index), 4)}
        print("RESULT", json.dumps({**result, "recall": round(recall, 4)}))


if __name__ == "__main__":
    main()
