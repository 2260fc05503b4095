"""Counts where a model fails on Animal-Pose, for docs/model-geco-s.md, from a finished `geco evaluate keypoints`:

    python docs/figures/failures.py data/Animal-Pose runs/geco-s-val --split val --limit 250

The folder must have been made with `--set images=listed --set crop=square` and the same split and limit.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from geco import data
from geco.evaluation import keypoints as evaluation
from geco.types import Keypoints, Pair

RADIUS = 0.1  # of the target's longer side
TILTED, SMALL = 30.0, 80.0  # degrees of the line through the eyes; pixels of the longer side of a box
JOINTS = ("eye", "ear", "nose", "throat", "withers", "tail", "elbow", "knee", "paw")
LEGS = ("elbow", "knee", "paw")


def tilt(points: Keypoints, names: tuple[str, ...]) -> float | None:
    """Degrees between the line through both eyes and the horizontal, 0 to 90; None if one is hidden."""
    left, right = names.index("left_eye"), names.index("right_eye")
    if not points.visible[[left, right]].all():
        return None
    across, down = (points.xy[left] - points.xy[right]).abs().tolist()
    return float(torch.rad2deg(torch.atan2(torch.tensor(down), torch.tensor(across))))


def heading(points: Keypoints, names: tuple[str, ...]) -> int | None:
    """Which way the animal walks in the picture, −1 or 1; None if nose or tail base is hidden."""
    nose, tail = names.index("nose"), names.index("tailbase")
    if not points.visible[[nose, tail]].all():
        return None
    return 1 if points.xy[nose, 0] > points.xy[tail, 0] else -1


def conditions(pair: Pair, crowded: set[Any]) -> Iterator[str]:
    """The conditions that a pair meets."""
    names = pair.table.names
    views = (pair.source, pair.target)
    tilts = [tilt(view.points, names) for view in views]
    if None not in tilts:
        yield "both eyes shown, a head tilted" if max(tilts) > TILTED else "both eyes shown, heads upright"
    headings = [heading(view.points, names) for view in views]
    if None not in headings:
        yield "walking the same way" if headings[0] == headings[1] else "walking opposite ways"
    small = any(float((view.box[2:] - view.box[:2]).max()) < SMALL for view in views)
    yield f"an animal below {SMALL:.0f} px" if small else f"both animals above {SMALL:.0f} px"
    yield "several animals in the target" if pair.target.image in crowded else "one animal in the target"


def joint(name: str) -> str:
    """The kind of a keypoint, left or right, front or back."""
    return next((kind for kind in JOINTS if kind in name), name)


def other_legs(names: tuple[str, ...], row: int, twin: int) -> list[int]:
    """The same joint of the legs at the other end of the animal."""
    return [i for i, name in enumerate(names) if joint(name) == joint(names[row]) and i not in (row, twin)]


class Tally:
    """Counts of queries with a visible match and of hits; of those with a visible twin, also how many went to it."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}

    def add(self, label: str, **what: bool) -> None:
        """Count one query."""
        self.counts.setdefault(label, Counter()).update({name: int(value) for name, value in what.items()})

    def show(self, title: str) -> None:
        """Print a table, in Markdown."""
        print(f"\n| {title} | queries | PCK@{RADIUS:g} | confused | n |\n|---|---|---|---|---|")
        for label, c in self.counts.items():
            decided = c["hit_11"] + c["to_twin"]
            confused = f"{100 * c['to_twin'] / decided:.1f}" if decided else "–"
            print(f"| {label} | {c['query']} | {100 * c['hit'] / max(1, c['query']):.1f} | {confused} | {decided} |")


def count(
    pairs: data.PairDataset, predictions: Mapping[int, evaluation.Prediction]
) -> tuple[Tally, Tally, Counter[str]]:
    """How often which joints are found, under which conditions, and where missed joints of legs went."""
    animals_in = Counter(view.image for view in pairs.views)
    crowded = {image for image, animals in animals_in.items() if animals > 1}
    by_joint, by_condition, ends = Tally(), Tally(), Counter[str]()
    for index, pair in enumerate(pairs):
        radius = RADIUS * max(pair.target.size)
        names, twin = pair.table.names, pair.table.twin
        source, target, xy = pair.source.points, pair.target.points, predictions[index].xy[0]
        outcome = evaluation.evaluate(xy, predictions[index].score[0], source=source, target=target, twin=twin)
        labels = list(conditions(pair, crowded))
        for row, keypoint in enumerate(source.visible.nonzero()[:, 0].tolist()):
            if not target.visible[keypoint]:
                continue
            kind = joint(names[keypoint])
            hit, both = bool(outcome.to_match[row] <= radius), int(outcome.case[row]) == 0
            to_twin = both and not hit and bool(outcome.to_twin[row] <= radius)
            for tally, label in ((by_joint, kind), *((by_condition, label) for label in labels)):
                tally.add(label, query=True, hit=hit, hit_11=hit and both, to_twin=to_twin)
            if kind in LEGS and not hit:
                others = other_legs(names, keypoint, twin[keypoint])
                elsewhere = not to_twin and _near(xy[row], target, others, radius)
                ends.update({"missed": 1, "to twin": int(to_twin), "to the other end": int(elsewhere)})
    return by_joint, by_condition, ends


def _near(xy: Tensor, points: Keypoints, rows: list[int], radius: float) -> bool:
    away = torch.linalg.vector_norm(points.xy[rows].double() - xy, dim=-1)
    return bool((points.visible[rows] & (away <= radius)).any())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    options = ("images=listed", "crop=square")
    pairs = data.load("animalpose", given.root, given.split, options, limit=given.limit)
    by_joint, by_condition, ends = count(pairs, evaluation.read_predictions(given.folder, pairs))
    by_joint.show("joint")
    by_condition.show("pairs")
    print("\njoints of legs:", ", ".join(f"{number} {what}" for what, number in ends.items()))
