"""Labels in every format: written and read again, recognised by content, refused in one line where they are wrong."""

import csv
import json
import shutil
from dataclasses import replace

import annotated
import pytest
import torch
from annotated import check_same, label_set, write_images
from dataset_trees import real, real_root
from hostile.verdicts import unchecked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geco.data import named, published_skeletons
from geco.errors import FileError, GecoError, InputError, MissingFileError
from geco.propagation import (
    FORMATS,
    HIDDEN,
    UNKNOWN,
    VISIBLE,
    LabelledImage,
    LabelSet,
    format_for,
    lost,
    read_annotations,
    write_annotations,
)

FILES = {"coco": "l.json", "csv": "l.csv", "cvat": "l.xml", "labelstudio": "l.json", "sleap": "l.slp"}


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "shots")


@pytest.mark.parametrize("name", FILES)
def test_places_states_boxes_tracks_and_scores_survive(folder, name):
    before = label_set(folder, boxes=True, tracks=True, scores=True, edges=((0, 1), (0, 2)))
    path = write_annotations(before, folder / FILES[name], format=name)
    after = read_annotations(path)
    check_same(before, after, within=0.001)
    assert after.format == name
    assert after.category == ("animal" if name == "csv" else "mouse")
    assert after.edges == (() if name in ("csv", "labelstudio") else before.edges)
    animals = [[animal for image in labels.images for animal in image.animals] for labels in (before, after)]
    pairs = list(zip(*animals, strict=True))
    for one, other in pairs:
        assert other.track == one.track
        assert annotated.close(one.score, other.score, 1e-5) or name == "labelstudio"
        assert annotated.close(one.uncertainty, other.uncertainty, 1e-5) or name in ("labelstudio", "sleap")
        assert other.box is None if name == "sleap" else other.box == pytest.approx(one.box, abs=0.01)
    if name == "labelstudio":  # a point without a place has no region to put a score on
        scores = pairs[0][1].score
        assert scores[[0, 1, 3]].tolist() == pytest.approx(pairs[0][0].score[[0, 1, 3]].tolist())
        assert scores[2].isnan()


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_known_stays_unknown(folder, name):
    before = label_set(folder)
    after = read_annotations(write_annotations(before, folder / FILES[name], format=name))
    check_same(before, after, within=0.001)
    for image in after.images:
        for animal in image.animals:
            assert (animal.box, animal.track, animal.score, animal.uncertainty) == (None, "", None, None)
    if name != "csv":
        sized = [image for image in after.images if image.animals or name != "labelstudio"]
        assert [image.size for image in sized] == [annotated.SIZES[image.path.name] for image in sized]


@pytest.mark.parametrize("ending", [".csv", ".h5", ""])
def test_deeplabcut_holds_what_is_visible(tmp_path, ending):
    folder = write_images(tmp_path / "labeled-data" / "shots")
    for before in (annotated.alone(folder), label_set(folder, tracks=True), label_set(folder)):
        place = tmp_path / "project" if not ending else folder / f"CollectedData_Me{ending}"
        path = write_annotations(before, place, format="deeplabcut")
        after = read_annotations(path)
        assert after.format == "deeplabcut"
        assert [image.path.name for image in after.images] == [image.path.name for image in before.images]
        assert after.skeleton == before.skeleton
        for one, other in zip(before.images, after.images, strict=True):
            assert len(one.animals) == len(other.animals)
            for a, b in zip(one.animals, other.animals, strict=True):
                seen = a.state == VISIBLE
                assert b.state.tolist() == [VISIBLE if visible else UNKNOWN for visible in seen]
                assert torch.allclose(a.xy[seen], b.xy[seen], atol=0.001)
                assert b.track == a.track or (not a.track and b.track.startswith("individual"))
        if not ending:
            assert after.category == "mouse"
            shutil.rmtree(path)
    (line,) = lost(before, "dlc")
    assert "3 hidden points" in line


