"""Part labels: against plain nearest-median, numpy and scikit-learn, on painted animals whose answer is known."""

import dataclasses
import math

import numpy as np
import painted
import pytest
import torch
from sklearn.metrics import jaccard_score

from geco.evaluation import parts
from geco.evaluation.metrics.parts import Confusion
from geco.evaluation.settings import PartsProtocol
from geco.extraction import FeatureStore
from geco.types import FeatureMap, Skeleton, View

SKELETON = painted.SKELETON


class PartViews:
    """Painted animals: every patch of a keypoint is a part, a frame of unlabelled foreground lies around it."""

    def __init__(self, count, seed, categories=("cat",)):
        self.views, self.categories = [], []
        for number, view in enumerate(painted.views(count, seed)):
            labels = torch.zeros(view.size, dtype=torch.long)
            for i, (x, y) in enumerate(view.keypoints.xy.tolist()):
                if view.keypoints.visible[i]:
                    labels[int(y) - 4 : int(y) + 4, int(x) - 4 : int(x) + 4] = i + 1
            mask = labels > 0
            mask[:8] = True  # foreground without a part: not counted
            category = categories[number % len(categories)]
            self.categories.append(category)
            self.views.append(View(view.image, view.size, mask=mask, parts=labels, name=view.name))

    @property
    def skeletons(self):
        tables = {"cat": SKELETON, "pot": Skeleton(("a", "b", "c", "d", "e"), tuple(range(5)), None)}
        return {category: tables[category] for category in set(self.categories)}

    @property
    def listed(self):
        return len(self.views)

    def __iter__(self):
        return iter(self.views)

    def __getitem__(self, index):
        return self.views[index]

    def __len__(self):
        return len(self.views)


TRAIN, TEST = PartViews(8, seed=1), PartViews(5, seed=2)


@pytest.mark.parametrize("distance", ["euclid", "cosine"])
@pytest.mark.parametrize("components", [None, 3])
def test_the_painted_parts_are_all_found(distance, components):
    protocol = PartsProtocol(distance=distance, components=components)
    report = parts.run(painted.Painter(), TRAIN, TEST, protocol)
    assert report.values == dict.fromkeys(parts.COLUMNS, 1.0)


def test_an_encoder_blind_to_sides_confuses_twins_and_nothing_else():
    report = parts.run(painted.Painter(blind=True), TRAIN, TEST)
    confusion = torch.tensor(report.counts["cat"]["confusion"])
    twin = report.counts["cat"]["twin"]
    for i in range(6):
        for j in range(6):
            if j not in (i, twin[i]):
                assert confusion[i, j] == 0
    assert confusion[0, 0] > 0
    assert report.measure("Acc geo").value < report.measure("Acc").value < 1
    names = ["background", *SKELETON.names]
    assert report.counts["cat"]["names"] == names
    assert set(parts.draw(report)) == {"confusion_cat"}


def test_numbers_equal_scikit_learn_on_random_features():
    """The whole way again in numpy: medians, nearest centroid, intersection over union."""
    generator = torch.Generator().manual_seed(0)
    maps = {
        view.name + str(seed): torch.randn(6, 8, 8, generator=generator)
        for seed, data in ((1, TRAIN), (2, TEST))
        for view in data
    }

    class Random(painted.Painter):
        def _extract(self, picture):
            return FeatureMap(maps[self.names.pop(0)], tuple(picture.shape[-2:]))

    model = Random()
    model.names = [view.name + "1" for view in TRAIN] + [view.name + "2" for view in TEST]
    report = parts.run(model, TRAIN, TEST, PartsProtocol(background=False))

    def patches(view, seed):
        values = maps[view.name + str(seed)].numpy().reshape(6, -1).T
        height, width = view.size
        rows = ((np.arange(8) + 0.5) * height / 8).astype(int)
        columns = ((np.arange(8) + 0.5) * width / 8).astype(int)
        return values / np.linalg.norm(values, axis=1, keepdims=True), view.parts.numpy()[rows][:, columns].ravel()

    known = [patches(view, 1) for view in TRAIN]
    x, y = np.concatenate([k[0] for k in known]), np.concatenate([k[1] for k in known])
    middle = {part: np.median(x[y == part], axis=0) for part in range(1, 6)}
    new = [patches(view, 2) for view in TEST]
    x, y = np.concatenate([k[0] for k in new]), np.concatenate([k[1] for k in new])
    x, y = x[y > 0], y[y > 0]
    away = np.stack([np.linalg.norm(x - middle[part], axis=1) for part in range(1, 6)])
    predicted = 1 + away.argmin(0)
    assert report.measure("Acc").value == pytest.approx((predicted == y).mean())
    assert report.measure("mIoU").value == pytest.approx(jaccard_score(y, predicted, average="macro"))


