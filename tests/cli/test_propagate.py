"""`geco propagate` from the labels to the page, with a tiny random model."""

import json
import re

import pytest
from typer.testing import CliRunner

from geco.cli import build, run
from geco.propagation import read_annotations


@pytest.fixture
def command(tiny_folder, image_file, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    for seed, name in enumerate(("a.jpg", "b.jpg", "new/c.jpg", "new/d.jpg")):
        image_file(name, seed=seed)
    rows = ("a.jpg,left_eye,30,40,1", "a.jpg,right_eye,60,40,1", "b.jpg,left_eye,20,50,1", "b.jpg,right_eye,,,0")
    (tmp_path / "labels.csv").write_text("\n".join(("image,name,x,y,visible", *rows)) + "\n")

    def call(*arguments, labels="labels.csv"):
        code = run(["propagate", labels, *map(str, arguments), "-m", str(tiny_folder), "--size", "56"])
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return call


def test_every_image_gets_every_keypoint_and_the_result_loads_as_labels(command, tmp_path):
    code, out, err = command("new", "-o", "all.json", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["images"], summary["animals"], summary["failed"]) == (2, 2, {})
    labels = read_annotations(tmp_path / "all.json")
    assert [image.path.name for image in labels.images] == ["c.jpg", "d.jpg"]
    assert labels.skeleton.names == ("left_eye", "right_eye")
    assert all(image.animals[0].uncertainty is not None for image in labels.images)
    assert not list(tmp_path.glob("*.partial*"))
    code, _, err = command("new", "-o", "again.csv", labels="all.json")
    assert code == 0, err


def test_the_format_is_that_of_the_labels_or_the_one_asked_for(command, tmp_path):
    assert command("new", "-o", "results/all.csv")[0] == 0
    assert read_annotations(tmp_path / "results" / "all.csv", images="new").format == "csv"
    assert command("new/c.jpg", "-o", "all.xml", "--format", "cvat")[0] == 0
    assert read_annotations(tmp_path / "all.xml").format == "cvat"
    code, _, err = command("new", "-o", "all.xml", "--format", "coco")
    assert code == 1
    assert "end in '.json'" in err


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_labelled(command, tmp_path):
    (tmp_path / "new" / "bad.jpg").write_bytes(b"no image")
    code, _, err = command("new", "-o", "all.json")
    assert code == 1
    assert "bad.jpg" in err
    assert "1 of 3 images were left out" in err
    assert len(read_annotations(tmp_path / "all.json").images) == 2


def test_an_interrupted_run_resumes_and_ends_with_the_same_file(command, tmp_path, monkeypatch):
    from geco.propagation import journal

    assert command("new", "-o", "whole.json")[0] == 0
    add, noted = journal.Journal.add, []

    def interrupted(self, result):
        if noted:
            raise KeyboardInterrupt
        noted.append(result)
        add(self, result)

    monkeypatch.setattr(journal.Journal, "add", interrupted)
    assert command("new", "-o", "all.json")[0] == 130
    assert (tmp_path / "all.json.partial.jsonl").exists()
    assert not (tmp_path / "all.json").exists()
    monkeypatch.setattr(journal.Journal, "add", add)
    code, _, err = command("new", "-o", "all.json")
    assert code == 0
    assert "resumes after 1 of 2 images" in err
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert not (tmp_path / "all.json.partial.jsonl").exists()


def test_the_page_holds_the_points_and_needs_nothing_else(command, tmp_path):
    code, _, err = command("new", "-o", "all.json", "--review")
    assert code == 0, err
    page = (tmp_path / "all-review.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)|https?://(?!www\.w3\.org/2000/svg)""", page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    found = {image["name"]: image for image in data["images"]}
    assert set(found) == {"new/c.jpg", "new/d.jpg"} == set(data["next"])
    predicted = read_annotations(tmp_path / "all.json").images[0]
    (animal,) = found["new/c.jpg"]["animals"]
    for (x, y, state, unsure, _), xy, expected, share in zip(
        animal, predicted.animals[0].xy, predicted.animals[0].state, predicted.animals[0].uncertainty, strict=True
    ):
        assert [x, y, unsure] == pytest.approx([*xy.tolist(), float(share)], abs=0.02)
        assert state == expected


def test_corrections_join_the_labels_of_the_next_round(command, tmp_path):
    assert command("new", "-o", "all.json")[0] == 0
    code, _, err = command("new", "-o", "all.json", "--round", "2", "--corrected", "all.json")
    assert code == 1
    assert "unchanged" in err
    document = json.loads((tmp_path / "all.json").read_text())
    document["annotations"][0]["keypoints"][:3] = [5.0, 6.0, 2]
    (tmp_path / "corrected.json").write_text(json.dumps(document))
    code, _, err = command("new", "-o", "all.json", "--round", "2", "--corrected", "corrected.json")
    assert code == 0, err
    assert "1 corrected images join the labels" in err
    again = read_annotations(tmp_path / "all-round2.json").images[0]
    assert (again.animals[0].xy[0] - 5.5).abs().max() < 25  # the corrected image itself is a reference now
    code, _, err = command("new", "-o", "all.json", "--round", "2")
    assert code == 2
    assert "--corrected" in err


def test_videos_become_tracks_in_a_folder_and_a_broken_one_is_named(command, tmp_path):
    pytest.importorskip("av", reason="needs the extra video")
    from filmed import noise, write_video

    write_video(tmp_path / "new" / "walk.mp4", noise(6))
    (tmp_path / "new" / "torn.mp4").write_bytes(b"no video")
    code, _, err = command("new/walk.mp4", "new/torn.mp4", "-o", "tracks", "--overlay")
    assert code == 1
    assert "torn.mp4" in err
    assert "Traceback" not in err
    assert {file.name for file in (tmp_path / "tracks").iterdir()} == {"walk.csv", "walk-overlay.mp4"}
    assert [image.frame for image in read_annotations(tmp_path / "tracks" / "walk.csv", images="new").images] == list(
        range(6)
    )
    code, _, err = command("new", "-o", "tracks2")
    assert code == 2
    assert "give one kind at a time" in " ".join(err.split())
    assert command("new/walk.mp4", "-o", "tracks2", "--review")[0] == 2
    assert command("new/c.jpg", "-o", "c.json", "--overlay")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere does not exist"),
        (("new", "-o", "labels.csv"), "labels.csv is an input and would be overwritten"),
        (("new", "-o", "all.txt"), "labels end in"),
        (("new", "--boxes", "labels.csv"), "is a table with"),
        (("new", "--images", "absent"), "no such folder"),
        (("new", "--threshold", "3"), "threshold"),
    ],
)
def test_mistakes_get_one_line(command, tmp_path, arguments, message):
    before = (tmp_path / "labels.csv").read_bytes()
    code, _, err = command(*arguments)
    assert code in (1, 2)
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert (tmp_path / "labels.csv").read_bytes() == before


def test_labels_without_images_are_named(command, tmp_path):
    (tmp_path / "b.jpg").unlink()
    code, _, err = command("new", "-o", "all.json")
    assert code == 0, err
    assert "left out" in err
    assert "b.jpg" in err


def test_help_has_examples():
    shown = CliRunner().invoke(build(), ["propagate", "--help"]).output
    assert shown.count("Example:") == 4
