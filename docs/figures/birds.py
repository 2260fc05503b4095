"""Counts which parts of birds models find, for docs/model-geco-s.md, from finished runs on CUB side by side:

    python docs/figures/birds.py data/CUB_200_2011 runs/cub-whole/focus-small runs/cub-whole/geco-s

The folders must have been made with `geco evaluate keypoints cub … --set n_pairs=4000`, on whole images.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from geco import data
from geco.evaluation import keypoints as evaluation

RADIUS = 0.1  # of the target's longer side


def part(name: str) -> str:
    """The name of a part without its side."""
    return name.removeprefix("left ").removeprefix("right ")


def count(
    pairs: data.PairDataset, predictions: Mapping[int, evaluation.Prediction]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """For each part, the queries with a visible match and the hits; and where the misses went."""
    queries, hits, misses = Counter[str](), Counter[str](), Counter[str]()
    for index, pair in enumerate(pairs):
        radius, twin = RADIUS * max(pair.target.size), pair.table.twin
        target, xy = pair.target.points, predictions[index].xy[0]
        away = torch.cdist(xy.double(), target.xy.double()).masked_fill(~target.visible, torch.inf)
        left, top, right, bottom = pair.target.box.tolist()
        for row, keypoint in enumerate(pair.source.points.visible.nonzero()[:, 0].tolist()):
            if not target.visible[keypoint]:
                continue
            name = part(pair.table.names[keypoint])
            queries[name] += 1
            if away[row, keypoint] <= radius:
                hits[name] += 1
            elif not (left <= xy[row, 0] <= right and top <= xy[row, 1] <= bottom):
                misses["outside the box"] += 1
            elif away[row, twin[keypoint]] <= radius:
                misses["at the twin"] += 1
            else:
                misses["elsewhere on the bird"] += 1
    return queries, hits, misses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    pairs = data.load("cub", given.root, "test", ("n_pairs=4000",))
    counted = [count(pairs, evaluation.read_predictions(folder, pairs)) for folder in given.folders]
    print(f"| part | queries | {' | '.join(folder.name for folder in given.folders)} |")
    print("|---|---|" + "---|" * len(counted))
    for name, number in sorted(counted[0][0].items(), key=lambda entry: -counted[-1][1][entry[0]] / entry[1]):
        shares = " | ".join(f"{100 * hits[name] / number:.1f}" for _, hits, _ in counted)
        print(f"| {name} | {number} | {shares} |")
    for folder, (_, _, misses) in zip(given.folders, counted, strict=True):
        print(f"{folder.name}: {misses.total()} missed,", ", ".join(f"{n} {w}" for w, n in misses.items()))