@pytest.mark.parametrize("ending", [".csv", ".h5"])
def test_an_animal_without_a_name_is_kept_beside_named_ones(folder, ending):
    marks = [(3.0, 4.0, VISIBLE)]
    before = built(folder, (["nose"], [[("", marks)], [("anna", marks)]]))
    after = read_annotations(write_annotations(before, folder / f"t{ending}", format="dlc"))
    assert [[animal.track for animal in image.animals] for image in after.images] == [["individual1"], ["anna"]]


def test_what_a_format_cannot_hold_is_said(folder):
    full = label_set(folder, boxes=True, scores=True)
    assert lost(full, "coco") == lost(full, "csv") == lost(full, "cvat") == ()
    assert [len(lost(full, name)) for name in ("sleap", "labelstudio", "deeplabcut")] == [2, 1, 3]


# --- properties -------------------------------------------------------------------------------------------------------

TEXT = st.text("abcdefgh _-éß鼻1<&>\"',;:/.", min_size=1, max_size=9).map(str.strip).filter(bool)
PLACES = st.tuples(st.floats(-50, 4000, width=32), st.floats(-50, 4000, width=32))
STATES = st.sampled_from([UNKNOWN, HIDDEN, VISIBLE])


@st.composite
def contents(draw):
    """Names, and for two images the animals: (track, [(x, y, state) of each name])."""
    names = draw(st.lists(TEXT, min_size=1, max_size=5, unique=True))
    images = []
    for _ in range(2):
        animals = []
        for number in range(draw(st.integers(0, 2))):
            points = []
            for state in draw(st.lists(STATES, min_size=len(names), max_size=len(names))):
                empty = state == UNKNOWN or (state == HIDDEN and draw(st.booleans()))
                points.append((*(annotated.NOWHERE if empty else draw(PLACES)), state))
            animals.append((draw(st.sampled_from(["", f"t{number}"])), points))
        images.append(animals)
    return names, images


def built(folder, content):
    names, images = content
    labelled = []
    for name, animals in zip(("a.png", "b.png"), images, strict=True):
        marked = tuple(annotated.animal(*points, track=track) for track, points in animals)
        labelled.append(LabelledImage(folder / name, marked, size=annotated.SIZES[name]))
    return LabelSet(named(names), labelled)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents())
def test_any_labels_come_back(folder, name, content):
    before = built(folder, content)
    path = write_annotations(before, folder / FILES[name], format=name)
    if name == "csv" and not any(image.animals for image in before.images):
        with pytest.raises(InputError, match="holds no points"):
            read_annotations(path)
        return
    check_same(before, read_annotations(path), within=0.005)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents())
def test_both_tables_of_deeplabcut_say_the_same(folder, content):
    before = built(folder, content)
    ways = [write_annotations(before, folder / f"t{ending}", format="dlc") for ending in (".csv", ".h5")]
    one, other = (read_annotations(way) for way in ways)
    check_same(one, other, within=1e-6)
    seen = [int((animal.state == VISIBLE).sum()) for image in before.images for animal in image.animals]
    assert one.labelled == sum(seen)


# --- which format -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "deeplabcut"])
def test_the_content_tells_the_format_whatever_the_file_is_called(folder, name):
    path = write_annotations(label_set(folder), folder / FILES.get(name, "l.h5"), format=name)
    renamed = path.rename(folder / "labels.txt")
    assert read_annotations(renamed).format == name


