"""The audit: counts by hand, cases as the metrics have them, published totals, faults."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from dataset_trees import write_image
from hypothesis import given, settings
from hypothesis import strategies as st

from geco import data
from geco.data import audit
from geco.evaluation.metrics import keypoints as metrics
from geco.types import Keypoints, Pair, Skeleton, View

EYES = Skeleton(("left eye", "right eye", "tail"), (1, 0, 2), (1, 0, 2))


tables = st.lists(st.sampled_from([(0, 1), (2, 3), (4, 5)]), unique=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=6, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6), tables)
def test_cases_are_those_of_the_metrics(source, target, pairs):
    twin = list(range(6))
    for i, j in pairs:
        twin[i], twin[j] = j, i
    blank = torch.zeros(3, 8, 8, dtype=torch.uint8)
    views = [View(blank, (8, 8), Keypoints(torch.rand(6, 2), torch.tensor(v))) for v in (source, target)]
    pair = Pair(*views, Skeleton(tuple("abcdef"), tuple(twin), None))
    queries = sum(source)
    outcome = metrics.evaluate(
        torch.zeros(queries, 2),
        torch.zeros(queries),
        source=views[0].keypoints,
        target=views[1].keypoints,
        twin=tuple(twin),
    )
    expected = [int((outcome.case == i).sum()) for i in range(5)]
    assert audit.query_cases(pair) == dict(zip(metrics.CASES, expected, strict=True))


def view(number, visible, folder=Path("nowhere")):
    points = Keypoints(torch.tensor([[1.0, 1.0], [2.0, 2.0], [99.0, 3.0]]), torch.tensor(visible))
    return View(folder / f"{number}.png", (8, 9), points, torch.tensor([0.0, 0.0, 8.0, 8.0]), name=str(number))


def entry(load, **changes):
    """A format that `load` reads."""
    return replace(data.find("coco"), name="geckos", splits=("train",), load=load, options={}, **changes)


def pairs_of(views, rows):
    return data.Pairs(views, rows, ["gecko"] * len(rows), [EYES] * len(rows))


def test_instances_and_images_are_counted_once(tmp_path):
    first, second = view(0, (True, True, True), tmp_path), view(1, (True, False, False), tmp_path)
    beside = replace(first, box=torch.tensor([1.0, 1.0, 4.0, 4.0]))
    for name in ("0", "1"):
        write_image(tmp_path / f"{name}.png", (8, 9))

    def load(root, split, *, faults=None):
        return pairs_of([first, second, beside], [(0, 1), (1, 2), (0, 1)])

    count, (pairs,) = audit.count_split(entry(load), tmp_path, "train")
    assert len(pairs) == count.pairs == 3
    assert (count.photographs, count.instances, count.keypoints, count.outside) == (2, 3, 7, 2)
    assert count.keypoints_of == {"gecko": 7}
    assert count.photographs_of == {"gecko": {str(tmp_path / "0.png"), str(tmp_path / "1.png")}}
    # Twice from whole to one eye: that eye 10, the other 01, the tail 00; once back: that eye 11.
    assert count.cases == {"11": 1, "10": 2, "1x": 0, "01": 2, "00": 2}
    assert count.faults == []


def test_views_made_anew_for_every_pair_are_counted_as_those_that_are_not(tmp_path):
    class Fresh:
        """A dataset that keeps no view."""

        categories = ("gecko",) * 40

        def __len__(self):
            return 40

        def __iter__(self):
            return (self[i] for i in range(40))

        def __getitem__(self, index):
            patterns = [(True, True, True), (True, False, False), (False, True, True), (False, False, True)]
            ends = [view(k % 4, patterns[k % 4]) for k in (index, index // 4 + index + 1)]
            return Pair(*ends, EYES, "gecko")

        @property
        def views(self):
            return [view(k, self[k].source.points.visible.tolist()) for k in range(4)]

    fresh = Fresh()
    steady = [fresh[i] for i in range(40)]
    expected = audit.SplitCount("train")
    for pair in steady:
        expected.cases.update(audit.query_cases(pair))
    count, _ = audit.count_split(entry(lambda root, split, *, faults=None: fresh), tmp_path, "train", decode=False)
    assert count.cases == expected.cases
    assert count.keypoints_of == {"gecko": 3 + 1 + 2 + 1}


def test_parts_are_counted_in_one_pass(tmp_path):
    class Parts(list):
        categories, skeletons, listed = ("cat", "dog"), {"cat": EYES, "dog": EYES}, 5

    reads = []

    def load(root, split, *, faults=None):
        return Parts(View(Path(f"{i}.jpg"), (8, 8), name=str(i)) for i in range(2))

    count, _ = audit.count_split(
        entry(load), tmp_path, "train", progress=lambda what, done, total: reads.append((what, done, total))
    )
    assert (count.listed, count.photographs, count.pairs) == (5, 2, 0)
    assert count.photographs_of == {"cat": {"0"}, "dog": {"1"}}
    assert reads == [("geckos train", 1, 2), ("geckos train", 2, 2)]
    assert len(count.faults) == 2, "neither file exists"


def test_variants_are_counted_together_unless_an_option_chooses(tmp_path):
    write_image(tmp_path / "0.png", (8, 9))
    write_image(tmp_path / "1.png", (8, 9))
    views = [view(i, (True, True, True), tmp_path) for i in range(2)]

    def load(root, split, *, protocol="near", faults=None):
        if protocol == "far":
            raise FileNotFoundError("far.txt: no such file")
        return pairs_of(views, [(0, 1)] if protocol == "near" else [(0, 1), (1, 0)])

    def variants(split):
        return [{"protocol": "near"}, {"protocol": "middle"}, {"protocol": "far"}]

    geckos = replace(entry(load, variants=variants), options={"protocol": str})
    count, datasets = audit.count_split(geckos, tmp_path, "train")
    assert (count.pairs, count.instances, len(datasets)) == (3, 2, 2)
    assert count.faults == ["far.txt: no such file"]
    count, datasets = audit.count_split(geckos, tmp_path, "train", ["protocol=middle"])
    assert (count.pairs, len(datasets), count.faults) == (2, 1, [])


def test_published_totals_are_compared(tmp_path):
    geckos = entry(
        lambda root, split, *, faults=None: pairs_of([], []),
        published={"train": {"pairs": 4, "photographs": 3}, "all": {"listed": 9}, "test": {"pairs": 7}},
        published_pairs={"train": {"gecko": 2, "newt": 1}},
    )
    count = audit.SplitCount("train", photographs=4, pairs=4, listed=3)
    count.pairs_of.update({"gecko": 4})
    assert audit.remarks(geckos, [count]) == [
        "train: 4 of 4 published pairs: complete",
        "train: 4 of 3 published images: more than published",
        "all: 3 of 9 published images of the list: a subset (33.3%)",
        "train: no pairs of newt",
    ]
    with pytest.raises(FileNotFoundError, match="expected the root of geckos"):
        audit.count_split(geckos, tmp_path / "nowhere", "train")
