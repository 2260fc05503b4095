"""Counts how often front and back are swapped on vehicles and birds that head the other way, for docs/results.md:

    python docs/figures/headings.py data/PascalVOC-keypoints runs/val/pascal --limit 900

The folder is that of a `geco evaluate keypoints` with `--split val --set crop=square --set margin=0.3 --set min_box=48`
and the same limit.
"""

import argparse
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from geco import data
from geco.evaluation import keypoints as evaluation
from geco.types import View

RADIUS = 0.1  # of the target's longer side
LEAST = 0.2  # of the box's width that front and back are apart in the picture, for it to have a heading
FRONT = {
    "aeroplane": "Nose|Front",
    "bicycle": "^F_|Handle",
    "bird": "Beak|Eye",
    "boat": "Front",
    "bus": "_F_",
    "car": "_F_|HeadLight",
    "motorbike": "^F_|Handle|HeadLight",
    "train": "Front",
}
BACK = {
    "aeroplane": "Rudder|Stabilizer",
    "bicycle": "^B_",
    "bird": "Tail",
    "boat": "Back",
    "bus": "_B_",
    "car": "_B_|TailLight",
    "motorbike": "^B_|TailLight|Exhaust",
    "train": "Back",
}


def rows(names: tuple[str, ...], pattern: str) -> list[int]:
    """Keypoints whose name matches."""
    return [row for row, name in enumerate(names) if re.search(pattern, name)]


def heading(view: View, front: list[int], back: list[int]) -> int | None:
    """Which way the object heads in the picture, −1 or 1; None if that cannot be told."""
    ends = [view.points.xy[[row for row in end if view.points.visible[row]], 0] for end in (front, back)]
    if not all(len(end) for end in ends):
        return None
    ahead = float(ends[0].mean() - ends[1].mean())
    return None if abs(ahead) < LEAST * float(view.box[2] - view.box[0]) else (1 if ahead > 0 else -1)


def count(pairs: data.PairDataset, predictions: Mapping[int, evaluation.Prediction]) -> dict[str, list[Counter[str]]]:
    """Of each category, and of all: queries, hits and swaps, of pairs that head the same way and of the others."""
    counts: dict[str, list[Counter[str]]] = {}
    for index, pair in enumerate(pairs):
        if pair.category not in FRONT:
            continue
        front, back = (rows(pair.table.names, ends[pair.category]) for ends in (FRONT, BACK))
        ways = [heading(view, front, back) for view in (pair.source, pair.target)]
        if None in ways:
            continue
        radius, target = RADIUS * max(pair.target.size), pair.target.points
        away = torch.cdist(predictions[index].xy[0].double(), target.xy.double())
        near = (away <= radius) & target.visible
        for row, keypoint in enumerate(pair.source.points.visible.nonzero()[:, 0].tolist()):
            if not target.visible[keypoint]:
                continue
            hit = bool(near[row, keypoint])
            other_end = back if keypoint in front else front if keypoint in back else []
            swapped = not hit and bool(near[row, other_end].any())
            for name in (pair.category, "all"):
                counted = counts.setdefault(name, [Counter(), Counter()])[ways[0] != ways[1]]
                counted.update(queries=1, hits=int(hit), swapped=int(swapped))
    return counts


def cells(counted: Counter[str]) -> str:
    """Queries, and in % of them hits and swaps."""
    queries = max(1, counted["queries"])
    return f"{counted['queries']:,} | {100 * counted['hits'] / queries:.1f} | {100 * counted['swapped'] / queries:.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    options = ("crop=square", "margin=0.3", "min_box=48")
    pairs = data.load("pascal_keypoints", given.root, "val", options, limit=given.limit)
    counts = count(pairs, evaluation.read_predictions(given.folder, pairs))
    print("| category | same way: queries | PCK@0.1 | swapped | other way: queries | PCK@0.1 | swapped |")
    print("|---|---|---|---|---|---|---|")
    for name in (*sorted(set(counts) - {"all"}), "all"):
        print(f"| {name} | {' | '.join(cells(counted) for counted in counts[name])} |")