def test_the_format_to_write(tmp_path):
    cases = [("x.json", "csv", "coco"), ("x.json", "labelstudio", "labelstudio"), ("x.csv", "deeplabcut", "deeplabcut")]
    cases += [
        ("x.csv", "coco", "csv"),
        ("x.slp", "coco", "sleap"),
        ("x.h5", "csv", "deeplabcut"),
        ("x", "csv", "deeplabcut"),
    ]
    cases += [("x.xml", "csv", "cvat"), ("X.H5", "sleap", "sleap"), ("x.csv", "sleap", "sleap")]
    for name, came_from, written in cases:
        assert format_for(tmp_path / name, came_from) == written, name
    assert format_for(tmp_path / "x.csv", "coco", "dlc") == "deeplabcut"
    with pytest.raises(InputError, match=r"labels end in .json, .csv, .xml, .slp, .h5, got '.txt'"):
        format_for(tmp_path / "x.txt", "coco")
    with pytest.raises(InputError, match=r"format cvat end in '.xml', got x.json"):
        format_for(tmp_path / "x.json", "coco", "cvat")
    with pytest.raises(InputError, match=r"the format of labels must be coco, csv, .* or sleap, got 'yolo'"):
        format_for(tmp_path / "x.json", "coco", "yolo")
    assert set(FORMATS) == {*FILES, "deeplabcut"}


# --- images that are elsewhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_missing_images_are_named_and_can_be_elsewhere(tmp_path, folder, name):
    path = write_annotations(label_set(folder), folder / FILES[name], format=name)
    (folder / "a.png").rename(tmp_path / "a.png")
    with pytest.raises(
        MissingFileError, match=r"1 of its 3 images is not there: .*a\.png; looked in .*shots; say where with ima"
    ):
        read_annotations(path)
    faults = []
    labels = read_annotations(path, faults=faults)
    assert [image.path.name for image in labels.images] == ["b.png", "c.png"]
    assert len(faults) == 1
    moved = folder.rename(tmp_path / "moved")
    (tmp_path / "a.png").rename(moved / "a.png")
    labels = read_annotations(moved / path.name, images=moved)
    assert [image.path for image in labels.images] == [moved / name for name in ("a.png", "b.png", "c.png")]
    with pytest.raises(MissingFileError, match="no such folder; expected the images of"):
        read_annotations(moved / path.name, images=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match="3 of its 3 images are not there"):
        read_annotations(moved / path.name, images=tmp_path / "empty", faults=[])


def test_two_names_for_one_image_are_not_guessed(tmp_path, folder):
    table = "image,name,x,y\none/a.png,nose,1,2\ntwo/a.png,nose,3,4\n"
    (folder / "l.csv").write_text(table)
    with pytest.raises(InputError, match=r"two/a\.png and one/a\.png both lead to"):
        read_annotations(folder / "l.csv")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_nothing_is_written_over_or_half_written(tmp_path, folder):
    labels = label_set(folder)
    (tmp_path / "out.json").mkdir()
    with pytest.raises(FileError, match="is a folder; expected the name of a file"):
        write_annotations(labels, tmp_path / "out.json")
    with pytest.raises(FileError, match="exists already; give the project a new folder"):
        write_annotations(labels, folder, format="deeplabcut")
    with pytest.raises(InputError, match="there are no labels to write"):
        write_annotations(replace(labels, images=()), tmp_path / "none.json")
    gone = replace(labels, images=[replace(labels.images[0], path=folder / "gone.png", size=None)])
    with pytest.raises(InputError, match=r"gone\.png cannot be read, and Label Studio's format needs the size"):
        write_annotations(gone, tmp_path / "l.json", format="labelstudio")
    with pytest.raises(InputError, match=r"gone\.png cannot be copied into the project"):
        write_annotations(gone, tmp_path / "project", format="deeplabcut")
    film = replace(labels, images=[replace(labels.images[0], path=folder / "film.mp4", frame=3)])
    for name in ("cvat", "labelstudio"):
        with pytest.raises(InputError, match=r"film\.mp4 is a video, and .* holds labels of images; write coco"):
            write_annotations(film, tmp_path / FILES[name], format=name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "shots"]


