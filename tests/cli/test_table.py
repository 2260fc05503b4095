"""`geco table`, end to end: small random backbones on small datasets of three kinds."""

import csv
import json

import pytest
import torch
from dataset_trees import write_birds
from tabled import write_animals, write_squares
from training_data import tiny_vit

from geco import cli
from geco.evaluation import published
from geco.models import Geco


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Birds, squares and animals with parts, of which two images are among the squares; and two backbones."""
    root = tmp_path_factory.mktemp("tables")
    write_birds(root / "cub", count=4)
    squares = write_squares(root / "spair", pairs=2)
    write_animals(root / "parts", copied=sorted((squares / "JPEGImages" / "cat").glob("*.jpg"))[2:4])
    tiny_vit(root / "tiny")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield root
    torch.set_num_threads(threads)


@pytest.fixture
def geco(place, monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(place)

    def run(*words):
        code = cli.run([str(word) for word in words])
        return code, *capfd.readouterr()

    return run


DATA = ("--data", "cub=cub", "--data", "pascal-part=parts", "--data", "spair=spair", "--loader", "cub.n_pairs=5")
SMALL = ("--size", "56", "--repeats", "2")


def test_the_table_has_every_format_and_the_numbers_of_geco_evaluate(geco, place, tmp_path, monkeypatch):
    out = tmp_path / "out"
    words = ["table", "dinov2-base=tiny", "geo", *DATA, *SMALL, "-o", out]
    code, shown, said = geco(*words)
    assert code == 1
    assert said.splitlines()[-1].startswith("error: 1 of 2 rows are missing or not complete, the table says why: geo")
    assert "dinov2-base: 0.0 M parameters, 0.1 MB; " in said
    assert "Rows that are missing" in shown
    expected = {"index.html", "report.json", "tables.tex", "pck.csv", "pgck-cub.csv", "pgck-spair.csv", "missing.csv"}
    assert {path.name for path in out.iterdir()} == expected | {
        "parts-pascal_part.csv",
        "pck_against_speed.png",
        "results",
    }
    rows = list(csv.DictReader((out / "pck.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["dinov2-base", "DINOv2-B (paper)", "geo", "Geo (paper)"]
    assert (rows[1]["SPair"], rows[1]["ms"], rows[2]["SPair"]) == ("67.1", "38–43", "")
    assert r"\textcolor{gray}{DINOv2-B (paper)} & \textcolor{gray}{92.8} & " in (out / "tables.tex").read_text()
    assert '<tr class="quoted"><td>DINOv2-B (paper)</td>' in (out / "index.html").read_text()

    alone = ["evaluate", "keypoints", "cub", "cub", "-m", "tiny", "--size", "56", "--set", "n_pairs=5", "--json"]
    report = json.loads(geco(*alone)[1])
    assert float(rows[0]["CUB"]) == 100 * report["values"]["geco PCK@0.1"]
    values = json.loads((out / "report.json").read_text())["values"]
    # Mean scores may differ by the rounding of float32: the table groups points into matrix products in its own way.
    assert {key: values[f"dinov2-base on cub test: {key}"] for key in report["values"]} == pytest.approx(
        report["values"], rel=1e-6
    )

    def encode(*_):
        raise AssertionError("an image is encoded again")

    monkeypatch.setattr(Geco, "encode", encode)
    code, again, _ = geco(*words, "--json")
    assert code == 1
    assert json.loads(again)["values"] == values


def test_the_paper_s_list_is_filled_in_and_a_row_s_model_can_be_said(geco, tmp_path):
    words = ["table", "--paper", "geco=tiny", "tiny", "--data", "spair=spair", "--limit", "1", "--size", "56"]
    code, shown, said = geco(*words, "--repeats", "0", "-o", tmp_path, "--json")
    report = json.loads(shown)
    (pck, *_) = report["tables"]
    ours = [row[0] for number, row in enumerate(pck["rows"]) if number not in pck["quoted"]]
    assert ours == [*published.IN_THE_TABLE, "tiny"]
    assert [row[0] for row in pck["rows"]][-3:] == ["geco", "GECO (paper)", "tiny"]
    assert pck["rows"][-3][1:] == pck["rows"][-1][1:]
    assert set(report["counts"]["missing"]) == set(published.IN_THE_TABLE) - {"geco"}
    assert code == 1
    assert "error: 6 of 8 rows" in said


def test_a_complete_table_ends_with_0(geco, tmp_path):
    words = ["table", "tiny", "--data", "spair=spair", "--limit", "1", "--size", "56", "--repeats", "1"]
    words += ["--split", "train", "--split", "spair=val", "-o", tmp_path]
    code, shown, said = geco(*words)
    assert code == 0, said
    assert "1 pairs of spair val, protocol geco" in " ".join(shown.split())
    assert not (tmp_path / "missing.csv").exists()
    code, shown, said = geco(*words, "--dtype", "bfloat16")
    assert code == 0, said
    assert "(cpu, bfloat16, 56 px, batch 1;" in " ".join(shown.split())
    assert len(list((tmp_path / "results").iterdir())) == 2, "in another precision it is another model"


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["tiny"], "no datasets: give --data name=ROOT", 2),
        (["--data", "spair=spair"], "no models: name some, like dinov2-base, or give --paper", 2),
        (["tiny=", "--data", "spair=spair"], "a row is a model, or LABEL=MODEL, got 'tiny='", 2),
        (["tiny", "--data", "spair"], "--data takes name=ROOT", 1),
        (["tiny", "--data", "spair=nowhere"], "nowhere: no such folder; expected the root of spair", 1),
        (["tiny", "--data", "spair=spair", "--split", "cub=test"], "--split names cub, but --data only spair", 1),
        (["tiny", "--data", "spair=spair", "--protocol", "pck"], "there is no protocol 'pck'; choices: geco", 1),
        (["tiny", "--data", "spair=spair", "--memory", "nan"], "--memory must be a number", 1),
        (["tiny", "--data", "spair=spair", "-o", "tiny"], "is an input and would be overwritten", 1),
        (["tiny", "--data", "spair=spair", "--cache", "spair"], "is an input and would be overwritten", 1),
        (["tiny", "--data", "spair=spair", "-o", "spair/Layout/large/val.txt"], "is a file, not a folder", 1),
    ],
)
def test_mistakes_are_one_line_before_anything_is_done(geco, tmp_path, words, message, code):
    out = [] if "-o" in words else ["-o", tmp_path / "out"]
    ended, shown, said = geco("table", *words, *out)
    assert (ended, shown) == (code, "")
    assert message in said
    assert not (tmp_path / "out").exists()
