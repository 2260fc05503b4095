"""Reports for people: nothing is a dash, every digit is in the files, and a folder holds everything."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from reported import TABLE
from rich.console import Console

from geco.errors import InputError
from geco.evaluation import Curve, Measure, Report, load_report, rendering, save_report

REPORT = Report(
    benchmark="keypoints",
    label="stub",
    data="zoo",
    measures=(Measure("PCK", 0.7125, "geco", 0.1, low=0.6, high=0.80125), Measure("nothing", math.nan)),
    tables=(TABLE,),
    curves=(Curve("pck", (0.1, 0.2), (0.5, math.nan)),),
    counts={"geco": {"cat": {"n": 12}}},
    settings={"alphas": [0.1], "nothing": math.nan},
)


def test_nothing_is_a_dash_everywhere_people_look():
    console = Console(file=io.StringIO(), width=120)
    console.print(rendering.rich_table(TABLE))
    printed = console.file.getvalue()
    assert "71.2 ±10.1" in printed
    row = next(line for line in printed.splitlines() if "empty" in line)
    assert row.count("–") == 2
    assert "nan" not in printed.lower()
    assert r"empty & 0 & -- & -- \\" in rendering.latex_text(TABLE)
    assert "nan" not in rendering.report_page(REPORT, []).lower()


def test_csv_has_full_precision_and_separate_interval_columns():
    rows = list(csv.DictReader(io.StringIO(rendering.csv_text(TABLE))))
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
    text = rendering.latex_text(TABLE)
    assert r"cat\_1 & 12 & 71.2 [60.0, 80.1] & 3.0 \\" in text
    assert r"PGCK\_11" in text
    assert text.count(r"\begin") == text.count(r"\end") == 1
    assert r"\begin{tabular}{lrrr}" in text


def test_what_others_published_is_grey_and_what_is_read_begins_on_the_left():
    prose = "because its file is nowhere to be found, and nobody knows why"
    table = replace(TABLE, rows=(*TABLE.rows[:2], ("paper", 12, 70.0, prose)), quoted=(2,))
    lines = rendering.latex_text(table).splitlines()
    assert r"\begin{tabular}{lrrp{0.35\linewidth}}" in lines
    assert lines[-3].startswith(r"\textcolor{gray}{paper} & \textcolor{gray}{12} & \textcolor{gray}{70.0} & ")
    assert "textcolor" not in "".join(lines[:-3])
    page = rendering.report_page(replace(REPORT, tables=(table,)), [])
    assert page.count('<tr class="quoted"><td>paper</td>') == 1
    assert f'<td class="prose">{prose}</td>' in page
    console = Console(file=io.StringIO(), width=160, force_terminal=True, color_system="standard")
    console.print(rendering.rich_table(table))
    grey = [line for line in console.file.getvalue().splitlines() if "\x1b[90m" in line]
    assert len(grey) == 1
    assert "paper" in grey[0]
    with pytest.raises(InputError, match="quoted must be numbers of its rows, got \\(3,\\)"):
        replace(table, quoted=(3,))


def test_a_folder_holds_everything_and_can_be_read_again(tmp_path):
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1])
    index = save_report(REPORT, tmp_path / "run", {"pck_over_radius": figure})
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
    of_folder, of_file = load_report(tmp_path / "run"), load_report(tmp_path / "run" / "report.json")
    assert repr(of_folder) == repr(of_file)  # in which NaN equals NaN
    assert of_folder.tables[0].rows[0] == TABLE.rows[0]


def test_what_each_pair_added_lies_beside_the_report(tmp_path):
    samples = {"geco": {"measures": ["PCK@0.1"], "numerator": [[1.0], [math.nan]], "denominator": [[1.0], [2.0]]}}
    save_report(replace(REPORT, samples=samples), tmp_path)
    assert "samples" not in json.loads((tmp_path / "report.json").read_text())
    assert load_report(tmp_path).samples["geco"]["numerator"] == [[1.0], [None]]
