"""Keypoint transfer on painted animals: exact counts, tables, and every image encoded once."""

import dataclasses
import math
import os
from pathlib import Path

import painted
import pytest
import torch
from torch.nn import functional

from geco import viz
from geco.evaluation import glossary, keypoints, rendering
from geco.evaluation.settings import PROTOCOLS, KeypointSettings, Protocol, protocols_named
from geco.system import Processes
from geco.types import Keypoints, Skeleton

QUICK = KeypointSettings(resamples=50, batch_size=3, radii=(0.05, 0.1))
ALL = tuple(PROTOCOLS.values())


def upsampled_argmax(source, target, points):
    """The definition: upsample all channels in double precision, normalise, take the best pixel."""
    height, width = target.size
    big = functional.interpolate(target.values.double()[None], size=(height, width), mode="bilinear")[0]
    big = functional.normalize(big, dim=0)
    grid = 2 * points.double() / torch.tensor([source.size[1], source.size[0]]) - 1
    read = functional.grid_sample(
        source.values.double()[None], grid[None, None], align_corners=False, padding_mode="border"
    )
    query = functional.normalize(read[0, :, 0], dim=0)
    index = torch.einsum("ck,chw->khw", query, big).flatten(1).argmax(-1)
    return torch.stack([index % width + 0.5, index // width + 0.5], -1)


def naive_counts(model, pairs, alpha):
    counts = dict.fromkeys(["11", "10", "1x", "01", "00", "hat", "underline", "overline", "01 twin"], 0)
    for pair in pairs:
        maps = model.extract_stream([pair.source.image, pair.target.image])
        places = upsampled_argmax(*maps, pair.source.keypoints.xy)
        truth, radius = pair.target.keypoints, alpha * max(pair.target.size)
        for i, j in enumerate(pair.skeleton.twin):
            if not pair.source.keypoints.visible[i]:
                continue
            near = [bool(truth.visible[x]) and math.dist(places[i], truth.xy[x]) <= radius for x in (i, j)]
            seen = [bool(truth.visible[x]) for x in (i, j)]
            case = f"{int(seen[0])}{int(seen[1])}" if i != j else ("1x" if seen[0] else "00")
            counts[case] += 1
            counts["hat"] += near[0]
            counts["underline"] += case == "11" and near[0] and not near[1]
            counts["overline"] += case == "11" and near[1] and not near[0]
            counts["01 twin"] += case == "01" and near[1]
    return counts


@pytest.mark.parametrize("blind", [False, True])
def test_counts_equal_the_definition(blind):
    pairs = painted.pairs(24)
    model = painted.Painter(blind)
    report = keypoints.run(model, pairs, settings=QUICK)
    counted = report.counts["geco"]
    at = counted["alphas"].index(0.1)
    total = counted["all"]
    wanted = naive_counts(model, pairs, 0.1)
    assert total["n"] == {case: wanted[case] for case in ("11", "10", "1x", "01", "00")}
    assert sum(line[at] for line in total["hat"].values()) == wanted["hat"]
    assert total["underline_11"][at] == wanted["underline"]
    assert total["overline_11"][at] == wanted["overline"]
    assert total["overline_01"][at] == wanted["01 twin"]
    assert all(value > 0 for value in total["n"].values()), "the data must contain every case"
    if blind:
        assert wanted["overline"] > 0
        assert wanted["01 twin"] == wanted["01"] > 0


def test_perfect_features_are_perfect_and_notice_what_is_hidden():
    report = keypoints.run(painted.Painter(), painted.pairs(), ALL, settings=QUICK)
    for name in PROTOCOLS:
        pck = report.measure("PCK", name, 0.1)
        assert (pck.value, pck.low, pck.high) == (1, 1, 1)
        assert report.measure("11 to twin", name).value == 0
        assert report.measure("hidden auc", name).value == 1
    blind = keypoints.run(painted.Painter(blind=True), painted.pairs(), settings=QUICK)
    assert blind.measure("PCK", radius=0.1).value < 1
    assert blind.measure("01 to twin").value == 1
    assert blind.measure("hidden auc").value < 1


def test_every_image_is_encoded_once_even_if_memory_holds_one(tmp_path):
    pairs = painted.pairs(40)
    used = {view.name for pair in pairs for view in (pair.source, pair.target)}
    plain = keypoints.run(painted.Painter(), pairs, settings=QUICK)
    for memory, cache in ((0, None), (0, tmp_path / "cache"), (1 << 30, None)):
        model = painted.Painter()
        settings = dataclasses.replace(QUICK, memory=memory)
        report = keypoints.run(model, pairs, ALL, settings=settings, cache=cache)
        assert model.seen == len(used)
        assert report.counts["geco"] == plain.counts["geco"]
    again = painted.Painter()
    keypoints.run(again, pairs, settings=QUICK, cache=tmp_path / "cache")
    assert again.seen == 0
    other = painted.Painter(blind=True)
    keypoints.run(other, pairs, settings=QUICK, cache=tmp_path / "cache")
    assert other.seen == len(used)  # the cache belongs to the model that filled it


def test_protocols_do_not_influence_each_other():
    pairs, model = painted.pairs(), painted.Painter(blind=True)
    together = keypoints.run(model, pairs, ALL, settings=QUICK)
    for protocol in ALL:
        alone = keypoints.run(model, pairs, [protocol], settings=QUICK)
        assert together.counts[protocol.name] == alone.counts[protocol.name]
        assert together.samples[protocol.name] == alone.samples[protocol.name]
        for measure in alone.measures:
            same = together.measure(measure.metric, protocol.name, measure.radius)
            # The sums are taken in another order.
            assert same.value == pytest.approx(measure.value, rel=1e-12, nan_ok=True)


def test_tables_show_definitions_categories_and_the_sweep():
    pairs = painted.pairs()
    report = keypoints.run(painted.Painter(blind=True), pairs, ALL, settings=QUICK, label="stub", data="zoo")
    tables = {table.name: table for table in report.tables}
    of_protocols = [f"{kind}-{name}" for name in PROTOCOLS for kind in ("pck", "pgck")]
    assert list(tables) == ["headline", *of_protocols, "imbalance", "hidden", "radii"]
    assert tables["headline"].columns == ("", "geco", "geco-apk", "bbox-image")
    assert tables["pck-geco"].columns == ("category", "pairs", "points", "@0.01", "@0.05", "@0.1", "@0.15")
    assert tables["radii"].columns[:3] == ("α", "geco PCK", "geco U-TP")
    assert PROTOCOLS["bbox-image"].definition in tables["pck-bbox-image"].note
    assert [row[0] for row in tables["pck-geco"].rows] == ["cat", "dog", "all"]
    assert [row[0] for row in tables["radii"].rows] == ["0.05", "0.1"]
    whole = tables["pck-geco"].rows[-1]
    assert whole[1] == len(pairs)
    assert whole[-2].value == pytest.approx(100 * report.measure("PCK", "geco", 0.1).value)
    assert whole[-2].low <= whole[-2].value <= whole[-2].high
    headline = {
        row[0]: dict(zip(tables["headline"].columns[1:], row[1:], strict=True)) for row in tables["headline"].rows
    }
    twins = dict(zip(tables["pgck-geco"].columns, tables["pgck-geco"].rows[-1], strict=True))
    for name in ("11 correct", "11 clear", "11 to twin", "01 to twin"):
        estimate = headline[name]["geco"]
        assert estimate.value == pytest.approx(twins[name])
        assert estimate.low <= estimate.value <= estimate.high
    confused = headline["11 confused"]["geco"].value
    assert confused == pytest.approx(100 * twins["11 to twin"] / (twins["11 correct"] + twins["11 to twin"]))
    assert headline["hidden ap"]["geco"].value == pytest.approx(tables["hidden"].rows[0][2])
    shares = tables["imbalance"].rows[-1][2:5]
    assert sum(shares) == pytest.approx(100)
    per_image = [
        n / d
        for n, d in zip(
            [row[2] for row in report.samples["geco"]["numerator"]],
            [row[2] for row in report.samples["geco"]["denominator"]],
            strict=True,
        )
        if d
    ]
    same = Protocol("by-image", "", average="image")
    by_image = keypoints.run(painted.Painter(blind=True), pairs, [same], settings=QUICK)
    assert by_image.measure("PCK", radius=0.1).value == pytest.approx(sum(per_image) / len(per_image))


def test_an_empty_category_is_a_dash():
    pairs = painted.pairs(6)
    hidden = Keypoints(torch.zeros(5, 2), torch.zeros(5, dtype=torch.bool))
    unseen = dataclasses.replace(pairs[0].target, keypoints=hidden)
    pairs.append(dataclasses.replace(pairs[0], target=unseen, category="ant"))
    pairs.append(dataclasses.replace(pairs[0], source=unseen, category="bee"))
    report = keypoints.run(painted.Painter(), pairs, settings=QUICK)
    tables = {table.name: table for table in report.tables}
    for row in tables["pck-geco"].rows[:2]:
        assert row[0] in ("ant", "bee")
        assert row[2] == 0
        assert all(math.isnan(cell.value) for cell in row[3:])
    assert all(math.isnan(cell) for cell in tables["pgck-geco"].rows[0][1:])


def test_progress_is_told():
    told = []
    pairs = painted.pairs(10)
    keypoints.run(painted.Painter(), pairs, settings=QUICK, progress=lambda *news: told.append(news))
    assert told[-1] == ("score", 10, 10)
    encoded = [done for what, done, _ in told if what == "encode"]
    assert encoded == sorted(encoded)
    assert encoded[-1] == len({view.name for pair in pairs for view in (pair.source, pair.target)})


def test_mistakes_are_explained(tmp_path):
    pairs, model = painted.pairs(4), painted.Painter()
    with pytest.raises(ValueError, match="nothing to evaluate: 0 pairs under 1 protocols"):
        keypoints.run(model, [])
    boxless = dataclasses.replace(pairs[0], target=dataclasses.replace(pairs[0].target, box=None))
    with pytest.raises(ValueError, match=r"protocol bbox-image needs boxes, animal . has none"):
        keypoints.run(model, [boxless], [PROTOCOLS["bbox-image"]])
    bare = dataclasses.replace(pairs[0], source=dataclasses.replace(pairs[0].source, keypoints=None))
    with pytest.raises(ValueError, match=r"animal . has no keypoints; expected a view annotated with them"):
        keypoints.run(model, [bare])
    nameless = dataclasses.replace(pairs[0], source=dataclasses.replace(pairs[0].source, name=""))
    with pytest.raises(ValueError, match="needs a name, so that its image is encoded only once"):
        keypoints.run(model, [nameless])
    with pytest.raises(ValueError, match="2 processes need a run folder that all of them see"):
        keypoints.run(model, pairs, processes=Processes(0, 2))
    with pytest.raises(ValueError, match="no protocol 'gecko'; choices: geco, geco-apk, bbox-image"):
        protocols_named(("gecko",))
    keypoints.run(model, pairs, settings=QUICK, cache=tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"are damaged .*; delete it"):
        keypoints.run(model, pairs, settings=QUICK, cache=tmp_path)


@pytest.mark.skipif("GECO_DATA" not in os.environ, reason="set GECO_DATA to the folder of datasets")
def test_the_shares_of_real_birds_are_those_of_the_paper():
    from geco import data

    pairs = data.load("cub", Path(os.environ["GECO_DATA"]) / "CUB_200_2011", "test", {"n_pairs": 2000})
    nowhere = {}
    for index, pair in enumerate(pairs):
        queries = int(pair.source.points.visible.sum())
        nowhere[index] = keypoints.Prediction(
            torch.zeros(1, queries, 2, dtype=torch.float64), torch.zeros(1, queries).double()
        )
    report = keypoints.summarise(pairs, nowhere, [Protocol()], settings=QUICK, label="nowhere", data="cub")
    shares = next(table for table in report.tables if table.name == "imbalance").rows[-1]
    assert shares[2] == pytest.approx(11, abs=2)
    assert shares[4] == pytest.approx(78, abs=2)


def test_without_twins_there_is_no_table_about_them():
    """As on PF-WILLOW, whose keypoints have no names: everything would be case 1x, or a dash."""
    alone = Skeleton(painted.SKELETON.names, twin=tuple(range(5)), mirror=tuple(range(5)))
    pairs = [dataclasses.replace(pair, skeleton=alone) for pair in painted.pairs(6)]
    report = keypoints.run(painted.Painter(), pairs, settings=QUICK)
    assert [table.name for table in report.tables] == ["headline", "pck-geco", "hidden", "radii"]
    rows = {row[0]: row[1] for row in report.tables[0].rows}
    assert "1x correct" in rows
    assert not any(name.startswith(("11", "10", "01")) for name in rows)
    assert not any(math.isnan(cell.value) for cell in rows.values())


def test_every_column_of_a_report_is_explained():
    report = keypoints.run(painted.Painter(blind=True), painted.pairs(), settings=QUICK)
    page = rendering.report_page(report, [])
    named = {name for table in report.tables[:-1] for name in table.columns} | {row[0] for row in report.tables[0].rows}
    unexplained = named - {"", "category", "protocol", "geco"} - set(glossary.MEANINGS)
    assert not {name for name in unexplained if "@" not in name}
    for name, meaning in glossary.explained(sorted(named)):
        assert f"<b>{name}</b>: {viz.escape(meaning)}" in page
