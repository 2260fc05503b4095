"""`geco transfer` with one target and with many: tables, files that can be read back, boxes, masks, mistakes."""

import csv
import io
import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from geco.cli import build, run
from geco.propagation import HIDDEN, VISIBLE, read_annotations


@pytest.fixture(scope="module")
def app():
    return build()


@pytest.fixture
def place(tmp_path, monkeypatch, image_file):
    """A folder with a source, targets in a folder of their own, and points."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    image_file("a.jpg", seed=1)
    for seed, name in enumerate(("photos/b.jpg", "photos/c.jpg"), 2):
        image_file(name, (80, 100), seed=seed)
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    (tmp_path / "points.csv").write_text("name,x,y\nleft eye,10,20\nnose,30.5,40\n")
    return tmp_path


@pytest.fixture
def invoke(app, place, tiny_folder):
    def call(*arguments):
        words = ["transfer", *map(str, arguments), "-m", str(tiny_folder), "--size", "56"]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return call


def test_one_target_has_a_table_and_a_picture(invoke, place):
    result = invoke("a.jpg", "photos/b.jpg", "--points-file", "points.csv")
    assert result.exit_code == 0
    words = result.stdout.split()
    assert {"photos/b.jpg", "left", "eye", "nose", "x", "y", "score"} <= set(words)
    assert (place / "transfer.png").is_file()


def test_scripts_get_rows_and_no_picture_unless_they_ask(invoke, place):
    rows = json.loads(invoke("a.jpg", "photos/b.jpg", "-p", "10,20 30.5,40", "--json").stdout)
    assert [row["image"] for row in rows] == ["photos/b.jpg"] * 2
    assert not list(place.glob("*.png"))
    printed = invoke("a.jpg", "photos/b.jpg", "-p", "10,20 30.5,40", "--csv", "-o", "t.png").stdout
    assert [float(row["target_x"]) for row in csv.DictReader(io.StringIO(printed))] == [r["target_x"] for r in rows]
    assert (place / "t.png").is_file()


@pytest.mark.parametrize("targets", [("photos",), ("photos/*.jpg",), ("photos/b.jpg", "photos/c.jpg", "photos")])
def test_files_folders_and_patterns_are_targets_each_once(invoke, place, targets):
    rows = json.loads(invoke("a.jpg", *targets, "-p", "10,20", "--json").stdout)
    assert [row["image"] for row in rows] == ["photos/b.jpg", "photos/c.jpg"]
    alone = json.loads(invoke("a.jpg", "photos/c.jpg", "-p", "10,20", "--json").stdout)
    assert abs(alone[0]["score"] - rows[1]["score"]) < 1e-5
    assert not list(place.glob("*.png"))


def test_a_folder_gets_pictures_and_points(invoke, place):
    assert invoke("a.jpg", "photos", "-p", "10,20", "-o", "found").exit_code == 0
    names = {"b-transfer.png", "c-transfer.png", "points.csv"}
    assert {path.name for path in (place / "found").iterdir()} == names


def test_what_is_written_is_read_back_as_points_and_as_labels(invoke, place):
    common = ("--points-file", "points.csv", "--threshold", "-1")
    rows = json.loads(invoke("a.jpg", "photos", *common, "-o", "photos/found.csv", "--json").stdout)
    labels = read_annotations(place / "photos" / "found.csv")
    assert labels.skeleton.names == ("left eye", "nose")
    assert [image.path.name for image in labels.images] == ["b.jpg", "c.jpg"]
    for image, first in zip(labels.images, (0, 2), strict=True):
        assert image.animals[0].state.tolist() == [VISIBLE] * 2
        expected = [place for row in rows[first : first + 2] for place in (row["target_x"], row["target_y"])]
        assert image.animals[0].xy.flatten().tolist() == pytest.approx(expected, abs=1e-3)
    for back in (("--points-file", "photos/found.csv"), ("-p", "photos/found.csv")):
        again = json.loads(invoke("photos/c.jpg", "a.jpg", *back, "--json").stdout)
        assert [row["name"] for row in again] == ["left eye", "nose"]
        places = [(row["source_x"], row["source_y"]) for row in again]
        assert places == [(row["target_x"], row["target_y"]) for row in rows[2:]]
    assert invoke("a.jpg", "photos", *common, "-o", "found.json").exit_code == 0
    assert read_annotations(place / "found.json").images[1].animals[0].state.tolist() == [VISIBLE] * 2


def test_what_is_printed_is_read_back_too(invoke, place):
    printed = invoke("a.jpg", "photos", "--points-file", "points.csv", "--threshold", "-1", "--csv").stdout
    (place / "printed.csv").write_text(printed)
    rows = [row for row in csv.DictReader(io.StringIO(printed)) if row["image"] == "photos/c.jpg"]
    again = json.loads(invoke("photos/c.jpg", "a.jpg", "-p", "printed.csv", "--json").stdout)
    assert [row["source_x"] for row in again] == [float(row["target_x"]) for row in rows]
    assert len(read_annotations(place / "printed.csv").images) == 2


def test_hidden_points_are_hidden_labels_and_no_points(invoke, place):
    assert invoke("a.jpg", "photos", "-p", "10,20", "--threshold", "2", "-o", "found.csv").exit_code == 0
    assert read_annotations(place / "found.csv").images[0].animals[0].state.tolist() == [HIDDEN]


def test_a_box_and_a_mask_restrict_the_answers(invoke, place):
    mask = Image.new("L", (80, 100), 0)
    mask.paste(255, (50, 60, 60, 75))
    (place / "masks").mkdir()
    for name in ("b", "c"):
        mask.save(place / "masks" / f"{name}.png")
    points = ("-p", "10,20 100,70", "--json")
    for part in (("--target-mask", "masks"), ("--target-mask", "masks/b.png"), ("--target-box", "50,60,60,75")):
        rows = json.loads(invoke("a.jpg", "photos", *points, *part).stdout)
        assert len(rows) == 4
        for row in rows:
            assert 50 <= row["target_x"] <= 60, part
            assert 60 <= row["target_y"] <= 75, part
    two = ("--target-box", "0,0,40,40", "--target-box", "40,40,80,100")
    rows = json.loads(invoke("a.jpg", "photos", *points, *two, "--box", "5,5,110,85").stdout)
    assert [row["target_x"] <= 40 for row in rows] == [True, True, False, False]
    masks = ("--mask", "photos/b.jpg", "--target-mask", "masks", "--mode", "transport")
    assert invoke("photos/b.jpg", "photos/c.jpg", "-p", "10,20", *masks).exit_code == 0


def test_a_damaged_target_is_named_and_the_others_stay(place, tiny_folder, capfd):
    (place / "photos" / "d.jpg").write_bytes((place / "a.jpg").read_bytes()[:300])
    line = ["transfer", "a.jpg", "photos", "-p", "10,20", "-o", "found.csv", "-m", str(tiny_folder), "--size", "56"]
    assert run(line) == 1
    shown = capfd.readouterr()
    assert "1 of 3 targets left out: photos/d.jpg is damaged" in shown.err
    assert len(read_annotations(place / "found.csv").images) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["photos", "-p", "1,2", "-o", "t.png"], 2, "2 targets need --out FOLDER or FILE.csv"),
        (["photos", "-p", "1,2", "-o", "photos/../points.csv", "--points-file", "points.csv"], 2, "not both"),
        (["photos", "-p", "points.csv", "-o", "points.csv"], 1, "is an input and would be overwritten"),
        (["photos", "-p", "points.csv", "-p", "1,2"], 2, "not both"),
        (["none/*.jpg", "-p", "1,2"], 1, "does not exist; expected an image, a folder of images, or a pattern"),
        (["empty", "-p", "1,2"], 1, "empty holds no image"),
        (["photos", "-p", "1,2", "--box", "1,2,3"], 2, "a box is x0,y0,x1,y1"),
        (["photos", "-p", "1,2", "--box", "30,30,80,80"], 1, "outside the source's box"),
        (["photos", "-p", "1,2", *["--target-box", "0,0,40,40"] * 3], 2, "given 3 times for 2 targets"),
        (["photos", "-p", "1,2", "--target-mask", "empty"], 1, "empty has no mask for b.jpg; expected b.png"),
        (["photos", "-p", "1,2", "--mask", "a.jpg"], 2, "--mask is used by --mode transport"),
        (["photos/b.jpg", "-p", "1,2", "--target-mask", "a.jpg"], 1, "a mask is as large as its image"),
        (["photos", "-p", "other.csv"], 1, "other.csv has no points of a.jpg; its images are x.jpg"),
        (["photos", "-p", "hidden.csv"], 1, "calls all of its points hidden"),
        (["photos", "-p", "twice.csv", "-o", "found.csv"], 1, "two points are called 'eye'"),
    ],
)
def test_mistakes_are_one_line(place, tiny_folder, capfd, words, code, message):
    (place / "empty").mkdir()
    (place / "other.csv").write_text("image,x,y\nx.jpg,1,2\n")
    (place / "hidden.csv").write_text("x,y,visible\n1,2,0\n")
    (place / "twice.csv").write_text("x,y,name\n1,2,eye\n3,4,eye\n")
    before = (place / "points.csv").read_bytes()
    assert run(["transfer", "a.jpg", *words, "-m", str(tiny_folder), "--size", "56"]) == code
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert message in lines[0]
    assert (place / "points.csv").read_bytes() == before
    assert not (place / "found.csv").exists()


def test_match_leaves_the_background_out(app, place, tiny_folder):
    mask = Image.new("L", (80, 100), 0)
    mask.paste(255, (20, 30, 70, 80))
    mask.save("mask.png")

    def rows(*words):
        common = ["match", "photos/b.jpg", "photos/c.jpg", "-m", str(tiny_folder), "--size", "112", "--json"]
        return json.loads(
            CliRunner().invoke(app, [*common, "--threshold", "-1", *words], catch_exceptions=False).stdout
        )

    everything, masked = rows(), rows("--foreground", "--mask", "mask.png", "--target-mask", "mask.png")
    assert 0 < len(masked) < len(everything)
    for row in masked:
        for side in ("source", "target"):
            assert 20 <= row[f"{side}_x"] <= 70
            assert 30 <= row[f"{side}_y"] <= 80
    assert 0 < len(rows("--foreground")) < len(everything)
    for row in rows("--box", "0,0,40,100"):
        assert row["source_x"] <= 40