def test_the_pixel_protocol_finds_the_painted_parts_too():
    report = parts.run(painted.Painter(), TRAIN, TEST, PartsProtocol(unit="pixel", pixels=20))
    assert report.measure("Acc").value > 0.9
    assert report.measure("mIoU geo").value > 0.8


def test_a_category_without_twins_is_left_out_of_the_geometric_mean():
    both = ("cat", "pot")
    report = parts.run(painted.Painter(blind=True), PartViews(12, 1, both), PartViews(8, 2, both))
    rows = {row[0]: row[1:] for row in report.tables[0].rows}
    assert math.isnan(rows["pot"][2])
    assert rows["mean"][2] == rows["cat"][2]
    assert rows["mean"][0] == pytest.approx((rows["cat"][0] + rows["pot"][0]) / 2)
    assert set(parts.draw(report)) == {"confusion_cat"}


def test_background_counts_only_if_asked():
    with_it = parts.run(painted.Painter(), TRAIN, TEST).counts["cat"]["confusion"]
    without = parts.run(painted.Painter(), TRAIN, TEST, PartsProtocol(background=False)).counts["cat"]["confusion"]
    assert with_it[0][0] > 0
    assert without[0][0] == 0
    assert with_it[1:] == without[1:]
    confusion = Confusion(6)
    confusion.matrix = torch.tensor(with_it)
    assert parts.scores(confusion, SKELETON, PartsProtocol()) == (1, 1, 1, 1)


def test_a_run_that_is_stopped_continues_with_the_next_category(tmp_path):
    both = ("cat", "pot")
    train, test = PartViews(8, 1, both), PartViews(6, 2, both)

    class Stopped(painted.Painter):
        def _extract(self, picture):
            if self.seen == 10:  # four cats to learn from and three to label; then pots
                raise KeyboardInterrupt
            return super()._extract(picture)

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        parts.run(Stopped(), train, test, PartsProtocol(batch_size=1), folder=folder)
    painter, told = painted.Painter(), []
    resumed = parts.run(painter, train, test, folder=folder, progress=lambda *how: told.append(how))
    assert painter.seen == 7, "pots alone"
    assert told == [("label", done, 6) for done in (4, 5, 6)]
    assert resumed.counts == parts.run(painted.Painter(), train, test).counts
    with pytest.raises(ValueError, match="holds a run with another data"):
        parts.run(painter, train, PartViews(6, 3, both), folder=folder)
    for damage in ("[]", '{"category": "cow", "confusion": [[1]]}', '{"category": "cat", "confusion": [[1.5]]}'):
        (folder / "category-0.json").write_text(damage)
        with pytest.raises(ValueError, match=r"category-0\.json"):
            parts.run(painter, train, test, folder=folder)


def test_what_a_store_holds_is_not_encoded_again(tmp_path):
    painter = painted.Painter()
    with FeatureStore(painter, memory=10**9, folder=tmp_path) as store:
        store.ensure(TEST)
        report = parts.run(painter, TRAIN, TEST, store=store)
    assert painter.seen == len(TRAIN) + len(TEST)
    assert report.counts == parts.run(painted.Painter(), TRAIN, TEST).counts


def test_part_maps_are_drawn():
    drawn = parts.pictures(painted.Painter(), TRAIN, TEST)
    assert set(drawn) == {"parts_cat"}
    assert len(drawn["parts_cat"].axes[0].get_legend().get_texts()) > 0


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="no category has both train and test images"):
        parts.run(painted.Painter(), PartViews(2, 1, ("cat",)), PartViews(2, 1, ("pot",)))
    bare = PartViews(2, 1)
    bare.views = [dataclasses.replace(view, parts=None) for view in bare.views]
    with pytest.raises(ValueError, match="animal 0 has no part map; expected a view annotated with parts"):
        parts.run(painted.Painter(), bare, TEST)
    with pytest.raises(ValueError, match="unit must be patch or pixel, got 'pixels'"):
        PartsProtocol(unit="pixels")