WRONG = {
    "empty.json": ("", "holds no labels: it is empty"),
    "empty.csv": ("\n\n", "is empty; expected"),
    "page.json": ("<!doctype html><html>", "it is a web page"),
    "other.json": ('{"shapes": [], "version": "5"}', "is JSON of another kind, an object with shapes, version"),
    "list.json": ("[1, 2]", "is JSON of another kind"),
    "broken.json": ('{"images": [', "is not JSON"),
    "other.csv": ("frame,left,right\n1,2,3\n", "is a table with ['frame', 'left', 'right']"),
    "other.xml": ("<?xml version='1.0'?><VOC/>", "is XML of another kind (<VOC>)"),
    "newer.xml": (
        "<annotations><version>2.0</version></annotations>",
        "has version '2.0'; expected annotations of CVAT",
    ),
    "video.xml": ("<annotations><version>1.1</version><track/></annotations>", "has tracks of a video"),
    "bomb.xml": ('<!DOCTYPE a [<!ENTITY b "bb">]><annotations/>', "defines a document type"),
    "bare.xml": ("<annotations><version>1.1</version></annotations>", "no skeletons and no points"),
    "labels.zip": ("PK\x03\x04", "it is a ZIP archive; unpack it"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_holds_no_labels_is_one_line(tmp_path, name):
    content, message = WRONG[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(GecoError) as raised:
        read_annotations(tmp_path / name)
    assert message in str(raised.value)
    assert name in str(raised.value)


def test_a_folder_a_missing_file_and_things_that_are_no_path(tmp_path):
    with pytest.raises(InputError, match=r"is a folder without config\.yaml"):
        read_annotations(tmp_path)
    with pytest.raises(InputError, match="is a folder; expected a file of labels"):
        read_annotations(tmp_path, format="coco")
    with pytest.raises(MissingFileError, match="no such file; expected labels: COCO"):
        read_annotations(tmp_path / "gone.json")
    for value in (None, 3, "", b"x"):
        with pytest.raises(InputError, match="the file of labels must be a path"):
            unchecked(read_annotations)(value)


def test_names_of_keypoints_are_checked(folder):
    path = write_annotations(label_set(folder), folder / "l.json", format="coco")
    for names, message in (
        (["a", "a", "b", "c"], "names the keypoint 'a' twice"),
        (["a", "", "b", "c"], "should be text"),
    ):
        document = json.loads(path.read_text())
        document["categories"][0]["keypoints"] = names
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match=message):
            read_annotations(path)


# --- real labels ------------------------------------------------------------------------------------------------------


@real
@pytest.mark.parametrize("name", [*FILES, "deeplabcut"])
def test_real_dogs_come_back(tmp_path, name):
    """25 images with 24 joints, some of them not visible, in every format."""
    root = real_root("StanfordExtra")
    rows = csv.DictReader((root / "keypoint_definitions.csv").read_text().splitlines())
    images = []
    for record in json.loads((root / "StanfordExtra_sample.json").read_text()):
        points = [(x, y, VISIBLE) if v else (*annotated.NOWHERE, UNKNOWN) for x, y, v in record["joints"]]
        size = (record["img_height"], record["img_width"])
        images.append(LabelledImage(root / "sample_imgs" / record["img_path"], (annotated.animal(*points),), size=size))
    before = LabelSet(named([row["Name"] for row in rows]), images, category="dog")
    assert before.labelled == 383
    path = write_annotations(before, tmp_path / FILES.get(name, "l.h5"), format=name)
    after = read_annotations(path, images=root / "sample_imgs")
    check_same(before, after, within=0.006 if name == "labelstudio" else 0.001)


@real
def test_a_real_file_of_coco():
    root = real_root("AP-10K-sample")
    labels = read_annotations(root / "test_ap10k.json")
    document = json.loads((root / "test_ap10k.json").read_text())
    assert len(labels.images) == len(document["images"])
    assert labels.labelled == sum(record["num_keypoints"] for record in document["annotations"])
    assert labels.skeleton.mirror == published_skeletons("ap10k")["animal"].mirror
