"""Reports survive the way to disk and back, and show nothing as "–"."""

import csv
import dataclasses
import io
import json
import math
import subprocess

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from geco import report
from geco.report import Curve, Estimate, Report, Table

TABLE = Table(
    "pck",
    "PCK & <co>",
    ("category", "n", "PCK", "PGCK_11"),
    (
        ("cat_1", 12, Estimate(71.25, 60.0, 80.125), 3.0),
        ("empty", 0, Estimate(math.nan, math.nan, math.nan), math.nan),
        ("all", 12, 71.25, None),
    ),
    note="share of 100 % <hits>",
)
REPORT = Report(
    benchmark="keypoints",
    label="stub",
    data="zoo",
    values={"geco PCK@0.1": 0.7125, "nothing": math.nan, "encode ms": 4.5},
    intervals={"geco PCK@0.1": (0.6, 0.80125)},
    tables=(TABLE,),
    curves=(Curve("pck", (0.1, 0.2), (0.5, math.nan)),),
    counts={"geco": {"cat": {"n": 12}}},
    settings={"alphas": [0.1]},
    provenance=report.provenance(seed=3),
)


def same(a, b):
    """Equality in which NaN equals NaN."""
    return repr(a) == repr(b)


def test_json_comes_back_as_it_was():
    text = report.to_json(REPORT)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    back = report.from_json(text)
    assert same(back.values, REPORT.values)
    assert same(back.curves, REPORT.curves)
    assert back.intervals == REPORT.intervals
    assert back.tables[0].rows[0] == TABLE.rows[0]
    assert report.shown(back.tables[0].rows[1][2]) == "–"
    assert report.to_json(back) == text


def test_nothing_is_a_dash_everywhere_people_look():
    console = Console(file=io.StringIO(), width=120)
    console.print(report.rich_table(TABLE))
    printed = console.file.getvalue()
    assert "71.2 ±10.1" in printed
    row = next(line for line in printed.splitlines() if "empty" in line)
    assert row.count("–") == 2
    assert "nan" not in printed.lower()
    assert r"empty & 0 & -- & -- \\" in report.latex_text(TABLE)
    assert "nan" not in report.page(REPORT, []).lower()


def test_csv_has_full_precision_and_separate_interval_columns():
    rows = list(csv.DictReader(io.StringIO(report.csv_text(TABLE))))
    assert rows[0] == {
        "category": "cat_1",
        "n": "12",
        "PCK": "71.25",
        "PCK low": "60.0",
        "PCK high": "80.125",
        "PGCK_11": "3.0",
    }
    assert rows[1]["PCK"] == rows[1]["PGCK_11"] == ""
    assert rows[2]["PCK"] == "71.25"


def test_latex_escapes_and_is_balanced():
    text = report.latex_text(TABLE)
    assert r"cat\_1 & 12 & 71.2 [60.0, 80.1] & 3.0 \\" in text
    assert r"PGCK\_11" in text
    assert text.count(r"\begin") == text.count(r"\end") == 1
    assert r"\begin{tabular}{lrrr}" in text


def test_a_folder_holds_everything_and_can_be_read_again(tmp_path):
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1])
    index = report.save(REPORT, tmp_path / "run", {"pck_over_radius": figure})
    page = index.read_text(encoding="utf-8")
    assert {p.name for p in index.parent.iterdir()} == {
        "report.json",
        "pck.csv",
        "tables.tex",
        "pck_over_radius.png",
        "index.html",
    }
    assert 'src="pck_over_radius.png"' in page
    assert "PCK &amp; &lt;co&gt;" in page
    assert "<hits>" not in page
    assert same(report.load(tmp_path / "run"), report.load(tmp_path / "run" / "report.json"))


def test_reports_stand_side_by_side():
    other = dataclasses.replace(REPORT, label="other", values={"geco PCK@0.1": 0.5}, intervals={})
    table = report.side_by_side([REPORT, other])
    assert table.columns == ("", "stub on zoo", "other on zoo")
    assert table.rows[0] == ("geco PCK@0.1", Estimate(71.25, 60.0, 80.125), 50.0)
    assert table.rows[2][1] == 4.5  # a time is not a share
    assert [report.shown(cell) for cell in table.rows[1][1:]] == ["–", "–"]


def test_provenance_says_what_ran():
    made = report.provenance(seed=7)
    import torch

    assert made["seed"] == 7
    assert made["versions"]["torch"] == torch.__version__
    json.dumps(made)


def test_the_commit_is_that_of_the_source_tree(tmp_path):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    assert report._commit(tmp_path) is None
    git("init")
    (tmp_path / "report.py").write_text("1")
    assert report._commit(tmp_path) is None  # a tree that merely lies around the package is not its history
    git("add", "report.py")
    git("commit", "-m", "one")
    commit = report._commit(tmp_path)
    assert len(commit) == 40
    (tmp_path / "report.py").write_text("2")
    assert report._commit(tmp_path) == commit + "+"


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ValueError, match="a row needs 2 cells, got 1"):
        Table("t", "t", ("a", "b"), (("only",),))
    with pytest.raises(FileNotFoundError, match=r"holds no report\.json; give the folder of a finished run"):
        report.load(tmp_path)
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; run the evaluation again"):
        report.load(tmp_path)
    (tmp_path / "report.json").write_text('{"some": "thing"}')
    with pytest.raises(ValueError, match=r"not a report: expected the report\.json"):
        report.load(tmp_path)
