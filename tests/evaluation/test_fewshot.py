"""Few-shot runs, by an encoder whose features are the colours of patches; numbers against naive loops."""

import json
import math

import pytest
import torch
from coloured import PATCH, SKELETON, Colours
from sklearn.metrics import average_precision_score

from geco.data import Pairs
from geco.errors import InputError
from geco.evaluation import fewshot, load_report, save_report
from geco.evaluation.fewshot.points import image_names
from geco.evaluation.settings import FewShotProtocol
from geco.types import Keypoints, View

SIDE = 40
COLOURS = torch.tensor([(255, 90, 0), (200, 150, 0), (0, 30, 255)], dtype=torch.uint8)
PROTOCOL = FewShotProtocol(references=(1, 2, 5), draws=2, targets=6, headline=5, resamples=20)


def animal(number: int) -> View:
    """Coloured patches on black at random places; noise enough that some are mistaken for others, some are absent."""
    generator = torch.Generator().manual_seed(number)
    pixels = torch.randint(0, 60, (3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    cells = torch.randperm((SIDE // PATCH) ** 2, generator=generator)[:3]
    row, column = cells // (SIDE // PATCH) * PATCH, cells % (SIDE // PATCH) * PATCH
    visible = torch.rand(3, generator=generator) > 0.3
    visible[number % 3] = True
    for k in visible.nonzero()[:, 0].tolist():
        colour = COLOURS[k].float() * (0.3 + 0.7 * torch.rand(1, generator=generator))
        colour = colour + 150 * torch.rand(3, generator=generator)
        y, x = int(row[k]), int(column[k])
        pixels[:, y : y + PATCH, x : x + PATCH] = colour.clamp(0, 255).to(torch.uint8)[:, None, None]
    xy = torch.stack([column, row], -1).float() + PATCH / 2
    return View(pixels, (SIDE, SIDE), Keypoints(xy, visible), name=f"animal {number}")


@pytest.fixture(scope="module")
def pairs():
    views = [animal(number) for number in range(26)]
    rows = [(i, i + 1) for i in range(0, 22, 2)] + [(22, 23), (24, 25)]
    kinds = ["cat"] * 11 + ["dog"] * 2  # dogs are too few for five references
    return Pairs(views, rows, kinds, [SKELETON] * len(rows))


@pytest.fixture(scope="module")
def finished(pairs):
    draws = fewshot.draw_references(pairs, PROTOCOL)
    predictions = fewshot.predict(Colours(), draws, PROTOCOL)
    return draws, predictions, fewshot.summarise(draws, predictions, PROTOCOL, label="colours")


def names(views):
    return [view.name for view in views]


def test_references_are_nested_and_never_targets(pairs):
    draws = fewshot.draw_references(pairs, PROTOCOL)
    assert [(draw.number, draw.category) for draw in draws] == [(0, "cat"), (0, "dog"), (1, "cat"), (1, "dog")]
    assert [draw.sizes(PROTOCOL) for draw in draws[:2]] == [(1, 2, 5), (1, 2)]
    for draw in draws:
        assert not set(names(draw.references)) & set(names(draw.targets))
    assert names(draws[0].references) != names(draws[2].references)
    again = fewshot.draw_references(pairs, PROTOCOL)
    assert [names(draw.references) for draw in again] == [names(draw.references) for draw in draws]
    with pytest.raises(InputError, match="no category has 40 animals with keypoints, 20 as references"):
        fewshot.draw_references(pairs, FewShotProtocol(references=(20,)))


def test_one_reference_votes_as_it_transfers_and_is_its_own_centroid(finished):
    draws, predictions, _ = finished
    near = []
    for draw, predicted in zip(draws, predictions, strict=True):
        votes, transfer, centroids = (predicted[method, 1] for method in ("votes", "transfer", "centroids"))
        assert torch.equal(votes.known, draw.references[0].points.visible.expand_as(votes.known))
        assert torch.equal(transfer.xy, centroids.xy)
        known = votes.known  # votes look at 8 places a patch, transfer at its 4 pixels
        assert (votes.score - transfer.score)[known].abs().max() < 0.03
        near += ((votes.xy - transfer.xy).norm(dim=-1) <= PATCH)[known].tolist()
    assert sum(near) > 0.8 * len(near)  # else two places are equally good


def naive(draws, predictions, method, size):
    """Keypoint by keypoint: hits, misses at the twin, scores of hidden and visible ones, what is wrong."""
    hits = total = confused = reached = 0
    scores, hidden, wrong, uncertainty = [], [], [], []
    for draw, predicted in zip(draws, predictions, strict=True):
        if (method, size) not in predicted:
            continue
        one = predicted[method, size]
        for t, view in enumerate(draw.targets):
            for k in range(3):
                if not one.known[t, k]:
                    continue
                truth, twin = view.points, SKELETON.twin[k]
                near = math.dist(one.xy[t, k].tolist(), truth.xy[k].tolist()) <= 0.1 * SIDE
                near_twin = math.dist(one.xy[t, k].tolist(), truth.xy[twin].tolist()) <= 0.1 * SIDE
                visible = bool(truth.visible[k])
                scores.append(float(one.score[t, k]))
                hidden.append(not visible)
                said = bool(one.visible[t, k])
                wrong.append(not (near and visible) if said else visible)
                uncertainty.append(float(one.uncertainty[t, k]))
                total += visible
                hits += visible and near
                if visible and twin != k and bool(truth.visible[twin]):
                    confused += near_twin and not near
                    reached += near or near_twin
    precision = average_precision_score(hidden, [-score for score in scores])
    return hits / total, confused / reached, precision, wrong, uncertainty


@pytest.mark.parametrize("method", ["votes", "transfer", "centroids"])
@pytest.mark.parametrize("size", [1, 5])
def test_the_report_counts_as_naive_loops_do(finished, method, size):
    draws, predictions, report = finished
    pck, confused, precision, wrong, _ = naive(draws, predictions, method, size)
    values = report.values
    case = "1 reference" if size == 1 else f"{size} references"
    assert values[f"{case}, {method} PCK@0.1"] == pytest.approx(pck)
    assert values[f"{case}, {method} confused"] == pytest.approx(confused)
    assert values[f"{case}, {method} hidden AP"] == pytest.approx(precision)
    assert 0 < confused < 1
    if method == "votes":
        assert values[f"{case}, votes wrong"] == pytest.approx(sum(wrong) / len(wrong))


def test_the_worst_fifth_is_that_of_a_list_in_order(finished):
    draws, predictions, report = finished
    *_, wrong, uncertainty = naive(draws, predictions, "votes", 5)
    found = 0.0
    for u, is_wrong in zip(uncertainty, wrong, strict=True):  # … in which equals come in any order
        before, equal = sum(v > u for v in uncertainty), sum(v == u for v in uncertainty)
        found += is_wrong * min(1, max(0, (0.2 * len(wrong) - before) / equal))
    expected = found / sum(wrong)
    assert report.values["5 references, votes errors found"] == pytest.approx(expected, abs=1e-6)
    assert sum(row["count"] for row in report.counts["reliability"]) == len(wrong)


def test_the_gain_is_of_the_same_points(finished):
    draws, predictions, report = finished
    assert report.values["1 reference, votes gain"] == pytest.approx(
        report.values["1 reference, votes PCK@0.1"] - report.values["1 reference, transfer PCK@0.1"]
    )
    first = {}
    for number, (draw, predicted) in enumerate(zip(draws, predictions, strict=True)):
        if ("votes", 5) in predicted:
            for t, view in enumerate(draw.targets):
                for k in (predicted["votes", 1].known[t] & view.points.visible).nonzero()[:, 0].tolist():
                    both = (predicted["transfer", 1].xy[t, k], predicted["votes", 5].xy[t, k])
                    first[number, t, k] = [float((xy - view.points.xy[k]).norm()) <= 4 for xy in both]
    gain = (sum(after for _, after in first.values()) - sum(before for before, _ in first.values())) / len(first)
    assert report.values["5 references, votes gain"] == pytest.approx(gain)


def test_a_stopped_run_is_resumed_and_counts_the_same(finished, pairs, tmp_path, monkeypatch):
    draws, _, report = finished
    encoder, written = Colours(), []

    def stop(what, done, total):
        if what == "label" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fewshot.run(encoder, pairs, PROTOCOL, folder=tmp_path, progress=stop)
    assert sorted(path.name for path in tmp_path.glob("draw-*")) == ["draw-0.json", "draw-1.json"]
    again = fewshot.run(
        encoder, pairs, PROTOCOL, folder=tmp_path, progress=lambda what, done, total: written.append((what, done))
    )
    assert [entry for entry in written if entry[0] == "label"] == [("label", 3), ("label", 4)]
    assert encoder.encoded == len({view.name for draw in draws for view in (*draw.references, *draw.targets)})
    assert again.values == pytest.approx(report.values, nan_ok=True)
    assert not (tmp_path / "features").exists()
    with pytest.raises(InputError, match="holds a run with another references"):
        fewshot.run(encoder, pairs, FewShotProtocol(references=(1, 5), draws=2, targets=6), folder=tmp_path)


def test_a_damaged_draw_is_named(pairs, tmp_path):
    protocol = FewShotProtocol(references=(1,), draws=1, targets=2)
    draws = fewshot.draw_references(pairs, protocol)
    fewshot.predict(Colours(), draws, protocol, folder=tmp_path)
    for damage in ("{}", '{"votes 1": 3}', '{"votes 1": {"xy": [[1]]}}', "[", ""):
        (tmp_path / "draw-0.json").write_text(damage)
        with pytest.raises(InputError, match=r"draw-0\.json"):
            fewshot.predict(Colours(), draws, protocol, folder=tmp_path)


def test_a_report_is_saved_with_its_charts_and_read_again(finished, tmp_path):
    draws, _, report = finished
    figures = fewshot.draw([report])
    assert set(figures) == {"pck", "confused", "hidden_ap", "reliability", "review"}
    save_report(report, tmp_path, figures)
    back = load_report(tmp_path)
    assert set(fewshot.draw([back, back])) == set(figures)
    assert json.loads((tmp_path / "report.json").read_text())["settings"]["images"] == len(image_names(draws))
    lines = figures["pck"].axes[0].get_lines()
    assert [list(line.get_xdata()) for line in lines] == [[0, 1, 2]] * 3
    assert [label.get_text() for label in figures["pck"].axes[0].get_xticklabels()] == ["1", "2", "5"]
    assert lines[0].get_ydata()[2] == pytest.approx(100 * report.values["5 references, votes PCK@0.1"])
