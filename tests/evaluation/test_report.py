"""Reports survive the way to disk and back, those of release 0.1 too."""

import dataclasses
import json
import math

import pytest
from reported import TABLE

from geco.evaluation import Curve, Estimate, Measure, Report, Table, load_report, report_json, side_by_side
from geco.evaluation.rendering import cell_text
from geco.evaluation.report import from_json
from geco.system import provenance

REPORT = Report(
    benchmark="keypoints",
    label="stub",
    data="zoo",
    measures=(
        Measure("PCK", 0.7125, "geco", 0.1, low=0.6, high=0.80125),
        Measure("nothing", math.nan),
        Measure("encode", 4.5, unit="ms"),
    ),
    tables=(TABLE,),
    curves=(Curve("pck", (0.1, 0.2), (0.5, math.nan)),),
    counts={"geco": {"cat": {"n": 12}}},
    settings={"alphas": [0.1]},
    provenance=provenance.collect(seed=3),
)


def same(a, b):
    """Equality in which NaN equals NaN."""
    return repr(a) == repr(b)


def test_json_comes_back_as_it_was():
    text = report_json(REPORT)
    raw = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert raw["values"] == {"geco PCK@0.1": 0.7125, "nothing": None, "encode": 4.5}
    assert raw["intervals"]["geco PCK@0.1"] == [0.6, 0.80125]
    assert "encode" not in raw["intervals"]
    back = from_json(text)
    assert same(back.measures, REPORT.measures)
    assert same(back.values, REPORT.values)
    assert same(back.curves, REPORT.curves)
    assert same(back.intervals, REPORT.intervals)
    assert back.tables[0].rows[0] == TABLE.rows[0]
    assert cell_text(back.tables[0].rows[1][2]) == "–"
    assert report_json(back) == text


def test_a_report_of_release_0_1_is_read():
    values = {"geco PCK@0.1": 0.7125, "geco hidden threshold": 0.4, "nothing": None}
    old = {"benchmark": "keypoints", "label": "stub", "data": "zoo", "values": values}
    report = from_json(json.dumps({**old, "intervals": {"geco PCK@0.1": [0.6, 0.80125]}}))
    pck = report.measure("PCK", "geco", 0.1)
    assert (pck.value, pck.low, pck.high) == (0.7125, 0.6, 0.80125)
    assert same(report.values, {**values, "nothing": math.nan})
    assert report.intervals["geco PCK@0.1"] == (0.6, 0.80125)
    both = side_by_side([report, REPORT])
    assert both.rows[0] == ("geco PCK@0.1", *[Estimate(71.25, 60.0, 80.125)] * 2)
    assert both.rows[1][:2] == ("geco hidden threshold", 0.4), "a similarity is not a share"


def test_a_measure_is_found_by_what_it_is():
    pck = [Measure("PCK", value, "geco", radius) for radius, value in ((0.05, 0.3), (0.1, 0.6))]
    report = Report("keypoints", "stub", "zoo", (*pck, Measure("PCK", 0.5, "bbox-image", 0.1), Measure("Acc", 0.9)))
    assert report.measure("Acc").value == 0.9
    assert report.measure("PCK", "geco", 0.1).value == 0.6
    assert report.measure("PCK", "bbox-image").value == 0.5
    assert report.measure("PCK", radius=0.05).value == 0.3
    with pytest.raises(ValueError, match=r"several measures PCK: geco PCK@0.05, geco PCK@0.1; say which"):
        report.measure("PCK", "geco")
    with pytest.raises(ValueError, match=r"the report of stub has no measure 'geco PCK@0.2'; it has: geco PCK@0.05, "):
        report.measure("PCK", "geco", 0.2)


def test_reports_stand_side_by_side():
    other = dataclasses.replace(REPORT, label="other", measures=(Measure("PCK", 0.5, "geco", 0.1),))
    table = side_by_side([REPORT, other])
    assert table.columns == ("", "stub on zoo", "other on zoo")
    assert table.rows[0] == ("geco PCK@0.1", Estimate(71.25, 60.0, 80.125), 50.0)
    assert table.rows[2][:2] == ("encode", 4.5), "a time is not a share"
    assert [cell_text(cell) for cell in table.rows[1][1:]] == ["–", "–"]


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ValueError, match="a row needs 2 cells, got 1"):
        Table("t", "t", ("a", "b"), (("only",),))
    with pytest.raises(FileNotFoundError, match=r"holds no report\.json; give the folder of a finished run"):
        load_report(tmp_path)
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; run the evaluation again"):
        load_report(tmp_path)
    (tmp_path / "report.json").write_text('{"some": "thing"}')
    with pytest.raises(ValueError, match=r"not a report: expected the report\.json"):
        load_report(tmp_path)
